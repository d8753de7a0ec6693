"""How long it would take: measured step times, times the number of steps."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ardor.cli import cli
from ardor.errors import ArdorError
from ardor.pipeline.estimate import total
from ardor.runtime.cost import LONG, TIMED, timed
from ardor.runtime.memory import MARGIN, Need
from ardor.training.timetable import StepTimes, Timetable

MB = 2**20
TINY = [
    *("--set", "space.layout=R", "--set", "space.states=1", "--set", "space.channels=2"),
    *("--set", "search.batch=8", "--set", "train.batch=8", "--epochs", "10"),
]


@pytest.mark.parametrize(
    ("epochs", "steps", "warmup", "looks"), [(10, 5, 0.2, 1), (4, 7, 0.0, 50), (1, 20, 0.35, 0)]
)
def test_the_total_is_the_sum_over_all_steps(
    epochs: int, steps: int, warmup: float, looks: int
) -> None:
    timetable = Timetable(
        epochs, steps, step_times=StepTimes(slower_from=warmup, slower=2, looks=looks)
    )
    count = epochs * steps
    by_hand = sum(2.0 if step / count < warmup else 5.0 for step in range(count))
    expected = by_hand + 3.0 * epochs + 7.0 * looks
    assert total(timetable, early=2.0, late=5.0, between=3.0, scoring=7.0) == pytest.approx(
        expected
    )


def test_a_search_with_a_time_takes_no_longer_than_that() -> None:
    long, short = (Timetable(epochs, 10, time=60.0) for epochs in (99_999, 2))
    assert total(long, early=1.0, late=1.0, between=0.0, scoring=0.0) == 60.0
    assert total(short, early=1.0, late=1.0, between=0.0, scoring=0.0) == 20.0


@pytest.mark.parametrize(("first", "calls"), [(LONG + 1, 1), (LONG - 1, 1 + TIMED)])
def test_the_first_step_counts_only_where_steps_are_long(
    first: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [first, 3.0, 1.0, 2.0]
    done: list[float] = []
    monkeypatch.setattr("ardor.runtime.cost.once", lambda work: (work(), times[len(done) - 1])[1])
    seconds = timed(lambda: done.append(1.0))
    assert len(done) == calls
    assert seconds == (first if calls == 1 else 2.0)


def ardor(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.fixture(autouse=True)
def _images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred images of two classes, in the folder where the commands are given."""
    monkeypatch.chdir(tmp_path)
    pixels = np.arange(100 * 64).reshape(100, 8, 8) % 251
    np.savez("images.npz", x=pixels.astype(np.uint8), y=np.arange(100) % 2)
    monkeypatch.setattr("ardor.runtime.memory.need", lambda net, forward: Need(100 * MB, 10 * MB))


def test_a_dry_run_says_how_long_it_would_take_and_leaves_nothing(tmp_path: Path) -> None:
    found = json.loads(ardor("run", "images.npz", *TINY, "--dry-run", "--json").stdout)
    assert [path.name for path in tmp_path.iterdir()] == ["images.npz"]
    search, train = found["search"], found["train"]
    assert (search["steps"], train["steps"]) == (40 // 8, 72 // 8)  # halves; 72 of 80 to learn from
    assert search["memory_mb"] == train["memory_mb"] == 180  # eight images: 100 + 8 * 10
    steps = 10 * search["warmup_step_seconds"] + 40 * search["step_seconds"]
    looks = 10 * search["between_seconds"] + search["ranking_seconds"]
    assert search["seconds"] == pytest.approx(steps + looks)
    steps = 18 * train["warmup_step_seconds"] + 72 * train["step_seconds"]  # weights drawn from 0.2
    assert train["seconds"] == pytest.approx(steps + 10 * train["between_seconds"])


def test_a_dry_search_times_the_search_alone() -> None:
    assert "train" not in json.loads(
        ardor("search", "images.npz", *TINY, "--dry-run", "--json").stdout
    )
    none = ("--method", "random", "--set", "search.epochs=0")
    shown = ardor("search", "images.npz", *TINY, "--dry-run", *none).stdout
    assert "about 0 s" in shown


def test_a_dry_run_with_a_time_says_how_many_epochs_fit_into_it() -> None:
    found = json.loads(ardor("run", "images.npz", "--time", "1m", "--dry-run", "--json").stdout)
    train = found["train"]
    assert train["seconds"] <= 60
    epoch = train["steps"] * train["step_seconds"] + train["between_seconds"]
    assert (train["epochs"] - 1) * epoch < 60
    assert train["epochs"] < 99_999
    assert found["search"]["epochs"] == 0  # a hundred images are too few


def test_a_dry_search_counts_no_more_images_than_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ardor.searching.held_out.CURVE", 10)
    monkeypatch.setattr(
        "ardor.pipeline.estimate.scoring_time", lambda loop, images: 4000.0
    )  # of 40 images
    between = {}
    for keep in ("last", "best"):
        asked = ("search", "images.npz", *TINY, "--set", f"search.keep={keep}", "--dry-run")
        between[keep] = json.loads(ardor(*asked, "--json").stdout)["search"]["between_seconds"]
    # Eight of them are looked at when the rest of an epoch's end is timed.
    assert between["last"] == pytest.approx(200, abs=50)
    assert between["best"] == pytest.approx(3200, abs=50)


def test_a_step_that_does_not_fit_is_timed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ardor.runtime.memory.free", lambda device: MARGIN * 150.0 * MB)
    shown = ardor("run", "images.npz", *TINY, "--dry-run")
    assert "140 MB" in shown.stdout  # four images at a time: 100 + 4 * 10
    assert "--set search.accumulate=2\n" in shown.stdout
    monkeypatch.setattr("ardor.runtime.memory.free", lambda device: 100.0 * MB)
    with pytest.raises(ArdorError, match="100 MB are free"):
        ardor("run", "images.npz", *TINY, "--dry-run")


def test_a_dry_run_checks_what_the_run_would_check(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ArdorError, match="exists already"):
        ardor("run", "images.npz", "--run", "there", "--dry-run")
    with pytest.raises(ArdorError, match=r"search\.batch"):
        ardor("run", "images.npz", "--set", "search.batch=1", "--dry-run")
    with pytest.raises(ArdorError, match="no such file"):
        ardor("run", "missing.npz", "--dry-run")
