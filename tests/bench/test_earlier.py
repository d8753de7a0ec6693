"""An earlier result of a bench: what it has is not run again."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from ardor.cli import cli
from ardor.errors import ArdorError

GRID = """# A grid that takes seconds
measure = "searches"
seeds = 1
[settings]
space = {layout = "R", states = 1, channels = 2, ops = "sep_conv_3x3,skip_connect"}
search = {epochs = 1, batch = 8}
[methods.short]
[methods.long.search]
epochs = 2
"""


def bench(*options: object, name: str = "tiny") -> dict[str, Any]:
    images = [] if "--data" in options else ["--data", "others.npz"]
    command = ["bench", name, *images, *map(str, options), "--folder", "out", "--json"]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def prepare(patch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """A folder with forty images; the grid, to be changed at will."""
    patch.chdir(folder)
    pixels = np.arange(40 * 64).reshape(40, 8, 8) % 251
    np.savez("others.npz", x=pixels.astype(np.uint8), y=np.arange(40) % 2)
    grid = tomllib.loads(GRID)
    patch.setattr("ardor.bench.grid.file_of", lambda name: grid)
    return grid


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The result of a bench that was run in another place."""
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch, tmp_path_factory.mktemp("elsewhere"))
        bench()
        return Path("out/tiny-others.npz/results.json").read_text()


@pytest.fixture(autouse=True)
def grid(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """That result as a file, and the same grid."""
    found = prepare(monkeypatch, tmp_path)
    Path("earlier.json").write_text(written)
    return found


@pytest.fixture
def earlier(written: str) -> dict[str, Any]:
    """What that result says."""
    found: dict[str, Any] = json.loads(written)
    return found


def test_what_a_result_has_is_not_run_again(earlier: dict[str, Any]) -> None:
    Path("data").mkdir()
    Path("others.npz").rename("data/others.npz")
    options = ("--data", "data/others.npz", "--results", "earlier.json")
    so_far = bench(*options, "--so-far")
    assert so_far["table"] == earlier["table"]
    assert so_far["settings"] == earlier["settings"]
    assert not Path("out").exists()
    whole = bench(*options, "--seeds", 2)
    made = sorted(path.name for path in Path("out/tiny-others.npz").glob("*-*"))
    assert made == ["long-1", "short-1"]
    assert [run for run in whole["runs"] if run["seed"] == 0] == earlier["runs"]
    assert [row["seeds"] for row in whole["table"]] == [2, 2]
    short = [run["metrics"]["skip_share"] for run in whole["runs"] if run["method"] == "short"]
    assert whole["table"][0]["skip_share"] == pytest.approx(sum(short) / 2)
    one = bench(*options, "--methods", "long")
    assert [run["run"] for run in one["runs"]] == ["long-0"]


def test_a_result_says_nothing_of_the_machine_it_was_made_on(earlier: dict[str, Any]) -> None:
    assert earlier["settings"]["long"]["data"]["source"] == "others.npz"
    assert earlier["settings"]["long"]["search"]["epochs"] == 2
    assert "elsewhere" not in json.dumps(earlier)
    assert not earlier["settings"]["short"].keys() & {"seed", "device"}


def test_a_result_of_other_settings_is_not_mixed_in(grid: dict[str, Any]) -> None:
    grid["settings"]["search"]["batch"] = 4
    with pytest.raises(ArdorError, match=r"in 'earlier.json' was made with search.batch = 8, not"):
        bench("--results", "earlier.json")


def test_a_result_of_another_bench_is_not_mixed_in() -> None:
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
def test_a_result_that_is_not_whole_is_refused(
    spoil: Callable[[dict[str, Any]], Any], earlier: dict[str, Any]
) -> None:
    spoil(earlier)
    Path("earlier.json").write_text(json.dumps(earlier))
    with pytest.raises(ArdorError, match="is no result as this Ardor writes them") as error:
        bench("--results", "earlier.json")
    assert "--results" in error.value.hint


def test_a_bench_without_runs_has_no_use_for_a_result() -> None:
    with pytest.raises(ArdorError, match="--results r.json is not for the bench 'speed'"):
        CliRunner().invoke(cli, ["bench", "speed", "--results", "r.json"], catch_exceptions=False)
