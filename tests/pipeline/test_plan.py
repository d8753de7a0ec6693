"""One time for a whole run: how it is shared out, and that a run keeps it."""

import json
import time
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from ardor.cli import cli
from ardor.data import Dataset, Images
from ardor.pipeline.plan import FEW, IMAGES, Work, planned, search_share, shares, suited, usual
from ardor.pipeline.resolve import over_usual, resolved
from ardor.pipeline.run import STAGES, Run
from ardor.pipeline.verbs import resume
from ardor.settings.merge import resolve
from ardor.settings.presets import preset

PHOTOS = preset("photos")


def images(count: int, side: int = 32) -> Dataset:
    part = Images(torch.zeros(count, 1, side, side, dtype=torch.uint8), torch.arange(count) % 2)
    return Dataset("some", part, part[torch.arange(count // 5)], ("a", "b"), ())


def work(count: int, pace: float = 1e-3, side: int = 32, **changes: object) -> Work:
    config = resolve(PHOTOS, changes)
    return Work(config, images(count, side), STAGES, None, pace)


@pytest.mark.parametrize("limit", [60.0, 300.0, 36_000.0])
def test_the_stages_have_the_whole_time_and_no_more(limit: float) -> None:
    for of in (work(500), work(2 * IMAGES), work(500, method={"name": "darts"})):
        times, _ = shares(of, limit)
        given = times["search"].get("time", 0.0) + times["train"]["time"]
        assert 0.65 * limit < given < limit - 5


def test_few_images_or_little_time_are_not_searched_and_why_is_said() -> None:
    few, why = search_share(work(IMAGES - 1), 3600.0)
    assert few == 0
    assert f"{IMAGES - 1:,} images are too few" in why
    short, why = search_share(work(2 * IMAGES), 30.0)
    assert short == 0
    assert "passes over the images are too few" in why
    assert search_share(work(2 * IMAGES), 36_000.0)[0] > 0


def test_a_method_that_learns_by_gradients_is_always_searched_and_random_never() -> None:
    assert search_share(work(100, method={"name": "darts"}), 60.0)[0] > 0
    assert search_share(work(100, method={"name": "random"}), 60.0) == (0.0, "")


def test_a_training_goes_on_from_a_search_and_is_from_scratch_without() -> None:
    assert shares(work(2 * IMAGES), 36_000.0)[0]["train"]["start"] == "search"
    assert "start" not in shares(work(100), 60.0)[0]["train"]  # the default: scratch


def test_large_images_are_made_smaller_only_where_there_would_be_few_passes() -> None:
    passes = 60 / (1000 * 1e-3)
    assert suited(work(1000, side=64), passes * 1000 * 1e-3 * FEW) == 64
    assert suited(work(1000, 0.004, side=64), 60.0) == 32
    assert suited(work(1000, 0.004, side=64, data={"size": 64}), 60.0) == 64  # as was asked for


def test_without_a_time_nobody_waits_longer_than_a_quarter_of_an_hour() -> None:
    assert usual(work(60_000, 0.01)) == 900
    assert 60 <= usual(work(50)) < 120


def test_epochs_in_place_of_a_time_are_no_plan() -> None:
    layers = (PHOTOS, {"train": {"epochs": 2}, "data": {"source": "digits"}})
    config, found = resolved(layers)
    plan = planned(layers, config, found, STAGES)
    assert (plan.config.time, plan.config.train.time, plan.said) == (0.0, 0.0, ())


def test_what_names_no_space_and_no_method_is_over_the_usual_preset() -> None:
    assert over_usual({"seed": 1}) == (PHOTOS, {"seed": 1})
    named = {"method": {"name": "darts"}}
    assert over_usual(named, {"seed": 1}) == (named, {"seed": 1})
    assert over_usual({"method": {"share": 0.5}, "space": {"depth": 1}})[0] == PHOTOS
    for other in ({"space": {"layout": "R"}}, {"method": {"select": "snr"}}):
        assert over_usual(other) == (other,)


def test_a_run_keeps_its_time_and_says_its_plan(tmp_path: Path) -> None:
    limit, begin = 25.0, time.perf_counter()
    run = Run.create(
        tmp_path / "run", PHOTOS, {"time": limit, "data": {"source": "digits"}}, command="x"
    )
    (line,) = run.said
    assert line.startswith("8x8 pixels; training ")
    assert "no search, the likeliest under the prior is trained" in line
    left: list[float] = []
    resume(run, on_progress=lambda p: left.append(p.run_seconds_left))
    took = time.perf_counter() - begin
    assert took < 1.5 * limit  # what follows the training depends on a busy machine
    assert left[0] <= limit
    assert left == sorted(left, reverse=True)
    assert run.metrics["test_accuracy"] > 0.8


def test_the_command_takes_one_time_for_everything(tmp_path: Path) -> None:
    words = ["run", "digits", "--time", "30m", "--dry-run", "--json"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.splitlines()[-1])
    assert 0.9 * 1800 < found["train"]["seconds"] < 1800
