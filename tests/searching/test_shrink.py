"""What the posterior has given up leaves the supernet for good; what is left goes on as it was."""

import copy
import json
import math
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from conftest import stopping_at

from ardor.cli import cli
from ardor.cli.screen import Screen
from ardor.data import Images
from ardor.errors import ArdorError, Interrupted
from ardor.methods import Method
from ardor.methods.darts import Darts
from ardor.methods.vinnas import Vinnas
from ardor.reporting import report
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.runtime.tensors import load
from ardor.searching.loop import SearchLoop, halves
from ardor.searching.shrink import in_a_row, leaving, with_removed
from ardor.settings.sections import SearchConfig
from ardor.spaces.cells import Cells

SPACE = Cells(
    image=(1, 8, 8),
    classes=2,
    layout="NRN",
    states=1,
    channels=2,
    ops="none,sep_conv_3x3,dil_conv_3x3,skip_connect",
)
# One warm-up epoch, then two in which the gates learn: it leaves after the third of four.
BASE = SearchConfig(epochs=4, warmup=0.25, batch=8, augment=(), gate_rate=0.01, shrink=2)
EDGE, OPTION = "normal/0>2", "sep_conv_3x3"
AT = SPACE.operations.index(OPTION)
LEFT = f"{EDGE}: {OPTION}"


def darts() -> Darts:
    """A posterior that has given up one candidate from the start."""
    method = Darts(SPACE)
    method.logits[EDGE].data[..., AT] = -9.0
    return method


def vinnas() -> Vinnas:
    method = Vinnas(SPACE)
    method.mean[EDGE].data[..., AT] = -9.0
    return method


def make(
    images: Images, run: Path, runtime: Runtime | None = None, **changes: object
) -> SearchLoop:
    runtime = runtime or Runtime.start("cpu", 0)
    torch.manual_seed(1)
    method = changes.pop("method", darts)()
    config = BASE.model_copy(update=changes)
    return SearchLoop(SPACE, method, halves(images, config, 0), config, run, runtime)


def lines(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def end_of(run: Path) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    return load(run / "checkpoint" / "search-00004-000000.safetensors")


def given_up(loop: SearchLoop) -> list[str]:
    return [name for name, _ in loop.net.named_parameters() if f"{OPTION}." in name]


def test_it_leaves_after_so_many_epochs_in_a_row_of_learning(
    bright: Images, tmp_path: Path
) -> None:
    loop = make(bright, tmp_path)
    loop.run()
    assert [line["left"] for line in lines(tmp_path)] == [[], [], [LEFT], []]
    assert lines(tmp_path)[-1]["probabilities"][EDGE][OPTION] == 0
    assert loop.found().removed == {EDGE: {OPTION: 3}}


def test_an_epoch_of_hope_begins_the_count_anew() -> None:
    method, rows, found = darts(), {}, []
    for logit in (-9.0, -9.0, 0.0, -9.0, -9.0, -9.0):
        method.logits[EDGE].data[..., AT] = logit
        rows = in_a_row(method, rows)
        found.append([option for _, option in leaving(method, rows, 3)])
    assert found == [[]] * 5 + [[OPTION]]


def test_zero_and_the_likeliest_always_stay() -> None:
    method = darts()
    rows = {EDGE: dict.fromkeys(SPACE.operations, 9)}
    method.logits[EDGE].data[..., AT] = 9.0
    assert [o for _, o in leaving(method, rows, 3)] == ["dil_conv_3x3", "skip_connect"]
    method.removed = {EDGE: {"dil_conv_3x3": 1, "skip_connect": 1}}
    assert not leaving(method, rows, 3)


def test_what_is_gone_stands_in_the_order_in_which_a_checkpoint_gives_it_back() -> None:
    first, *_, last = darts().choices("op")
    removed = with_removed({last.name: {OPTION: 1}}, [(first, OPTION), (first, "dil_conv_3x3")], 2)
    assert removed == {first.name: {OPTION: 2, "dil_conv_3x3": 2}, last.name: {OPTION: 1}}
    assert str(removed) == str(json.loads(json.dumps(removed, sort_keys=True)))


def test_its_weights_leave_net_and_optimiser_and_the_others_are_as_they_were(
    bright: Images, tmp_path: Path
) -> None:
    loop = make(bright, tmp_path, epochs=2, warmup=0.0, shrink=9, optimiser="adam")
    loop.run()
    names = {p: name for name, p in loop.net.named_parameters()}
    before = {name: p.detach().clone() for p, name in names.items()}
    moments = {names[p]: copy.deepcopy(s) for p, s in loop.learner.optimiser.state.items()}
    strengths = copy.deepcopy(loop.method.state_dict())
    watched = weakref.ref(loop.net.cells[0].edges["0>2"].candidates[OPTION][0].depthwise.weight)
    del names
    loop.take_out({EDGE: {OPTION: 2}})
    after = dict(loop.net.named_parameters())
    removed = before.keys() - after.keys()
    assert watched() is None
    assert len(removed) == 2 * 4  # two blocks of two convolutions, in both normal cells
    assert all(f"0>2.candidates.{OPTION}." in name for name in removed)
    assert all(torch.equal(p, before[name]) for name, p in after.items())
    assert (
        loop.learner.weights
        == loop.learner.optimiser.param_groups[0]["params"]
        == list(after.values())
    )
    assert len(loop.learner.optimiser.state) == len(after)
    for name, p in after.items():
        assert torch.equal(loop.learner.optimiser.state[p]["exp_avg"], moments[name]["exp_avg"])
    assert all(torch.equal(v, strengths[k]) for k, v in loop.method.state_dict().items())


@pytest.mark.parametrize("method", [darts, vinnas])
def test_the_net_is_the_supernet_with_that_gate_shut(
    method: object, bright: Images, tmp_path: Path
) -> None:
    loop = make(bright, tmp_path, method=method)
    whole = copy.deepcopy(loop.net)
    loop.take_out({EDGE: {OPTION: 1}})
    gates = loop.method.sample(1, 0.5)
    assert gates[EDGE][..., AT].item() == 0
    assert gates[EDGE].sum().item() == pytest.approx(1.0)
    shut = {name: gate.detach() for name, gate in gates.items()}
    images = torch.randn(4, *SPACE.image)
    for net in (loop.net, whole):
        net.eval()
    assert torch.allclose(loop.net(images, shut), whole(images, shut), atol=1e-6)


def test_the_best_epochs_posterior_does_not_name_what_left(bright: Images, tmp_path: Path) -> None:
    loop = make(bright, tmp_path, keep="best")
    loop.run()
    loop.selection.kept.logits[EDGE].data[..., AT] = 9.0  # it was the favourite then
    found = loop.found()
    assert found.probabilities[EDGE][OPTION] == 0
    assert OPTION not in found.architecture.options[EDGE]


def test_off_keeps_all_and_changes_nothing(
    bright: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = make(bright, tmp_path / "off", shrink=0)
    kept.run()
    monkeypatch.setattr(Darts, "negligible", Method.negligible)
    never = make(bright, tmp_path / "never")
    never.run()
    assert given_up(kept)
    assert kept.found() == never.found()
    ours, theirs = kept.net.state_dict(), never.net.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


# Before, at the end of and after epoch three.
@pytest.mark.parametrize(("method", "stop"), [(darts, 3), (darts, 12), (vinnas, 15)])
def test_stopped_and_resumed_it_is_the_same(
    method: object, stop: int, bright: Images, tmp_path: Path
) -> None:
    whole = make(bright, tmp_path / "whole", method=method)
    whole.run()
    with pytest.raises(Interrupted):
        make(bright, tmp_path / "broken", stopping_at(stop), method=method).run()
    broken = make(bright, tmp_path / "broken", method=method)
    broken.run()
    assert broken.found().to_json() == whole.found().to_json()
    assert str(broken.method.removed) == str(whole.method.removed)  # in the same order as well
    assert LEFT in [name for line in lines(tmp_path / "broken") for name in line["left"]]
    ours, theirs = (end_of(tmp_path / name) for name in ("whole", "broken"))
    assert ours[1]["facts"] == theirs[1]["facts"]
    assert ours[0].keys() == theirs[0].keys()
    assert all(torch.equal(tensor, theirs[0][name]) for name, tensor in ours[0].items())


def test_vinnas_gives_up_what_is_no_positive_signal_and_cannot_be_the_best() -> None:
    method = Vinnas(SPACE)
    strengths = {OPTION: (0.01, 1.0), "dil_conv_3x3": (-3.0, 0.1), "skip_connect": (9.0, 0.1)}
    for option, (mean, std) in strengths.items():
        at = SPACE.operations.index(option)
        method.mean[EDGE].data[..., at] = mean
        method.log_var[EDGE].data[..., at] = 2 * math.log(std)

    def given() -> dict[str, bool]:
        flags = method.given_up()[EDGE].flatten().tolist()
        return {o: flag for o, flag in zip(SPACE.operations, flags, strict=True) if o in strengths}

    # Only noise, surely negative, the best.
    assert given() == {OPTION: True, "dil_conv_3x3": True, "skip_connect": False}
    method.mean[EDGE].data[..., -1] = 1.0  # within reach of the noise
    assert given() == {OPTION: False, "dil_conv_3x3": True, "skip_connect": False}
    method.mean[EDGE].data[..., -2] = 0.5  # beaten, but a signal
    assert not any(given().values())


def test_it_is_told_and_reported(
    bright: Images, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[Progress] = []
    make(bright, tmp_path, Runtime.start("cpu", 0, told.append)).run()
    (note,) = [progress for progress in told if "given up" in progress.note]
    Screen().progress(note)
    assert capsys.readouterr().err == (
        "search: epoch 3, candidates given up and taken out: 1; 15 of 16 are left\n"
    )
    page = report(tmp_path)
    assert "Taken out of the search" in page
    assert f"<td>{EDGE.replace('>', '&gt;')}: sep conv 3×3</td>" in page


def test_the_command_line_sets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = np.arange(32 * 64, dtype=np.uint8).reshape(32, 8, 8), np.arange(32) % 2
    np.savez("images.npz", x=x, y=y)
    for given, expected in (("off", 0), ("5", 5)):
        command = [
            "search",
            "images.npz",
            "--method",
            "random",
            "--epochs",
            "0",
            "--run",
            given,
            "--shrink",
            given,
        ]
        result = CliRunner().invoke(cli, command, catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
        assert json.loads(Path(given, "config.json").read_text())["search"]["shrink"] == expected
        assert json.loads(Path(given, "architecture.json").read_text())["left"] == {}
    with pytest.raises(ArdorError, match="search.shrink = 'now' must be a whole number"):
        CliRunner().invoke(cli, ["search", "images.npz", "--shrink", "now"], catch_exceptions=False)
