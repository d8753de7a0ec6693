"""VINNAS's `tie`: cells of a kind share their strengths, share nothing, or a Gaussian above."""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from ardor.bayes.divergences import gaussian_kl, log_uniform_kl
from ardor.cli import cli
from ardor.data import Images
from ardor.errors import ArdorError
from ardor.methods.vinnas import Vinnas
from ardor.pipeline.resolve import layered
from ardor.runtime.device import Runtime
from ardor.searching.loop import search
from ardor.settings.merge import resolve
from ardor.settings.sections import SearchConfig
from ardor.spaces.cells import Cells

OPS = "sep_conv_3x3,skip_connect,none"
PLACES = Cells(
    image=(1, 8, 8), classes=2, layout="NRNN", states=1, channels=2, ops=OPS, shared=False
)
TIES = ["type", "none", "hierarchical"]


def space_of(tie: str, **sizes: object) -> dict[str, object]:
    return layered(({"method": {"tie": tie}, "space": sizes},)).space


def test_what_the_space_shares_follows_from_the_tie() -> None:
    shared = [space_of(tie)["shared"] for tie in TIES]
    assert shared == [True, False, False]
    assert "shared" not in layered(()).space
    assert layered(({"space": {"shared": False}},)).space["shared"] is False  # as ever


@pytest.mark.parametrize(("tie", "shared"), [("type", False), ("none", True)])
def test_a_space_that_contradicts_the_tie_is_refused(tie: str, shared: bool) -> None:
    with pytest.raises(ArdorError, match=f"space.shared = {shared} must be {not shared}") as told:
        space_of(tie, shared=shared)
    assert "leave out space.shared" in told.value.hint
    assert space_of(tie, shared=not shared)["shared"] is not shared


def test_a_space_whose_places_cannot_differ_is_refused() -> None:
    with pytest.raises(ArdorError, match=r"'standins\.toy' has no setting 'shared'"):
        space_of("hierarchical", name="standins.toy")
    with pytest.raises(ArdorError, match=r"method\.tie = 'all' must be 'type', 'none'"):
        space_of("all")


def test_places_have_strengths_of_their_own_and_kinds_one_gaussian_above() -> None:
    method = Vinnas(PLACES, tie="hierarchical")
    assert {n.partition("/")[0] for n in method.mean} == {
        "normal0",
        "reduce1",
        "normal2",
        "normal3",
    }
    names = {kind: [c.name for c in places] for kind, places in method.kinds.items()}
    assert names["normal/0>2"] == ["normal0/0>2", "normal2/0>2", "normal3/0>2"]
    assert names["reduce/1>2"] == ["reduce1/1>2"]
    assert set(names) == set(method.kind_mean) == set(method.kind_log_var)
    assert len(names) == len(method.log_width) == 4  # kinds x edges
    assert all(gate.shape == (1, 1, 3) for gate in method.sample(5, 0.5).values())


def test_the_kl_is_that_of_the_kind_and_of_each_place_under_it() -> None:
    method = Vinnas(PLACES, tie="hierarchical")
    for parameter in method.parameters():
        torch.nn.init.normal_(parameter)
    expected = 0.0
    for index, (name, places) in enumerate(method.kinds.items()):
        above = method.kind_mean[name], method.kind_log_var[name]
        expected += log_uniform_kl(*above)
        for place in (choice.name for choice in places):
            own = method.mean[place], method.log_var[place]
            expected += gaussian_kl(*own, *above, method.log_width[index])
    gates = method.sample(1, 1.0)
    assert torch.allclose(method.penalty(gates, PLACES.build(), 1.0)["kl_gates"], expected)


def test_what_left_one_place_still_counts_in_the_others() -> None:
    method = Vinnas(PLACES, tie="hierarchical")
    name = "normal0/0>2"
    slopes = {}
    for removed in ([name], [name, "normal2/0>2", "normal3/0>2"]):
        method.removed = {place: {"skip_connect": 1} for place in removed}
        kl = method.penalty(method.sample(1, 1.0), PLACES.build(), 1.0)["kl_gates"]
        parameters = method.mean[name], method.kind_mean["normal/0>2"]
        own, kind = torch.autograd.grad(kl, parameters)
        slopes[len(removed)] = own[0, 0].ne(0).tolist(), kind[0, 0].ne(0).tolist()
    assert slopes == {1: ([True, False, True], [True] * 3), 3: ([True, False, True],) * 2}


def fitted(tie: str, targets: dict[str, float]) -> dict[str, float]:
    """Strengths of an operation at each place; to miss its target costs 10 nats a square."""
    torch.manual_seed(0)
    method = Vinnas(Cells(layout="NNNN", states=1, ops=OPS, shared=False), tie=tie)
    optimiser = torch.optim.Adam(method.parameters(), 0.05)
    for _ in range(300):
        data = sum(
            10 * (method.mean[f"{place}/0>2"][0, 0, 0] - target).square()
            + 10 * method.log_var[f"{place}/0>2"][0, 0, 0].exp()
            for place, target in targets.items()
        )
        optimiser.zero_grad()
        (data + sum(term.sum() for term in method.kl_gates())).backward()
        optimiser.step()
    return {place: method.mean[f"{place}/0>2"][0, 0, 0].item() for place in targets}


def test_places_that_agree_are_drawn_together_and_one_that_differs_still_differs() -> None:
    targets = {"normal0": 0.8, "normal1": 1.0, "normal2": 1.2, "normal3": -1.0}
    apart, tied = fitted("none", targets), fitted("hierarchical", targets)
    agreeing = [found["normal2"] - found["normal0"] for found in (apart, tied)]
    assert 0 < agreeing[1] < 0.9 * agreeing[0]
    assert tied["normal3"] < -0.8
    assert tied["normal0"] > 0.7


def test_places_that_all_agree_become_one() -> None:
    targets = {"normal0": 0.95, "normal1": 1.0, "normal2": 1.0, "normal3": 1.05}
    apart, tied = (fitted(tie, targets).values() for tie in ("none", "hierarchical"))
    assert max(tied) - min(tied) < 0.2 * (max(apart) - min(apart))


def config_of(**settings: object) -> SearchConfig:
    given = {"batch": 8, "augment": [], **settings}
    return resolve({"search": {**Vinnas.search, **given}}).search


def test_candidates_leave_each_place_by_itself(bright: Images, tmp_path: Path) -> None:
    torch.manual_seed(0)
    method = Vinnas(PLACES, tie="hierarchical")
    method.mean["normal2/0>2"].data[..., 1] = -3.0  # given up from the first epoch on
    config = config_of(epochs=3, shrink=1, gate_rate=1e-4)
    found = search(PLACES, method, bright, config, run=tmp_path, runtime=Runtime.start("cpu", 0))
    assert "skip_connect" in found.removed["normal2/0>2"]
    assert "skip_connect" not in found.removed.get("normal0/0>2", {})
    assert "skip_connect" not in found.strengths["normal2/0>2"]
    assert "skip_connect" in found.strengths["normal0/0>2"]
    PLACES.check(found.architecture)


def test_a_run_from_images_to_report_with_cells_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = ("layout=NRN", "states=1", "channels=2", f"ops={OPS}")
    options = [f"--set=space.{size}" for size in sizes]
    settings = [
        "--set=method.tie=hierarchical",
        "--set=search.fraction=0.1",
        "--set=search.batch=16",
    ]
    run = ["run", "digits", "--run=run", "--epochs=1", "--quiet", "--set=train.batch=256"]
    result = CliRunner().invoke(cli, [*run, *settings, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    found = json.loads(Path("run/architecture.json").read_text())
    cells = {name.partition("/")[0] for name in found["kept"]}
    assert cells == {"normal0", "reduce1", "normal2"}
    assert found["settings"]["shared"] is False
    assert set(found["strengths"]) == set(found["probabilities"])
    for line in map(json.loads, Path("run/log.jsonl").read_text().splitlines()):
        assert line["stage"] != "search" or set(line["strengths"]) == set(found["strengths"])
    shown = CliRunner().invoke(cli, ["show", "run", "--runners-up", "2"]).stdout
    assert shown.count("times as likely") == 2
    assert "<summary>Normal cell 2: operation</summary>" in Path("run/report.html").read_text()
