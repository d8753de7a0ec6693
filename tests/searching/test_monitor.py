"""The collapse watch: when it warns of a search, and what it ends it with."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from conftest import stopping_at
from standins.drifting import HEALTHY, Drifting
from standins.switches import Switches
from standins.toy import Toy
from standins.watched import BASE, SMALL, SPACE, make, standing

from ardor.cli import cli
from ardor.data import Images, load
from ardor.errors import Interrupted
from ardor.methods import Method
from ardor.methods.darts import Darts
from ardor.methods.rsps import Rsps
from ardor.methods.sivdnas import SiVdnas
from ardor.methods.vinnas import Vinnas
from ardor.reporting import report
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.runtime.tensors import load as load_checkpoint
from ardor.searching.monitor import CollapseMonitor
from ardor.searching.selection import Selection
from ardor.searching.undecided import ALL_KEPT
from ardor.spaces import Space
from ardor.spaces.cells import Cells
from ardor.training.objective import Batch

WARNING = "7 of 8 edges of the normal cell are skip connections since epoch 3"
ENDED = "the search ends here, with the architecture of epoch 2"


def lines(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def warned(run: Path) -> dict[int, list[str]]:
    seen = {line["epoch"]: line["watch"]["warnings"] for line in lines(run)}
    return {epoch: warnings for epoch, warnings in seen.items() if warnings}


def skips(found: object) -> int:
    kept = found.architecture.options
    return sum(options == ("skip_connect",) for options in kept.values())


def test_a_collapse_is_told_once_logged_and_reported(bright: Images, tmp_path: Path) -> None:
    told: list[Progress] = []
    loop = make(bright, tmp_path, runtime=Runtime.start("cpu", 0, told.append))
    loop.run()
    assert [(p.epoch, p.note) for p in told if "skip" in p.note] == [(4, WARNING)]
    assert warned(tmp_path) == {4: [WARNING]}
    watched = [line["watch"] for line in lines(tmp_path)]
    assert [w["cells"]["normal"]["kept"].get("skip_connect", 0) for w in watched] == [
        0,
        0,
        *[7] * 4,
    ]
    assert watched[-1]["skip_share"] == watched[-1]["cells"]["normal"]["skip_share"] == 7 / 8
    assert watched[-1]["op_entropy"] == pytest.approx(math.log(8) - 7 / 8 * math.log(7))
    found = loop.found()
    assert skips(found) == 7
    assert found.watched["collapsed_since"] == 3
    assert found.watched["largest_curvature"] == max(w["curvature"] for w in watched)
    assert "kept_epoch" not in found.watched
    page = report(tmp_path)
    assert f"Epoch 4: {WARNING}" in page
    assert "Skip connections among kept operations" in page
    assert "Curvature of the held-out loss in the gates" in page


def test_a_search_that_has_left_nothing_out_says_so(bright: Images, tmp_path: Path) -> None:
    def said(name: str, *given: Any, **settings: Any) -> tuple[str, ...]:
        loop = make(bright, tmp_path / name, *given, epochs=2, **settings)
        loop.run()
        return loop.found().warnings

    (warning,) = said("all", SiVdnas)
    assert warning.startswith("nothing is left out: the gates have had too few steps")
    assert "search.gate_rate" in warning
    assert ALL_KEPT not in said("some", lambda space: SiVdnas(space, drop=0.9))
    one = Cells(image=(1, 8, 8), classes=2, layout="N", states=1, channels=2, ops="none,noise")
    assert ALL_KEPT not in said("one", SiVdnas, space=one)


@pytest.mark.parametrize("keep", ["last", "best"])
def test_stopping_yields_what_was_there_before(keep: str, bright: Images, tmp_path: Path) -> None:
    loop = make(bright, tmp_path, stop_on_collapse=True, keep=keep)
    loop.run()
    errors = [1 - line["held_out"]["accuracy"] for line in lines(tmp_path)]
    epoch = 2 if keep == "last" else 1 + errors.index(min(errors[:2]))
    ended = ENDED.replace("epoch 2", f"epoch {epoch}")
    assert warned(tmp_path) == {4: [WARNING, ended]}
    assert len(lines(tmp_path)) == 4
    found = loop.found()
    assert skips(found) == 0
    assert found.probabilities == lines(tmp_path)[epoch - 1]["probabilities"]
    assert found.watched["kept_epoch"] == epoch
    assert found.watched["collapsed_since"] == 3
    assert found.watched["skip_share"] == 0


def test_an_epoch_that_looks_collapsed_is_not_kept_even_if_it_is_the_last(
    bright: Images, tmp_path: Path
) -> None:
    loop = make(bright, tmp_path, stop_on_collapse=True, epochs=3)
    loop.run()
    assert not warned(tmp_path)
    assert skips(loop.found()) == 0
    assert loop.found().watched["kept_epoch"] == 2


def test_without_a_healthy_epoch_there_is_nothing_to_go_back_to(
    bright: Images, tmp_path: Path
) -> None:
    def collapsed(space: Space) -> Drifting:
        return Drifting(space, start=1.0)

    loop = make(bright, tmp_path, collapsed, stop_on_collapse=True, epochs=4)
    loop.run()
    assert warned(tmp_path) == {2: [WARNING.replace("epoch 3", "epoch 1")]}
    assert len(lines(tmp_path)) == 4
    assert skips(loop.found()) == 7


@pytest.mark.parametrize(("stop", "left"), [(False, True), (True, False)])
def test_no_candidate_leaves_in_an_epoch_that_may_be_undone(
    stop: bool, left: bool, bright: Images, tmp_path: Path
) -> None:
    def fast(space: Space) -> Drifting:
        return Drifting(space, start=-6.0, pull=4.0)  # in the third epoch the others are given up

    loop = make(bright, tmp_path, fast, stop_on_collapse=stop, epochs=3, shrink=1)
    loop.run()
    removed = {name for name in loop.found().removed if name != HEALTHY}
    assert bool(removed) == left
    assert skips(loop.found()) == (0 if stop else 7)


@pytest.mark.parametrize("stop", [3, 7])  # before an epoch looks collapsed, and after
def test_stopped_and_resumed_it_is_the_same(stop: int, bright: Images, tmp_path: Path) -> None:
    whole = make(bright, tmp_path / "whole", stop_on_collapse=True)
    whole.run()
    with pytest.raises(Interrupted):
        make(bright, tmp_path / "broken", runtime=stopping_at(stop), stop_on_collapse=True).run()
    broken = make(bright, tmp_path / "broken", stop_on_collapse=True)
    broken.run()
    again = make(bright, tmp_path / "broken", stop_on_collapse=True)
    again.run()
    ends = [loop.found().to_json() for loop in (whole, broken, again)]
    assert ends[0] == ends[1] == ends[2]
    assert warned(tmp_path / "broken") == {4: [WARNING, ENDED]}
    ours, theirs = (
        load_checkpoint(tmp_path / name / "checkpoint" / "search-00004-000000.safetensors")
        for name in ("whole", "broken")
    )
    assert ours[1]["facts"] == theirs[1]["facts"]
    assert all(torch.equal(tensor, theirs[0][name]) for name, tensor in ours[0].items())


def test_a_collapse_that_comes_back_is_told_again() -> None:
    method, stage = Drifting(SPACE, start=-1.0), standing()
    batch = Batch(torch.rand(4, 1, 8, 8), torch.arange(4) % 2, 4)
    monitor = CollapseMonitor(SPACE.build(), Selection(method, BASE, {}), batch, stage, BASE)
    for skip in (1, 1, 1, -1, 1, -1, 1, 1):
        for name, logits in method.logits.items():
            if name != HEALTHY:
                logits.data[..., -1] = float(skip)
        monitor.examine()
        stage.epoch += 1
    said = WARNING.removesuffix("3")
    assert [note for note in stage.told if "skip" in note] == [f"{said}1", f"{said}7"]


def test_the_curvature_is_told_as_an_early_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    method, stage = Darts(SMALL), standing()
    batch = Batch(torch.rand(4, 1, 8, 8), torch.arange(4) % 2, 4)
    monitor = CollapseMonitor(SMALL.build(), Selection(method, BASE, {}), batch, stage, BASE)
    sizes = iter([1.0] * 5 + [2.0] * 8 + [4.0] * 5)
    monkeypatch.setattr(CollapseMonitor, "_curvature", lambda self, gates: next(sizes))
    entries = []
    for stage.epoch in range(18):
        entries.append(monitor.examine()["warnings"])
    said = "the held-out loss bends {} times as sharply in the gates as 5 epochs before"
    told = {epoch: notes for epoch, notes in enumerate(entries, 1) if notes}
    assert told == {
        10: ["an early sign of collapse: " + said.format("2.0")],
        15: ["an early sign of collapse: " + said.format("1.4")],
    }


# Searches that do not collapse.


def test_a_healthy_search_on_digits_has_no_warning(tmp_path: Path) -> None:
    images = load(source="digits", size=0, channels=0, test=0.2, skip_broken=False, seed=0).train
    space = Cells(image=(1, 8, 8), classes=10, layout="R", states=2, channels=2, ops="vinnas")
    config = {**Vinnas.search, "epochs": 3, "batch": 64, "fraction": 0.3, "warmup": 0.3}
    loop = make(images, tmp_path, Vinnas, space=space, **config)
    loop.run()
    first, *learning = lines(tmp_path)
    assert "watch" not in first
    for line in learning:
        watch = line["watch"]
        assert watch["warnings"] == []
        assert math.isfinite(watch["curvature"])
        assert watch["cells"].keys() == {"reduce"}
        assert sum(watch["cells"]["reduce"]["kept"].values()) == 4
        assert watch.keys() >= {"skip_share", "pool_share", "none_share", "op_entropy"}
    assert "collapsed_since" not in loop.found().watched


@pytest.mark.parametrize("method", [Vinnas, Switches])
def test_watching_changes_nothing_of_the_search(
    method: type[Method], bright: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = make(bright, tmp_path / "seen", method, space=Toy(), epochs=3, gate_rate=0.01)
    seen.run()
    monkeypatch.setattr(CollapseMonitor, "examine", lambda self: {})
    unseen = make(bright, tmp_path / "unseen", method, space=Toy(), epochs=3, gate_rate=0.01)
    unseen.run()
    for ours, theirs in ((seen.net, unseen.net), (seen.method, unseen.method)):
        states = ours.state_dict(), theirs.state_dict()
        assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    assert [w["watch"]["curvature"] is not None for w in lines(tmp_path / "seen")] == [True] * 3


def test_random_search_is_not_watched(
    bright: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: CollapseMonitor) -> dict[str, object]:
        raise AssertionError

    monkeypatch.setattr(CollapseMonitor, "examine", never)
    loop = make(bright, tmp_path, Rsps, epochs=2, stop_on_collapse=True)
    loop.run()
    assert all("watch" not in line for line in lines(tmp_path))
    kept = {"skip_share", "pool_share", "op_entropy"}
    assert loop.found().watched.keys() == {*kept, "certainty", "against_odds"}


def test_zero_may_be_the_strongest_though_it_is_never_kept() -> None:
    method, stage = Darts(SPACE), standing()
    for name, logits in method.logits.items():
        logits.data[..., SPACE.operations.index("none")] = 3.0 if name.endswith(">5") else -3.0
    batch = Batch(torch.rand(4, 1, 8, 8), torch.arange(4) % 2, 4)
    seen = CollapseMonitor(SPACE.build(), Selection(method, BASE, {}), batch, stage, BASE).examine()
    assert seen["none_share"] == seen["cells"]["normal"]["none_share"] == 5 / 14
    assert "none" not in seen["cells"]["normal"]["kept"]


def test_the_command_line_sets_it_and_metrics_are_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = np.arange(32 * 64, dtype=np.uint8).reshape(32, 8, 8), np.arange(32) % 2
    np.savez("images.npz", x=x, y=y)
    small = ["--epochs", "1", "--set", "space.layout=N", "--set", "space.channels=2"]
    command = ["search", "images.npz", "--run", "run", "--stop-on-collapse", *small]
    result = CliRunner().invoke(cli, [*command, "--set", "search.warmup=0"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    assert "variety of kept operations" in result.stdout
    assert json.loads(Path("run", "config.json").read_text())["search"]["stop_on_collapse"] is True
    metrics = json.loads(Path("run", "metrics.json").read_text())
    expected = {"skip_share", "pool_share", "op_entropy", "largest_curvature", "kept_epoch"}
    assert all(isinstance(metrics[name], (int, float)) for name in expected)
    assert "collapsed_since" not in metrics
