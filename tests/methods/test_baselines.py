"""The methods that others are compared with: what they draw, what they compute, what they keep."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from standins.toy import Toy
from torch import Tensor

from ardor import methods
from ardor.bench import grid
from ardor.data import Images
from ardor.errors import ArdorError
from ardor.layers.mixed import Mixed
from ardor.layers.operations import ZERO
from ardor.methods import Method
from ardor.methods.drnas import DrNas
from ardor.methods.fairdarts import FairDarts
from ardor.methods.gdas import Gdas
from ardor.methods.pcdarts import PcDarts
from ardor.methods.random import Random
from ardor.methods.rsps import Rsps
from ardor.methods.snas import Snas
from ardor.pipeline.resolve import layered
from ardor.runtime.device import Runtime
from ardor.searching.loop import SearchLoop
from ardor.settings.merge import resolve
from ardor.settings.presets import preset
from ardor.settings.sections import SearchConfig
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import Nasbench201

OPS = ("none", "sep_conv_3x3", "skip_connect", "avg_pool_3x3")
SPACE = Cells(image=(1, 8, 8), classes=2, layout="N", states=2, channels=2, ops=",".join(OPS))
EDGE = "normal/0>2"
DRAWS = 1200
CLOSE = 0.06  # four standard errors of a share, at most


def spread_out(method: Method) -> Method:
    """Logits of all sizes."""
    for parameter in method.parameters():
        torch.nn.init.normal_(parameter)
    return method


def loop_of(method: Method, images: Images, run: Path, **settings: Any) -> SearchLoop:
    config = SearchConfig(batch=8, augment=(), epochs=2, warmup=0.0, **settings)
    halves = images[torch.arange(32)], images[torch.arange(32, 64)]
    return SearchLoop(SPACE, method, halves, config, run, Runtime.start("cpu", 0))


def step(loop: SearchLoop) -> None:
    loop.step(*(loop.batch(half, torch.arange(32), 0) for half in loop.halves))


def computed(loop: SearchLoop) -> list[list[int]]:
    """How many candidates each edge computes, in every pass through the net that follows."""
    passes: list[list[int]] = []
    for module in loop.net.modules():
        if isinstance(module, Mixed):
            module.register_forward_hook(lambda *call: passes[-1].append(len(call[2].parts)))
    heads = loop.net.heads

    def counted(*inputs: Any) -> tuple[Tensor, ...]:
        passes.append([])
        return heads(*inputs)

    loop.net.heads = counted  # type: ignore[method-assign]
    return passes


@pytest.mark.parametrize("cls", [Snas, Gdas])
def test_operations_are_drawn_with_their_probabilities(cls: type[Snas]) -> None:
    method = spread_out(cls(SPACE))
    draws = torch.stack([method.sample(1, 1.0)[EDGE] for _ in range(DRAWS)])
    often = torch.nn.functional.one_hot(draws.argmax(-1), len(OPS)).float().mean(0)
    assert torch.allclose(often, method.probabilities()[EDGE], atol=CLOSE)


def test_draws_get_sharper_as_the_search_goes_on() -> None:
    method = Snas(SPACE, start=1.0, end=0.03)
    assert [method.temperature(at) for at in (0.0, 0.5, 1.0)] == pytest.approx([1, 0.515, 0.03])
    soft, sharp = (
        torch.stack([method.sample(1, at)[EDGE].max() for _ in range(200)]).mean()
        for at in (0.0, 1.0)
    )
    assert soft < 0.8 < 0.95 < sharp
    assert Gdas(SPACE).temperature(0.0) == 10.0


@pytest.mark.parametrize("cls", [Snas, DrNas])
def test_a_posterior_counts_what_it_would_keep(cls: type[Snas | DrNas]) -> None:
    """State 2 keeps both its inputs: each operation as often as it is the best but zero."""
    method = spread_out(cls(SPACE))
    counts = method.decision_counts(20_000)[0]
    draws = torch.stack([method.sample(1, 1.0)[EDGE][0, 0] for _ in range(DRAWS)])
    best = draws[:, 1:].argmax(-1)  # zero is the first
    for at, option in enumerate(OPS[1:]):
        kept = sum(n for c, n in counts.items() if dict(c)[EDGE] == (option,)) / counts.total()
        assert kept == pytest.approx((best == at).float().mean().item(), abs=CLOSE)


@pytest.mark.parametrize(("name", "bilevel"), [("snas", False), ("gdas", True)])
def test_who_learns_from_which_images(
    name: str, bilevel: bool, bright: Images, tmp_path: Path
) -> None:
    method = methods.make(name, SPACE, {})
    loop = loop_of(method, bright, tmp_path)
    before = {key: value.clone() for key, value in method.state_dict().items()}
    loop.run()
    lines = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert all(("gates" in line) == bilevel for line in lines)
    assert any(not torch.equal(value, before[key]) for key, value in method.state_dict().items())


def test_gdas_computes_only_what_it_has_drawn(bright: Images, tmp_path: Path) -> None:
    loop = loop_of(Gdas(SPACE), bright, tmp_path)
    passes = computed(loop)
    for _ in range(4):
        step(loop)
    assert len(passes) == 8  # gates, then weights
    assert all(max(edges) <= 1 for edges in passes)
    assert any(sum(edges) for edges in passes)


def test_without_hard_gates_everything_is_computed_while_they_learn(
    bright: Images, tmp_path: Path
) -> None:
    loop = loop_of(methods.make("darts", SPACE, {}), bright, tmp_path)
    passes = computed(loop)
    step(loop)
    assert all(set(edges) == {3} for edges in passes)  # all but zero


def test_gdas_gates_are_one_hot_and_learn_as_their_softmax() -> None:
    method = spread_out(Gdas(SPACE))
    gates = method.sample(1, 0.0)
    for name, gate in gates.items():
        assert sorted(gate.flatten().tolist()) == [0.0, 0.0, 0.0, 1.0]
        at = int(gate.argmax())
        (slope,) = torch.autograd.grad(gate[0, 0, at], method.logits[name])
        assert slope[0, 0, at] > 0  # what is drawn and helps is drawn more often
        assert slope.sum().item() == pytest.approx(0.0, abs=1e-5)
        assert (slope < 0).sum() == len(OPS) - 1


@pytest.mark.parametrize("accumulate", [1, 2])
def test_where_only_zero_is_drawn_nothing_is_learned_of_the_gates(
    accumulate: int, bright: Images, tmp_path: Path
) -> None:
    method = Gdas(SPACE)
    for logits in method.logits.values():
        logits.data[..., OPS.index(ZERO)] = 100.0
    loop = loop_of(method, bright, tmp_path, accumulate=accumulate, gate_decay=0.0)
    before = {key: value.clone() for key, value in method.state_dict().items()}
    step(loop)
    assert all(torch.equal(value, before[key]) for key, value in method.state_dict().items())


@pytest.mark.parametrize("name", ["darts", "vinnas", "drnas"])
def test_gates_have_no_gradient_while_only_weights_learn(
    name: str, bright: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = loop_of(methods.make(name, SPACE, {}), bright, tmp_path)
    learning = []
    heads = loop.net.heads

    def watched(images: Tensor, gates: Any) -> tuple[Tensor, ...]:
        learning.append({gate.requires_grad for gate in gates.values()})
        return heads(images, gates)

    monkeypatch.setattr(loop.net, "heads", watched)
    step(loop)
    assert learning == [{True}, {False}]
    assert all(gate.requires_grad for gate in loop.learner.gates)


def space_of(space: dict[str, Any], **method: Any) -> dict[str, Any]:
    return layered(({"space": space, "method": {"name": "pcdarts", **method}},)).space


def test_partial_channels_are_asked_of_a_space_that_has_them() -> None:
    assert space_of({})["partial"] == 4
    assert space_of({}, partial=2)["partial"] == 2
    assert space_of({"partial": 1})["partial"] == 1
    assert "partial" not in space_of({"name": "standins.toy"})


def test_partial_channels_that_are_asked_for_must_be_had() -> None:
    with pytest.raises(ArdorError, match=r"space\.partial = 1 must be 2"):
        space_of({"partial": 1}, partial=2)
    with pytest.raises(ArdorError, match="has no setting 'partial'"):
        space_of({"name": "standins.toy"}, partial=2)


def test_edges_into_a_node_share_what_they_bring() -> None:
    gates = spread_out(PcDarts(SPACE)).sample(1, 0.5)
    assert set(gates) == {choice.name for choice in SPACE.choices}
    assert all(gate.sum().item() == pytest.approx(1.0) for gate in gates.values())


def test_an_edge_is_kept_by_its_share_times_that_of_its_best_operation() -> None:
    method = spread_out(PcDarts(SPACE))
    shares = {name: share[0, 0] for name, share in method.probabilities().items()}
    (found,) = method.draw(1)
    scores = [shares["normal/>3"][s] * shares[f"normal/{s}>3"][1:].max() for s in range(3)]
    left_out = str(min(range(3), key=scores.__getitem__))
    assert set(found.options["normal/>3"]) == {"0", "1", "2"} - {left_out}


# Optimiser, batch, rates of weights, warm-up and gate rate, as the authors publish them; the batch
# and rate of PC-DARTS are those of DARTS, which its docstring says.
PUBLISHED = {
    "darts": ("sgd", 64, 0.025, 0.001, 0.0, 3e-4),
    "snas": ("sgd", 64, 0.025, 0.0, 0.0, 3e-4),
    "gdas": ("sgd", 64, 0.025, 0.001, 0.0, 3e-4),
    "pcdarts": ("sgd", 64, 0.025, 0.0, 0.3, 6e-4),
    "fairdarts": ("sgd", 128, 0.005, 0.001, 0.0, 3e-3),
    "drnas": ("sgd", 64, 0.025, 0.001, 0.0, 3e-4),
}


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("preset_", ["", "nasbench201", "vinnas-mnist", "sivdnas-cifar10"])
def test_a_method_searches_with_its_authors_settings_also_under_a_preset(
    name: str, preset_: str
) -> None:
    below = [preset(preset_)] if preset_ else []
    search = layered((*below, {"method": {"name": name}})).search
    batch = below[0]["search"]["batch"] if below else search.batch
    optimiser, published, *rates = PUBLISHED[name]
    assert (search.optimiser, search.batch) == (optimiser, batch if below else published)
    assert [search.rate, search.rate_end, search.warmup, search.gate_rate] == rates


def test_shared_weights_learn_by_the_optimiser_of_darts() -> None:
    search = layered(({"method": {"name": "rsps"}},)).search
    assert (search.optimiser, search.rate, search.rate_end) == ("sgd", 0.025, 0.001)


def test_drnas_ranks_edges_by_the_softmax_of_beta() -> None:
    """Its mean shares would take the other edge: elu(beta) + 1 grows less than exp(beta)."""
    method = DrNas(SPACE)
    betas = {"normal/0>3": (3.0, 0.5), "normal/1>3": (0.0, -2.0), "normal/2>3": (9.0, -9.0)}
    for edge, (first, others) in betas.items():
        method.logits[edge].data.copy_(torch.tensor([others, first, others, others]))
    shares = method.probabilities()
    assert shares["normal/0>3"].max() < shares["normal/1>3"].max()
    soft = {edge: method.logits[edge].softmax(-1).max() for edge in betas}
    assert soft["normal/0>3"] > soft["normal/1>3"]
    (found,) = method.draw(1)
    assert found.options["normal/>3"] == ("0", "2")


def fair(gates: dict[str, list[float]]) -> FairDarts:
    """With these gates of all operations but zero; others are nearly shut."""
    method = FairDarts(SPACE)
    for name, logits in method.logits.items():
        shares = torch.tensor([0.99, *gates.get(name, [0.1, 0.1, 0.1])])
        logits.data.copy_(shares.logit())
    return method


def test_fair_operations_do_not_compete() -> None:
    method = FairDarts(SPACE)
    before = method.sample(1, 0.0)[EDGE]
    assert before.eq(0.5).all()
    method.logits[EDGE].data[..., 1] = 5.0
    after = method.sample(1, 0.0)[EDGE]
    assert after[..., [0, 2, 3]].eq(0.5).all()
    assert after[..., 1] > 0.99


def test_the_zero_one_loss_is_for_each_image_and_least_at_zero_and_one() -> None:
    even, sure = FairDarts(SPACE, zero_one=10.0), spread_out(FairDarts(SPACE, zero_one=10.0))
    for logits in sure.logits.values():
        logits.data.mul_(1000)
    assert even.per_image(0.5)["zero_one"].item() == 0.0
    assert sure.per_image(0.5)["zero_one"].item() == pytest.approx(-10 * 0.25, rel=0.02)


def test_fair_darts_keeps_the_best_operation_of_the_best_edges_above_its_threshold() -> None:
    method = fair(
        {
            "normal/0>2": [0.95, 0.9, 0.1],  # the second best of an edge is not kept
            "normal/1>2": [0.1, 0.8, 0.1],  # below the threshold
            "normal/0>3": [0.1, 0.9, 0.1],
            "normal/1>3": [0.1, 0.1, 0.95],
            "normal/2>3": [0.86, 0.1, 0.1],  # above it, but the third edge
        }
    )
    (found,) = method.draw(1)
    assert {name: kept for name, kept in found.kept if "/>" not in name} == {
        "normal/0>2": ("sep_conv_3x3",),
        "normal/1>2": (),
        "normal/0>3": ("skip_connect",),
        "normal/1>3": ("avg_pool_3x3",),
        "normal/2>3": (),
    }


def test_a_state_without_any_gate_above_the_threshold_keeps_its_best() -> None:
    (found,) = fair({"normal/1>2": [0.1, 0.5, 0.2]}).draw(1)
    assert found.options["normal/>2"] == ("1",)
    assert found.options["normal/1>2"] == ("skip_connect",)


def test_fair_darts_never_takes_zero_for_an_answer() -> None:
    """Not even in a space that keeps nothing where zero is best."""
    space = Nasbench201(image=(3, 8, 8), channels=4, cells=1)
    method = FairDarts(space)
    for choice in space.choices:
        shares = torch.full((len(choice.options),), 0.1)
        shares[choice.options.index(ZERO)] = 0.99
        shares[choice.options.index("nor_conv_3x3")] = 0.9 if choice.name != "1>2" else 0.8
        method.logits[choice.name].data.copy_(shares.logit())
    (found,) = method.draw(1)
    assert {edge for edge, kept in found.kept if kept == ("nor_conv_3x3",)} == {
        *("0>1", "0>2", "0>3", "1>3", "2>3")
    }
    assert found.options["1>2"] == ()


def test_dirichlet_draws_are_shares_around_their_mean() -> None:
    method = spread_out(DrNas(SPACE))
    draws = torch.stack([method.sample(1, 0.5)[EDGE] for _ in range(DRAWS)])
    assert torch.allclose(draws.sum(-1), torch.ones(()))
    assert torch.allclose(draws.mean(0), method.probabilities()[EDGE], atol=CLOSE)
    concentration = method.strengths()["concentration"][EDGE]
    mean = concentration / concentration.sum()
    assert torch.allclose(method.probabilities()[EDGE], mean)


def test_the_kl_of_a_dirichlet_pulls_it_to_the_uniform_one() -> None:
    method = spread_out(DrNas(SPACE, kl_gates=0.001))
    first = method.per_image(0.0)["kl_gates"]
    for beta, slope in zip(
        method.parameters(), torch.autograd.grad(first, list(method.parameters())), strict=True
    ):
        beta.data -= 100 * slope
    assert 0 < method.per_image(0.0)["kl_gates"] < first
    uniform = DrNas(SPACE)
    for beta in uniform.parameters():
        beta.data.zero_()
    assert uniform.per_image(0.0)["kl_gates"].item() == pytest.approx(0.0, abs=1e-6)


def test_chance_searches_nothing_and_shared_weights_rank_what_chance_draws() -> None:
    chance, sharing = (resolve({"search": dict(cls.search)}).search for cls in (Random, Rsps))
    assert (chance.epochs, chance.candidates) == (0, 1)
    assert (sharing.epochs, sharing.candidates) == (20, 50)
    drawn = []
    for cls in (Random, Rsps):
        torch.manual_seed(3)
        drawn.append(cls(SPACE).draw(5))
    assert drawn[0] == drawn[1]


def test_a_papers_row_of_chance_is_what_finished_runs_were_made_with() -> None:
    rows = grid.read("vinnas-mnist", source="digits")
    config = layered(rows.layers("random", 0))
    search = config.search
    assert (search.epochs, search.time, search.candidates, search.held_out) == (0, 0, 1, 0.2)


@pytest.mark.parametrize("name", ["snas", "gdas", "pcdarts", "fairdarts", "drnas", "rsps"])
def test_a_space_of_another_shape_will_do(name: str) -> None:
    method = methods.make(name, Toy(), {})
    assert method.sample(2, 0.5)["look"].shape == (1, 1, 3)
    Toy().check(method.draw(1)[0])


@pytest.mark.parametrize("name", methods.names())
def test_a_method_is_final_and_overrides_nothing_that_its_family_has_written(name: str) -> None:
    """Only what `Method` leaves open is filled in, once, in the class or in an abstract parent."""
    final = methods.find(name)
    family = [cls for cls in inspect.getmro(final) if issubclass(cls, Method) and cls is not Method]
    assert not any(
        issubclass(methods.find(other), final) for other in methods.names() if other != name
    )
    written = [
        key
        for cls in family
        for key, thing in vars(cls).items()
        if (inspect.isfunction(thing) or isinstance(thing, staticmethod)) and key != "__init__"
    ]
    assert len(written) == len(set(written))
    fixed = {"choices", "gather", "given_up", "remaining", "scatter"}
    assert not fixed.intersection(written)
