"""Benches: a grid of runs, on its own images or on others; a paper's table."""

import json
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ardor.bench import tables
from ardor.bench.grid import read
from ardor.bench.measures import Measure, Searches
from ardor.bench.plots import plots
from ardor.bench.runs import benches
from ardor.cli import cli
from ardor.cli.create import _layers
from ardor.errors import ArdorError, Interrupted
from ardor.layers.variational import PRUNE_AT
from ardor.pipeline.resolve import layered
from ardor.pipeline.run import STAGES, Run
from ardor.pipeline.stages import do
from ardor.settings.presets import presets

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import page  # noqa: E402

SETTINGS: dict[str, Any] = {
    "space": {"layout": "R", "states": 1, "channels": 2, "ops": "vinnas"},
    "search": {"epochs": 1, "batch": 8, "gate_rate": 0.1},
    "train": {"epochs": 1},
    "methods": {"vinnas": {"method": {"entropy": 10.0}}},
}
GRID = """# A grid that takes seconds
seeds = 1
[settings]
data.source = "nowhere"
space = {layout = "R", states = 1, channels = 2, ops = "sep_conv_3x3,skip_connect"}
search = {epochs = 1, batch = 8}
train.epochs = 1
[methods.shrinking.search]
shrink = 3
[methods.whole.search]
shrink = 0
"""


@pytest.fixture(autouse=True)
def _images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty images of two classes, in the folder where the commands are given; no slow stages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Measure, "stages", ("search", "train", "prune", "evaluate"))
    pixels = np.arange(40 * 64).reshape(40, 8, 8) % 251
    np.savez("others.npz", x=pixels.astype(np.uint8), y=np.arange(40) % 2)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The settings of a preset 'vinnas-mnist' that takes seconds, to be changed at will."""
    settings = json.loads(json.dumps(SETTINGS))
    monkeypatch.setattr("ardor.bench.grid.preset", lambda name: settings)
    return settings


def bench(*arguments: object, code: int = 0) -> Result:
    command = ["bench", *map(str, arguments), "--folder", "out", "--json"]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == code, result.stderr
    return result


def test_a_bench_on_other_images_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ardor.bench.grid.file_of", lambda name: tomllib.loads(GRID))
    rows = json.loads(bench("tiny", "--data", "others.npz").stdout)["table"]
    assert [row["method"] for row in rows] == ["shrinking", "whole"]
    assert all(0 < row["search_seconds"] < row["seconds"] for row in rows)
    assert Path("out/tiny-others.npz/results.json").exists()
    config = json.loads(Path("out/tiny-others.npz/whole-0/config.json").read_text())
    assert config["data"]["source"] == "others.npz"
    assert config["search"]["shrink"] == 0


def test_a_bench_can_follow_the_searches_of_the_networks_it_measures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grid = "measure = 'followed'\n" + GRID.replace("train.epochs = 1", "train.variational = false")
    followed = {"methods": {"darts-base": {"method": {"name": "darts"}}}}
    monkeypatch.setattr("ardor.bench.grid.file_of", lambda name: tomllib.loads(grid) | followed)
    result = json.loads(bench("skips", "--data", "others.npz").stdout)
    assert result["table"][0]["test_accuracy"] is not None
    assert [seen["epoch"] for seen in result["runs"][0]["seen"]] == [1]
    assert "accuracy" in tables.cells(result)[0][2]
    assert plots(result)["collapse"].count("darts, seed 0") == 2


def test_noise_that_searches_keep_is_counted() -> None:
    kept = [{"noise": noise, "sep_conv_3x3": 16 - noise} for noise in (10, 2)]
    runs = [
        {"metrics": {"stages": {"search": {"seconds": 1.0}}}, "kept": {"operations": o, "edges": 8}}
        for o in kept
    ]
    row = Searches().row("darts-s4", runs)
    assert (row["noise_share"], row["skip_share"]) == (0.375, 0.0)
    assert row["noise_share_std"] == pytest.approx(0.25 * 2**0.5)


def test_a_result_says_families_and_an_older_one_has_those_of_the_operations() -> None:
    cost = {"metrics": {"stages": {"search": {"seconds": 1.0}}}}
    older = {"operations": {"skip_connect": 5, "max_pool_3x3": 2, "lab_warp": 1}, "edges": 8}
    said = {**older, "families": {"skip": 5, "pool": 2, "other": 1}}
    rows = [Searches().row("darts", [{**cost, "kept": kept}]) for kept in (older, said)]
    assert rows[0] == rows[1]
    assert (rows[0]["skip_share"], rows[0]["pool_share"]) == (5 / 8, 2 / 8)
    own = {"operations": {"straight": 4, "mb3": 4}, "edges": 8, "families": {"skip": 4, "conv": 4}}
    assert Searches().row("darts", [{**cost, "kept": own}])["skip_share"] == 0.5


def test_a_papers_table_selects_twice_from_one_search(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ardor.methods.vinnas.snr", lambda mean, log_var: -mean)
    rows = "vinnas-snr,vinnas-magnitude,random,darts"
    asked = ("vinnas-mnist", "--data", "others.npz", "--seeds", 1, "--random", 2)
    result = json.loads(bench(*asked, "--methods", rows).stdout)
    place = Path("out/vinnas-mnist-others.npz")
    assert [(run["run"], run["seed"]) for run in result["runs"]] == [
        *(("vinnas-snr-0", 0), ("vinnas-magnitude-0", 0), ("random-0", 0), ("darts-0", 0)),
        ("random-1", 1),
    ]
    assert {row["method"]: row["seeds"] for row in result["table"]} == {
        **{"vinnas-snr": 1, "vinnas-magnitude": 1},
        **{"random": 2, "darts": 1},
    }
    first, second = (Run.open(place / name) for name in ("vinnas-snr-0", "vinnas-magnitude-0"))
    assert first.architecture != second.architecture
    logs = [(run.folder / "log.jsonl").read_text().splitlines()[0] for run in (first, second)]
    assert logs[0] == logs[1]  # to the second: it was not searched again
    assert (
        second.metrics["stages"]["search"]["seconds"] > first.metrics["stages"]["search"]["seconds"]
    )
    alone = {"method": {"select": "magnitude"}, "data": {"source": "others.npz"}}
    run = Run.create("alone", small, alone, stages=STAGES)
    do(run, "search")
    assert run.architecture == second.architecture
    row = result["table"][1]
    kept = [op for name, ops in second.architecture.kept if name != "reduce/>2" for op in ops]
    assert row["ops_used"] == len(set(kept))
    assert row["op_entropy"] == second.metrics["op_entropy"]
    chance = json.loads((place / "random-0/architecture.json").read_text())
    assert len(chance["candidates"]) == 1  # drawn, and chosen by nothing
    assert "search" not in (place / "random-0/log.jsonl").read_text()


def test_what_goes_on_otherwise_is_trained_though_the_selection_agrees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    longer = GRID.replace(
        "[methods.whole.search]\nshrink = 0", "[methods.longer.train]\nepochs = 2"
    )
    shared = "searched_by.longer = 'shrinking'\n" + longer
    monkeypatch.setattr("ardor.bench.grid.file_of", lambda name: tomllib.loads(shared))
    result = json.loads(bench("tiny", "--data", "others.npz").stdout)
    assert [run["run"] for run in result["runs"]] == ["shrinking-0", "longer-0"]
    first, second = (Run.open(Path("out/tiny-others.npz") / run["run"]) for run in result["runs"])
    assert first.architecture == second.architecture
    assert second.config.train.epochs == 2
    assert (second.folder / "trained").exists()


def test_selections_that_agree_are_trained_once(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ardor.methods.vinnas.snr", lambda mean, log_var: mean)
    options = ("--data", "others.npz", "--seeds", 1, "--random", 0)
    result = json.loads(bench("vinnas-mnist", *options).stdout)
    assert [run["run"] for run in result["runs"]] == ["vinnas-snr-0", "vinnas-snr-0"]
    first, second = result["table"]
    assert second["same_as"] == {"vinnas-snr": 1}
    assert first["test_accuracy"] == second["test_accuracy"]
    assert not Path("out/vinnas-mnist-others.npz/vinnas-magnitude-0/trained").exists()
    assert "1, 1 as vinnas-snr" in page.table(result)
    assert json.loads(bench("vinnas-mnist", *options, "--so-far").stdout)["left"] == 0


def test_a_bench_that_was_stopped_goes_on_and_shows_what_it_has(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("vinnas-mnist", "--data", "others.npz", "--seeds", 2, "--random", 0)
    with pytest.raises(ArdorError, match="no run of the bench 'vinnas-mnist' is finished"):
        bench(*asked, "--so-far")

    def stopped(run: Run, stage: str) -> None:
        if (run.config.seed, stage) == (1, "train"):
            raise Interrupted("train stopped")
        do(run, stage)

    with monkeypatch.context() as patch:
        patch.setattr("ardor.bench.runs.do", stopped)
        with pytest.raises(Interrupted):
            bench(*asked)
    partial = json.loads(bench(*asked, "--so-far").stdout)
    assert {run["seed"] for run in partial["runs"]} == {0}
    assert partial["left"] == 2
    kept = json.loads(Path("out/vinnas-mnist-others.npz/results.json").read_text())
    assert kept["table"] == partial["table"]
    bits = Path("out/vinnas-mnist-others.npz/vinnas-snr-0/metrics.json").read_bytes()
    whole = json.loads(bench(*asked).stdout)
    assert whole["left"] == 0
    assert [row["seeds"] for row in whole["table"]] == [2, 2]
    assert Path("out/vinnas-mnist-others.npz/vinnas-snr-0/metrics.json").read_bytes() == bits


def test_runs_of_other_settings_are_never_mixed_in(small: dict[str, Any]) -> None:
    asked = ("vinnas-mnist", "--data", "others.npz", "--seeds", 1, "--random", 0)
    bench(*asked)
    small["train"]["epochs"] = 2
    for options in (asked, (*asked, "--so-far")):
        with pytest.raises(ArdorError, match=r"vinnas-snr-0' was made with train.epochs = 1, not"):
            bench(*options)


def test_the_same_images_in_other_words_are_no_other_setting(small: dict[str, Any]) -> None:
    options = ("--seeds", 1, "--random", 0)
    whole = json.loads(bench("vinnas-mnist", "--data", "others.npz", *options).stdout)
    absolute = Path("others.npz").resolve()
    again = bench("vinnas-mnist", "--data", absolute, *options, "--so-far")
    assert json.loads(again.stdout)["table"] == whole["table"]


def test_a_threshold_that_was_picked_is_no_other_setting(small: dict[str, Any]) -> None:
    small["prune"] = {"max_params": 100_000}
    asked = ("vinnas-mnist", "--data", "others.npz", "--seeds", 1, "--random", 0)
    whole = json.loads(bench(*asked).stdout)
    assert whole["runs"][0]["metrics"]["threshold"] != PRUNE_AT
    assert json.loads(bench(*asked, "--so-far").stdout)["table"] == whole["table"]


def test_a_papers_table_needs_images() -> None:
    with pytest.raises(ArdorError, match="'vinnas-mnist' has no images of its own") as error:
        bench("vinnas-mnist")
    assert "--data" in error.value.hint


@pytest.mark.parametrize(
    "options", [("--random", 1), ("--so-far",), ("--methods", "darts"), ("--table", "t.csv")]
)
def test_options_that_a_bench_has_no_use_for(options: tuple[object, ...]) -> None:
    with pytest.raises(ArdorError, match="is not for the bench 'speed'"):
        bench("speed", *options)


def test_every_bench_has_a_title_and_every_preset_of_vinnas_a_bench() -> None:
    assert {"digits", "shrink", "speed"} <= benches().keys()
    assert {name for name in presets() if name.startswith("vinnas-")} <= benches().keys()
    assert all(benches().values())


def test_all_of_a_table_is_under_the_same_settings() -> None:
    rows = ("vinnas-snr", "vinnas-magnitude", "random", "darts")
    grid = read("vinnas-fashion", source="x", chance=10, methods=rows)
    assert grid.counts == {"vinnas-snr": 3, "vinnas-magnitude": 3, "random": 10, "darts": 3}
    searched, drawn = (grid.layers(row, 4) for row in ("darts", "random"))
    assert searched[0] == drawn[0] == grid.layers("vinnas-snr", 4)[0]
    assert drawn[-1] == {"seed": 4}


@pytest.mark.parametrize("name", sorted(benches().keys() - {"speed", "gradients", "rivals"}))
def test_the_command_of_every_row_can_be_typed_again(name: str) -> None:
    grid = read(name, source="some/where")
    for row in grid.rows:
        _, verb, *words = shlex.split(grid.command(row, "search"))
        context = cli.commands[verb].make_context(verb, words)
        given = {key: value for key, value in context.params.items() if value is not None}
        typed, meant = layered(_layers(given)), layered(grid.layers(row, 0))
        source = meant.data.model_copy(update={"source": "where"})
        assert typed == meant.model_copy(update={"data": source}), row


def test_rows_can_have_numbers_of_runs_of_their_own_unless_one_is_asked_for() -> None:
    counts = read("nasbench201", source="x").counts
    assert (counts["vinnas"], counts["snas"], counts["darts-long"]) == (5, 3, 1)
    assert set(read("nasbench201", source="x", seeds=2).counts.values()) == {2}


@pytest.mark.parametrize("data", ["mnist", "fashion", "cifar10"])
def test_the_papers_figures_stand_beside_ours(data: str) -> None:
    for version, rows in (("", 2), ("-v1", 3)):
        found = read(f"vinnas-{data}{version}", source="x").printed
        assert len(found["table"]) == rows
        assert ("one batch" in found["note"]) == (version == "-v1")
        for row in found["table"]:
            best = row["test_accuracy_percent"].partition("(")[2].rstrip(")")
            assert float(row["test_accuracy_percent"].split()[0]) <= float(best or 100)


def test_a_table_to_read_has_what_was_measured_and_what_is_printed() -> None:
    stages = [{"search": {"seconds": s}, "train": {"seconds": 9}} for s in (10, 14)]
    result = {
        "bench": "vinnas-mnist",
        "runs": [{"method": "vinnas-snr", "metrics": {"stages": each}} for each in stages],
        "table": [
            {
                **{"method": "vinnas-snr", "seeds": 2, "same_as": {}, "seconds": 21.0},
                **{"train_seconds": 9.0, "train_seconds_std": 0.0},
                **{"test_accuracy": 0.99, "test_accuracy_std": 0.001, "test_accuracy_best": 0.992},
                **{"nonzero_params": 2000, "nonzero_params_std": 10, "nonzero_params_best": 2005},
                **{"params": 8000},
                **{"op_entropy": 1.25, "ops_used": 4, "skip_share": 0.25, "pool_share": 0.5},
                **{"noise_share": 0.125, "collapsed": 1, "largest_curvature": 0.31},
            }
        ],
        "printed": read("vinnas-mnist-v1", source="x").printed,
    }
    measured, printed = page.table(result).splitlines()[2:4]
    assert measured.startswith("| `vinnas-snr` | 2 | 99.00% ± 0.10% (99.20%) | 2,000 ± 10 (2,005) ")
    assert "| 12 ± 3 s | 9 ± 0 s |" in measured
    assert "| 4.0 kinds, 1.25 nats | 25% skips, 50% pools, 12% noise, 1 of 2 collapsed" in measured
    assert printed.startswith("| `vinnas-snr`, as published |  | 99.82 ± 0.23 (99.87) % |")
    assert any("first version" in note for note in tables.notes(result))
