"""A search that must end in a given time: how long it is, and how far it says it is."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Clock, stopping_at
from standins.toy import Toy

from ardor import methods
from ardor.data import Images
from ardor.errors import ArdorError, Interrupted
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.searching.loop import search
from ardor.searching.result import SearchResult
from ardor.settings.merge import resolve
from ardor.settings.sections import LONGEST, SearchConfig
from ardor.training.timetable import AIM, Length, StepTimes, Timetable

BASE = {"batch": 4, "augment": (), "warmup": 0.2, "epochs": LONGEST, "shrink": 0}


def walked(
    timetable: Timetable,
    clock: Clock,
    *,
    early: float = 1.0,
    late: float = 1.0,
    between: float = 0.0,
    slower: Callable[[float], float] = lambda now: 1.0,
) -> list[float]:
    """Progress at every step of a stage whose steps take so many seconds."""
    epoch, seen = 0, []
    while epoch < timetable.epochs:
        step = 0
        while step < timetable.steps_of(epoch):
            at = timetable.progress(epoch, step)
            seen.append(at)
            seconds = (late if at >= timetable.step_times.slower_from else early) * slower(
                clock.now
            )
            clock.now += seconds
            timetable.step_times.add_step(at, seconds)
            step += 1
            timetable.fit(epoch, step, clock.now)
        epoch += 1
        clock.now += between
        timetable.step_times.add_between(between)
    return [*seen, timetable.progress(epoch, 0)]


@pytest.mark.parametrize("late", [1.0, 2.0, 7.0])  # foreseen are two
@pytest.mark.parametrize(("steps", "between"), [(10, 3.0), (10, 0.0), (2, 5.0), (1000, 20.0)])
def test_the_time_is_used_and_kept(steps: int, between: float, late: float) -> None:
    step_times = StepTimes(slower_from=0.2, slower=2.0, between=between, looks=1)
    timetable, clock = Timetable(LONGEST, steps, time=1200.0, step_times=step_times), Clock()
    progress = walked(timetable, clock, early=1.0, late=late, between=between)
    assert 0.8 * 1200 < clock.now + between <= 1200
    assert progress == sorted(progress)
    assert progress[0] == 0.0
    assert progress[-1] == 1.0
    assert max(b - a for a, b in zip(progress, progress[1:], strict=False)) < 0.1


def test_a_machine_that_slows_down_ends_in_time_all_the_same() -> None:
    timetable, clock = Timetable(LONGEST, 30, time=600.0), Clock()
    progress = walked(timetable, clock, slower=lambda now: 1.0 if now < 200 else 3.0)
    assert 0.8 * 600 < clock.now <= 600
    assert progress == sorted(progress)


def test_given_epochs_are_the_most() -> None:
    timetable, clock = Timetable(2, 10, time=1200.0), Clock()
    progress = walked(timetable, clock, early=1.0, late=1.0, between=0.0)
    assert len(progress) == 21
    assert progress == pytest.approx([n / 20 for n in range(21)])


def test_without_a_time_nothing_is_fitted() -> None:
    timetable, clock = Timetable(3, 10), Clock()
    progress = walked(timetable, clock, early=100.0, late=1.0, between=0.0)
    assert progress == [(e + s / 10) / 3 for e in range(3) for s in range(10)] + [1.0]
    assert timetable.facts(5.0) == {}


def test_progress_goes_on_from_where_the_length_changed() -> None:
    schedule = Length(10.0).changed(2.0, 6.0)
    progress = [schedule.progress(at) for at in (2.0, 4.0, 6.0, 7.0)]
    assert progress == pytest.approx([0.2, 0.6, 1.0, 1.0])


def test_time_left_knows_that_steps_get_dearer() -> None:
    step_times = StepTimes(slower_from=0.5, slower=2.0, between=3.0, looks=2)
    step_times.add_step(0.0, 1.0)
    left = step_times.left(Length(4.0), 1.0, 1, 10)
    assert left == pytest.approx(10 * 1 + 20 * 2 + 3 * 3 + 2 * 3)
    for _ in range(4):
        step_times.add_step(0.5, 5.0)
    step_times.add_between(7.0)
    assert step_times.left(Length(4.0), 3.0, 3, 10) == pytest.approx(10 * 5 + 7 + 2 * 7)


@pytest.mark.parametrize("at", [0.0, 1.0, 2.5, 3.0, 6.2, 11.9, 12.0])
def test_every_round_has_cheap_steps_of_its_own(at: float) -> None:
    step_times = StepTimes(slower_from=0.25, rounds=3)  # the first of every four epochs is cheap
    for _ in range(4):
        step_times.add_step(0.0, 1.0)
        step_times.add_step(0.3, 5.0)
    step_times.add_between(0.0)
    points = [n / 100 for n in range(round(at * 100), 1200)]
    expected = sum(1.0 if point % 4 < 1 else 5.0 for point in points) / 100
    assert step_times.left(Length(12.0), at, 0, 1) == pytest.approx(expected, abs=1e-6)


def test_few_seconds_see_few_held_out_images() -> None:
    timetable = Timetable(LONGEST, 100, time=10.0, step_times=StepTimes(between=1000.0, looks=1))
    for step in range(4):
        timetable.step_times.add_step(0.0, 0.1)
        timetable.fit(0, step + 1, 0.1 * (step + 1))
    assert timetable.share == pytest.approx(0.2 * 10 / (2 * 1000 * 0.1))
    assert 0.4 + timetable.left(0, 4, 0.4) <= AIM * 10


def find(images: Images, run: Path, runtime: Runtime, **changes: object) -> SearchResult:
    config = SearchConfig(**{**BASE, **changes})
    return search(Toy(), methods.make("darts", Toy(), {}), images, config, run=run, runtime=runtime)


def ticking(seconds: float, watch: object = None) -> Runtime:
    """A machine on which every look at the clock takes so long."""
    runtime = Runtime.start("cpu", 0)
    runtime.clock = Clock(seconds)
    if watch is not None:
        runtime.report = watch
    return runtime


def logged(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_a_search_ends_in_its_time(bright: Images, tmp_path: Path) -> None:
    told: list[Progress] = []
    runtime = ticking(0.1, told.append)
    find(bright, tmp_path, runtime, time=60.0)
    assert 45 < runtime.clock.now <= 60
    assert told[-1].done == 1.0
    assert any("epochs fit into the time" in p.note for p in told)
    lines = logged(tmp_path)
    assert lines[-1]["epoch"] == lines[-1]["epochs"] == len(lines) > 3
    assert lines[0]["warmup"]
    assert not lines[-1]["warmup"]
    assert all(p.seconds_left <= 60 for p in told)


def test_less_than_an_epoch_still_teaches_the_gates(bright: Images, tmp_path: Path) -> None:
    find(bright, tmp_path, ticking(0.1), time=6.0, batch=2, held_out=0.2)
    (line,) = logged(tmp_path)
    assert "gates" in line


def test_what_was_spent_before_a_stop_counts(bright: Images, tmp_path: Path) -> None:
    runtime = stopping_at(20)
    runtime.clock = first = Clock(0.1)
    with pytest.raises(Interrupted):
        find(bright, tmp_path, runtime, time=60.0)
    second = ticking(0.1)
    find(bright, tmp_path, second, time=60.0)
    assert 45 < first.now + second.clock.now <= 61


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20m", 1200), ("90s", 90), ("1h30m", 5400), ("1200", 1200), (45, 45), ("1.5h", 5400)],
)
def test_times_are_read(text: object, seconds: float) -> None:
    assert SearchConfig(time=text).time == seconds


@pytest.mark.parametrize("text", ["abc", "", "20x", "m", "-5m", "1h30", -1])
def test_what_is_no_time_is_refused(text: object) -> None:
    with pytest.raises(ArdorError, match=r"search\.time = .* must be"):
        resolve({"search": {"time": text}})


def test_a_time_decides_the_epochs_unless_they_are_given_with_it() -> None:
    preset, both = {"search": {"epochs": 10}}, {"search": {"time": "1m", "epochs": 3}}
    assert resolve(preset, {"search": {"time": "1m"}}).search.epochs == LONGEST
    assert resolve(preset, both).search.epochs == 3
    assert resolve(preset, {"search": {"time": 0}}).search.epochs == 10
    assert resolve({"train": {"time": "1m"}}).train.epochs == LONGEST
