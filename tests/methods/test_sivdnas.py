"""SI-VDNAS: its draws and their KL, what each gradient sees, what it keeps, and its ablations."""

import copy
import json
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

from ardor.bayes.divergences import dropout_divergence
from ardor.bayes.draws import keep_probability
from ardor.cli import cli
from ardor.layers.operations import ZERO
from ardor.methods.sivdnas import SiVdnas
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import Nasbench201

OPS = ("none", "sep_conv_3x3", "skip_connect", "avg_pool_3x3")
SPACE = Cells(image=(1, 8, 8), classes=2, layout="N", states=2, channels=2, ops=",".join(OPS))
BENCH = Nasbench201(image=(1, 8, 8), classes=2, channels=2, cells=1)
EDGE = "normal/0>2"
EDGES = [f"normal/{source}>{node}" for node in (2, 3) for source in range(node)]
LOW, HIGH = -3.0, 3.0  # log delta: kept in 95 % of all draws, or in 5 %


def with_rates(rates: dict[str, list[float]], otherwise: float = HIGH, **settings: Any) -> SiVdnas:
    """Log delta of some choices, and one for all others."""
    method = SiVdnas(SPACE, **settings)
    for name, log_delta in method.log_delta.items():
        log_delta.data.copy_(torch.tensor(rates.get(name, [otherwise] * log_delta.shape[-1])))
    return method


def slopes(method: SiVdnas, loss: Tensor) -> dict[str, Tensor]:
    found = torch.autograd.grad(loss, list(method.parameters()), allow_unused=True)
    named = zip(method.named_parameters(), found, strict=True)
    return {key: torch.zeros_like(p) if slope is None else slope for (key, p), slope in named}


def test_operations_and_edges_are_dropped_at_their_rates_and_zero_is_never_drawn() -> None:
    method = with_rates({EDGE: [LOW, 0.0, LOW, HIGH], "normal/>2": [1.0, LOW]})
    gates = [method.sample(4, 0.5) for _ in range(1000)]
    for name, expected in ((EDGE, [0, 0.5, 0.953, 0.047]), ("normal/>2", [0.269, 0.953])):
        often = torch.stack([g[name] for g in gates]).ne(0).float().mean(0).flatten()
        assert often.tolist() == pytest.approx(expected, abs=0.06)
        assert method.probabilities()[name].flatten().tolist() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("weights", ["softmax", "raw"])
def test_gates_are_weights_times_noise_and_begin_at_an_even_share(weights: str) -> None:
    method = SiVdnas(SPACE, weights=weights, drop=0.5, spread=1e-9)
    gates = torch.stack([method.sample(1, 0.0)["normal/>3"] for _ in range(1000)])
    assert gates.mean(0).flatten().tolist() == pytest.approx([0.5 / 3] * 3, abs=0.03)
    assert gates.square().mean(0).flatten().tolist() == pytest.approx([1 / 9] * 3, abs=0.02)


def test_the_kl_is_that_of_the_draw_and_knows_no_weights() -> None:
    """Where the draw is on 0.5 log(1 + (1 - lambda)^2 / delta), where it is off nothing."""
    method, net = with_rates({}, otherwise=0.3, gradient="gaussian"), SPACE.build()
    gates = method.sample(1, 0.4)
    terms = method.penalty(gates, net, 0.4)
    for term, is_edge in (("kl_operations", False), ("kl_edges", True)):
        on = sum(int(g.ne(0).sum()) for n, g in gates.items() if ("/>" in n) == is_edge)
        each = dropout_divergence(torch.tensor(0.3), 0.95**20).item()
        assert terms[term].item() == pytest.approx(on * each, rel=1e-5)
    found = slopes(method, sum(terms.values(), torch.zeros(())))
    assert all(slope.eq(0).all() for key, slope in found.items() if key.startswith("weight"))
    for name, gate in gates.items():
        assert torch.equal(found[f"log_delta.{name}"].ne(0), gate.ne(0))


def test_straight_through_the_kl_has_the_gradient_of_its_expectation() -> None:
    """P(psi = 1) 0.5 log(1 + (1 - lambda)^2 / delta), differentiated in log delta."""
    method = with_rates({}, otherwise=0.3)
    gates = method.sample(1, 0.4)
    found = slopes(method, method.penalty(gates, SPACE.build(), 0.4)["kl_operations"])
    kept = torch.cat([gates[name].flatten()[1:].ne(0) for name in EDGES])  # all but zero
    slope = torch.cat([found[f"log_delta.{name}"].flatten()[1:] for name in EDGES])
    rate = torch.tensor(0.3, requires_grad=True)
    keep = keep_probability(rate)
    (expected,) = torch.autograd.grad(keep * dropout_divergence(rate, 0.95**20), rate)
    mean = keep * slope[kept].unique() + (1 - keep) * slope[~kept].unique()
    assert mean.tolist() == pytest.approx([expected.item()], rel=1e-5)


def test_a_method_that_has_drawn_can_be_copied() -> None:
    method = SiVdnas(SPACE, gradient="straight-through")
    method.sample(1, 0.5)
    other = copy.deepcopy(method)
    assert torch.equal(other.probabilities()[EDGE], method.probabilities()[EDGE])
    torch.manual_seed(1)
    gates = method.sample(1, 0.5)
    torch.manual_seed(1)
    assert all(torch.equal(gate, gates[name]) for name, gate in other.sample(1, 0.5).items())


def test_annealing_is_by_progress_and_apart_for_operations_and_edges() -> None:
    method = SiVdnas(SPACE, anneal_edges=0.9)
    assert [method.annealed("op", at / 50) for at in (0, 1, 50)] == pytest.approx(
        [1, 0.95, 0.95**50]
    )
    assert method.annealed("edge", 0.5) == pytest.approx(0.9**25)
    assert SiVdnas(SPACE, noise="gaussian").annealed("op", 1.0) == 1.0
    assert SiVdnas.search["warmup"] == 15 / 50
    assert SiVdnas.bilevel


@pytest.mark.parametrize("gradient", ["gaussian", "straight-through", "concrete"])
def test_what_is_off_learns_only_where_a_gradient_reaches_it(gradient: str) -> None:
    method = with_rates({}, otherwise=0.0, gradient=gradient)
    gates = method.sample(1, 0.5)
    found = slopes(method, sum((g.sum() for g in gates.values()), torch.zeros(())))
    learned = torch.cat([found[f"log_delta.{n}"].flatten().ne(0) for n in EDGES])
    on = torch.cat([gates[n].flatten().ne(0) for n in EDGES])
    able = torch.tensor([op != ZERO for _, op in product(EDGES, OPS)])
    assert torch.equal(on, able) == (gradient == "concrete")
    assert torch.equal(learned, on if gradient == "gaussian" else able)


def test_what_is_shut_need_not_be_computed_for_the_gates_to_learn() -> None:
    """Operations on an edge, and edges into a node; their parameters learn the same."""
    method, net = with_rates({}, otherwise=0.0, gradient="gaussian"), SPACE.build()
    images, computed = torch.randn(4, 1, 8, 8), Counter[bool]()
    for mixed in net.cells[0].edges.values():
        mixed.register_forward_hook(lambda *_: computed.update([net.cells[0].hard]))
    assert method.hard
    found = []
    for hard in (False, True):
        net.hard_gates_(hard)
        torch.manual_seed(0)
        gates = method.sample(1, 0.5)
        found.append(slopes(method, net(images, gates)[:, 0].sum()))
    assert all(torch.allclose(slope, found[1][name], atol=1e-5) for name, slope in found[0].items())
    assert computed[True] < computed[False] == len(EDGES)
    assert not SiVdnas(SPACE, gradient="straight-through").hard
    assert not SiVdnas(SPACE, noise="gaussian").hard


def test_the_mode_keeps_any_number_of_operations_and_edges() -> None:
    method = with_rates(
        {
            EDGE: [LOW, LOW, LOW, HIGH],
            "normal/1>2": [LOW, HIGH, HIGH, HIGH],  # an edge without operation is removed
            "normal/>2": [LOW, LOW],
            "normal/0>3": [LOW, LOW, LOW, LOW],
            "normal/1>3": [LOW, LOW, LOW, LOW],
            "normal/2>3": [LOW, HIGH, LOW, HIGH],
            "normal/>3": [LOW, HIGH, LOW],
        }
    )
    assert dict(method.draw(1)[0].kept) == {
        "normal/>2": ("0",),
        EDGE: ("sep_conv_3x3", "skip_connect"),
        "normal/1>2": (),
        "normal/>3": ("0", "2"),
        "normal/0>3": OPS[1:],
        "normal/1>3": (),
        "normal/2>3": ("skip_connect",),
    }


def test_a_node_that_nothing_leads_into_keeps_its_likeliest() -> None:
    rates = {"normal/1>2": [LOW, 4.0, 1.0, 4.0], "normal/>2": [2.0, 1.0]}
    for derive in ("mode", "sample", "strongest"):
        method = with_rates(rates, otherwise=6.0, derive=derive)
        for found in method.draw(20):
            SPACE.build(found)
            assert found.options["normal/>2"]
        best = method.mode()
        assert best.options["normal/>2"] == ("1",)
        assert best.options["normal/1>2"] == ("skip_connect",)


def test_draws_keep_what_they_drew_and_follow_the_mode() -> None:
    rates = {name: [LOW, LOW, LOW, LOW] for name in EDGES} | {"normal/>2": [0.0, -7.0]}
    method = with_rates(rates, otherwise=-7.0)
    method.log_delta[EDGE].data.copy_(torch.tensor([0.0, 0.0, -7.0, HIGH]))
    first, *rest = method.draw(1001)
    assert first == method.mode()
    kept = [found.options[EDGE] for found in rest]
    assert sum("skip_connect" in k for k in kept) / 1000 == pytest.approx(0.5, abs=0.06)
    assert sum("sep_conv_3x3" in k for k in kept) / 1000 == pytest.approx(0.25, abs=0.06)
    assert len(set(with_rates(rates, derive="sample").draw(9))) > 1


def test_darts_rule_keeps_one_operation_of_each_of_two_edges() -> None:
    method = with_rates({name: [LOW] * 4 for name in EDGES}, otherwise=LOW, derive="strongest")
    for at, name in enumerate(EDGES):
        method.weight[name].data.copy_(torch.tensor([9.0, 0.0, 1.0 + at, 0.5]))
    method.weight["normal/>3"].data.copy_(torch.tensor([2.0, 0.0, 0.0]))
    (found,) = method.draw(1)
    assert found.options["normal/>3"] == ("0", "2")
    assert {kept for name, kept in found.kept if "/>" not in name} == {("skip_connect",), ()}
    method.log_delta["normal/2>3"].data.fill_(HIGH)  # the strongest, and hardly ever kept
    assert method.draw(1)[0].options["normal/>3"] == ("0", "1")
    method.log_delta["normal/1>3"].data.fill_(HIGH)
    assert method.draw(1)[0].options["normal/>3"] == ("0",)


@pytest.mark.parametrize("derive", ["mode", "sample"])
def test_vanilla_dropout_drops_nothing_and_keeps_the_strongest_weights(derive: str) -> None:
    """V-VDNAS ranks operations; H-VDNAS their weights times those of their edges."""
    for edges, expected in ((False, ("1", "2")), (True, ("0", "1"))):
        method = with_rates({}, otherwise=-7.0, noise="gaussian", edges=edges, derive=derive)
        for at, name in enumerate(EDGES):
            method.weight[name].data.copy_(torch.tensor([9.0, 0.0, 1.0, float(at)]))
        if edges:
            method.weight["normal/>3"].data.copy_(torch.tensor([3.0, 2.0, 0.0]))
        assert all(gate[..., 1:].ne(0).all() for gate in method.sample(1, 0.5).values())
        assert set(method.sample(1, 0.5)) == {c.name for c in method.noisy}
        (found,) = method.draw(1)
        assert found.options["normal/>3"] == expected
        assert found.options["normal/1>3"] == ("avg_pool_3x3",)
        kept = method.decision_counts(50)[1].most_common(1)[0][0]
        assert dict(kept)["normal/>3"] == expected


def test_an_operation_on_its_way_out_is_given_up_and_reported() -> None:
    method = with_rates({EDGE: [LOW, 5.0, LOW, 4.0]})
    assert method.given_up()[EDGE].flatten().tolist() == [True, True, False, False]
    method.removed = {EDGE: {"sep_conv_3x3": 3}}
    strengths = method.strengths()
    assert strengths["weight"][EDGE].flatten().isnan().tolist() == [True, True, False, False]
    assert strengths["delta"][EDGE].flatten()[3].item() == pytest.approx(54.598, rel=1e-3)
    assert method.decision_counts(10) == []


def test_the_space_of_nasbench201_needs_no_edge_choices() -> None:
    method = SiVdnas(BENCH)
    assert {choice.kind for choice in method.noisy} == {"op"}
    assert set(method.penalty(method.sample(1, 0.5), BENCH.build(), 0.5)) == {"kl_operations"}
    assert all(len(kept) == 4 for _, kept in method.draw(1)[0].kept)
    (found,) = SiVdnas(BENCH, derive="strongest").draw(1)
    assert all(len(kept) == 1 for _, kept in found.kept)


def test_a_cell_with_several_operations_on_an_edge_becomes_a_network(tmp_path: Path) -> None:
    """Searched, trained, pruned, exported, evaluated, drawn and reported."""
    run, sizes = tmp_path / "run", {"layout": "R", "states": 1, "channels": 4}
    sizes["ops"] = "sep_conv_3x3,max_pool_3x3,skip_connect"
    options = [f"space.{name}={value}" for name, value in sizes.items()]
    options += ["search.fraction=0.2", "search.candidates=2", "train.epochs=1", "search.epochs=1"]
    sets = [word for option in options for word in ("--set", option)]
    words = ["run", "digits", "--method", "sivdnas", "--run", str(run), *sets, "--json"]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["onnx_max_difference"] < 1e-4
    assert 0 < result["nonzero_params"] <= result["params"]
    kept = json.loads((run / "architecture.json").read_text())["kept"]
    several = {name: ops for name, ops in kept.items() if "/>" not in name and len(ops) > 1}
    assert several
    drawing = (run / "architecture.svg").read_text()
    for name, ops in several.items():
        assert drawing.count(f'data-choice="{name.replace(">", "&gt;")}"') == len(ops)
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert {"kl_operations", "kl_edges"} <= log[0]["train"].keys()
    assert (run / "report.html").stat().st_size > 0
