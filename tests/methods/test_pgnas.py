"""PGNAS: its masks, the KL against draws of weights, what it draws, and its ablations."""

import math
from typing import Any

import pytest
import torch
from standins import built
from torch import Tensor

from ardor import spaces
from ardor.layers.operations import ZERO
from ardor.methods.pgnas import Pgnas
from ardor.spaces import Space
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import EDGES, OPERATIONS, Nasbench201
from ardor.training.objective import objective

MODULE = spaces.of_function(built.build)(image=(1, 8, 8), classes=2, channels=4)
OPS = (ZERO, "sep_conv_3x3", "skip_connect")
CELLS = Cells(image=(1, 8, 8), classes=2, layout="N", states=2, channels=2, ops=",".join(OPS))
BENCH = Nasbench201(image=(1, 8, 8), classes=2, channels=2, cells=1)
WIDTH = 0.05  # of the Gaussians around the weights: narrow beside them


def with_drops(space: Space, drops: dict[str, list[float]], **settings: Any) -> Pgnas:
    """The drop probabilities of some choices; 0.1 for all others."""
    method = Pgnas(space, **settings)
    for name, p in drops.items():
        logit = method.get_parameter(f"drop_logit/{name}")
        logit.data.copy_(torch.tensor(p).logit())
    return method


def test_masks_of_channels_are_fresh_for_every_image_and_never_scaled_up() -> None:
    method = with_drops(MODULE, {"width": [0.3]})
    masks = method.sample(5000, 0.5)["width"]
    assert masks.shape == (1, 5000, 4)
    assert masks.min() >= 0
    assert masks.max() <= 1
    assert (masks < 0.5).float().mean((0, 1)).tolist() == pytest.approx([0.3] * 4, abs=0.03)
    agree = ((masks[0, :, 0] < 0.5) == (masks[0, :, 1] < 0.5)).float().mean().item()
    assert agree == pytest.approx(0.3**2 + 0.7**2, abs=0.03)  # channels are dropped apart


def test_operations_and_inputs_are_dropped_for_all_images_of_a_step_at_once() -> None:
    """Images are normalised together: they must have come through the same operations."""
    method = Pgnas(MODULE, drop=0.5)
    masks = method.sample(3, 0.5)
    assert {name: len(mask[0]) for name, mask in masks.items()} == {
        "width": 3,
        "halve": 1,
        "body": 1,
        "join": 1,
    }
    assert not torch.equal(masks["halve"], method.sample(3, 0.5)["halve"])


def test_edges_are_dropped_with_the_last_of_their_operations() -> None:
    assert {name for name in Pgnas(CELLS).sample(1, 0.0) if "/>" in name} == set()
    assert "join" in Pgnas(MODULE).sample(1, 0.0)  # inputs of which nothing else decides
    method = with_drops(CELLS, {"normal/0>2": [0.5, 0.9, 0.9]})
    kept = method.draw(1)[0].options
    assert kept["normal/0>2"] == ()
    assert kept["normal/>2"] == ("1",)


def test_coins_without_weights_have_minus_log_two_each_divided_once() -> None:
    """Four channels, three and two operations (zero is none), three inputs."""
    terms = Pgnas(MODULE, drop=0.5, kl=1.0).penalty({}, MODULE.build(), 0.0)
    fit = {"nll": torch.zeros(()), "accuracy": torch.zeros(())}
    loss = objective(fit, terms, dataset_size=500)
    assert loss.terms["kl_masks"] == pytest.approx(-12 * math.log(2) / 500)


def slices(net: Any, drops: dict[str, list[float]]) -> list[tuple[Tensor, float]]:
    """The weights under each mask of the module, as (masks, weights), with their rate."""
    module = net.module

    def weights(*layers: Any) -> Tensor:
        found = [m.weight for layer in layers for m in layer.modules() if hasattr(m, "kernel_size")]
        return torch.cat([w.flatten() for w in found if isinstance(w, Tensor)])[None]

    halve = module.halve.mixed.candidates
    bodies = [body.mixed.candidates for body in module.bodies]
    return [
        (module.stem[0].weight.flatten(1), drops["width"][0]),
        (weights(halve["conv"]), drops["halve"][0]),
        (weights(halve["point"]), drops["halve"][2]),
        (weights(*(each["conv"] for each in bodies)), drops["body"][1]),
        (weights(*(each["deep"] for each in bodies)), drops["body"][2]),
    ]


def monte_carlo_kl(weights: Tensor, p: float, length_scale: float, draws: int = 1000) -> float:
    """E log q - log prior over draws of a mixture of Gaussians around 0 and around the weights.

    The part of the KL that a narrow mixture has whatever p and m are is taken off.
    """
    weights = weights.detach().double()
    masks, count = weights.shape
    centre = (torch.rand(draws, masks, 1) >= p).double() * weights
    x = centre + WIDTH * torch.randn(draws, masks, count, dtype=torch.double)

    def log_density(apart: Tensor, width: float) -> Tensor:
        constant = count * (math.log(width) + 0.5 * math.log(2 * math.pi))
        return -0.5 * (apart / width).square().sum(-1) - constant

    around = torch.stack([log_density(x, WIDTH), log_density(x - weights, WIDTH)])
    log_q = (around + torch.tensor([p, 1 - p], dtype=torch.double).log()[:, None, None]).logsumexp(
        0
    )
    found = (log_q - log_density(x, 1 / length_scale)).sum(-1).mean().item()
    ratio = (WIDTH * length_scale) ** 2
    return found - 0.5 * masks * count * (ratio - 1 - math.log(ratio))


def test_the_kl_is_that_of_draws_of_the_weights_of_a_small_net() -> None:
    """Masks without weights, of a pool and of inputs, have their entropy alone."""
    drops = {"width": [0.3], "halve": [0.2, 0.5, 0.6], "body": [0.5, 0.1, 0.4], "join": [0.5] * 3}
    method = with_drops(MODULE, drops, kl=1.0, length_scale=2.0)
    net = MODULE.build()
    for layer in net.modules():
        if isinstance(layer, torch.nn.Conv2d):
            torch.nn.init.normal_(layer.weight, std=0.5)
    expected = sum(monte_carlo_kl(m, p, 2.0) for m, p in slices(net, drops)) - 4 * math.log(2)
    found = sum(term.item() for term in method.penalty({}, net, 0.0).values())
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("l2", "falls"), [("learned", True), ("constant", False)])
def test_weights_pull_the_drop_rate_up_unless_their_cost_is_constant(l2: str, falls: bool) -> None:
    """d/dp of what they cost is -d^2 / 2 |m|^2, and d p / d logit is p (1 - p)."""
    method = with_drops(MODULE, {"halve": [0.2] * 3}, l2=l2, kl=1.0, length_scale=3.0)
    net = MODULE.build()
    logit = method.get_parameter("drop_logit/halve")
    cost = method.penalty({}, net, 0.0)["kl_weights"]
    (slope,) = torch.autograd.grad(cost, logit, allow_unused=True, materialize_grads=True)
    norms = net.weight_norms(next(c for c in MODULE.choices if c.name == "halve"))[0]
    expected = -(9 / 2) * norms * 0.2 * 0.8 * falls
    assert slope.flatten().tolist() == pytest.approx(expected.tolist(), rel=1e-4)
    weight = net.module.halve.mixed.candidates["point"][0].weight
    (decay,) = torch.autograd.grad(method.penalty({}, net, 0.0)["kl_weights"], weight)
    assert torch.allclose(decay, 9 * (0.8 if falls else 1.0) * weight)


def test_constant_rates_leave_nothing_to_learn_but_the_weights() -> None:
    method = Pgnas(MODULE, rates="constant", drop=0.4)
    assert list(method.parameters()) == []
    assert method.probabilities()["halve"].flatten().tolist() == pytest.approx([0.6] * 3)
    assert method.penalty({}, MODULE.build(), 0.0)["kl_weights"] > 0


def test_the_best_guess_stands_alone_and_draws_keep_at_their_rates() -> None:
    drops = {"halve": [0.1, 0.7, 0.45], "body": [0.5, 0.6, 0.2], "width": [0.2]}
    method = with_drops(MODULE, drops)
    (best,), others = method.draw(1), method.draw(2000)
    assert best.options["halve"] == ("conv", "point")
    assert best.options["body"] == ("deep",)
    assert best.options["width"] == ("0", "1", "2", "3")
    often = [sum(option in a.options["body"] for a in others) for option in ("conv", "deep")]
    assert [count / 2000 for count in often] == pytest.approx([0.4, 0.8], abs=0.04)
    wide = sum(len(a.options["width"]) for a in others) / 2000
    assert wide == pytest.approx(0.8 * 4, abs=0.1)
    assert (
        Pgnas(BENCH).draw(5)[0] == Pgnas(BENCH).draw(1)[0]
    )  # first, where no channels are decided


def test_draws_are_made_by_torchs_generator() -> None:
    method = with_drops(MODULE, {"halve": [0.5] * 3, "width": [0.5]})
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(method.draw(10))
    assert found[0] == found[1] != found[2]


def test_the_strongest_keeps_one_operation_on_an_edge_and_nothing_that_is_dropped() -> None:
    drops = {edge: [0.5, 0.3, 0.2, 0.4, 0.9] for edge in EDGES}
    method = with_drops(BENCH, {**drops, "0>1": [0.5] + [0.999] * 4}, derive="strongest")
    best, *others = method.draw(200)
    assert best.options["0>1"] == ()  # all of it is dropped
    assert best.options["0>2"] == (OPERATIONS[2],)
    assert all(len(kept) <= 1 for a in others for kept in a.options.values())
    drawn = {a.options["0>2"] for a in others}
    assert {(op,) for op in OPERATIONS[1:4]} <= drawn


def test_zero_is_no_operation_to_be_dropped() -> None:
    method = Pgnas(BENCH)
    for edge, masks in method.sample(3, 0.0).items():
        at = OPERATIONS.index(ZERO)
        assert masks[..., at].eq(0).all()
        assert method.probabilities()[edge][..., at].eq(0).all()
    assert not Pgnas.bilevel  # weights and rates learn together
