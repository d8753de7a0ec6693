"""An earlier result of a bench: what it has is not run again."""

import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from ardor.benches.summary import Measure
from ardor.cli import cli
from ardor.errors import ArdorError

GRID = """# A grid that takes seconds
seeds = 1
[settings]
space = {layout = "R", states = 1, channels = 2, ops = "sep_conv_3x3,skip_connect"}
search = {epochs = 1, batch = 8}
train.epochs = 1
[methods.short]
[methods.long.search]
epochs = 2
"""
ASKED = ("--data", "others.npz")


@pytest.fixture(autouse=True)
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A small grid on forty images, to be changed at will."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Measure, "stages", ("search", "train", "prune", "evaluate"))
    pixels = np.arange(40 * 64).reshape(40, 8, 8) % 251
    np.savez("others.npz", x=pixels.astype(np.uint8), y=np.arange(40) % 2)
    found = tomllib.loads(GRID)
    monkeypatch.setattr("ardor.benches.grid.file_of", lambda name: found)
    return found


def bench(*options: object, name: str = "tiny") -> dict[str, Any]:
    command = ["bench", name, *ASKED, *map(str, options), "--folder", "out", "--json"]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def elsewhere() -> Path:
    """The result of a bench whose runs are not here any more, nor its images where they were."""
    bench()
    Path("out/tiny-others.npz/results.json").rename("earlier.json")
    shutil.rmtree("out")
    return Path("earlier.json")


def test_what_a_result_has_is_not_run_again() -> None:
    earlier = json.loads(elsewhere().read_text())
    Path("data").mkdir()
    Path("others.npz").rename("data/others.npz")
    options = ("--data", "data/others.npz", "--results", "earlier.json")
    so_far = bench(*options, "--so-far")
    assert so_far["table"] == earlier["table"]
    assert so_far["settings"] == earlier["settings"]
    assert not Path("out").exists()
    whole = bench(*options, "--seeds", 2)
    assert sorted(path.name for path in Path("out/tiny-others.npz").glob("*-*")) == [
        *("long-1", "short-1"),
    ]
    assert [run for run in whole["runs"] if run["seed"] == 0] == earlier["runs"]
    assert [row["seeds"] for row in whole["table"]] == [2, 2]
    accuracies = [run["metrics"]["test_accuracy"] for run in whole["runs"]]
    assert whole["table"][0]["test_accuracy"] == pytest.approx(sum(accuracies[::2]) / 2)
    one = bench(*options, "--methods", "long")
    assert [run["run"] for run in one["runs"]] == ["long-0"]


def test_a_result_says_nothing_of_the_machine_it_was_made_on() -> None:
    found = json.loads(elsewhere().read_text())
    assert found["settings"]["long"]["data"]["source"] == "others.npz"
    assert found["settings"]["long"]["search"]["epochs"] == 2
    assert str(Path.cwd()) not in json.dumps(found)
    assert not found["settings"]["short"].keys() & {"seed", "device"}


def test_a_result_of_other_settings_is_not_mixed_in(grid: dict[str, Any]) -> None:
    elsewhere()
    grid["settings"]["train"]["epochs"] = 2
    with pytest.raises(ArdorError, match=r"in 'earlier.json' was made with train.epochs = 1, not"):
        bench("--results", "earlier.json")


def test_a_result_of_another_bench_is_not_mixed_in() -> None:
    elsewhere()
    with pytest.raises(ArdorError, match="is a result of 'tiny', not of the bench 'other'"):
        bench("--results", "earlier.json", name="other")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda found: found.pop("settings"),
        lambda found: found["settings"].update(short=3),
        lambda found: found.update(runs=[1]),
        lambda found: found["runs"][0].pop("kept"),
        lambda found: found["runs"][0]["metrics"].pop("stages"),
        lambda found: found["runs"][0]["kept"].update(more=1),
    ],
)
def test_a_result_that_is_not_whole_is_refused(spoil: Callable[[dict[str, Any]], Any]) -> None:
    found = json.loads(elsewhere().read_text())
    spoil(found)
    Path("earlier.json").write_text(json.dumps(found))
    with pytest.raises(ArdorError, match="is no result as this Ardor writes them") as error:
        bench("--results", "earlier.json")
    assert "--results" in error.value.hint


def test_a_bench_without_runs_has_no_use_for_a_result() -> None:
    with pytest.raises(ArdorError, match="--results r.json is not for the bench 'speed'"):
        CliRunner().invoke(cli, ["bench", "speed", "--results", "r.json"], catch_exceptions=False)
