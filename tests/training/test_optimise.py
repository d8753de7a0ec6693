"""Optimisers of weights and gates: as configured, those of gates a method's own by default."""

import pytest
import torch
from torch import nn

from ardor import methods
from ardor.pipeline.resolve import layered
from ardor.settings.sections import Fitting, SearchConfig
from ardor.training.optimise import gate_optimiser, weight_optimiser

RATE, DECAY = 0.1, 0.01
SLOPES = [torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0])]


def moved(**settings: object) -> torch.Tensor:
    gate = nn.Parameter(torch.tensor([1.0, 2.0]))
    config = SearchConfig(gate_rate=RATE, gate_decay=DECAY, **settings)
    optimiser = gate_optimiser([gate], config)
    for slope in SLOPES:
        gate.grad = slope.clone()
        optimiser.step()
    return gate.detach()


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_sgd_of_the_gates_goes_along_its_velocity(momentum: float) -> None:
    at, velocity = torch.tensor([1.0, 2.0]), torch.zeros(2)
    for slope in SLOPES:
        velocity = momentum * velocity + slope + DECAY * at
        at = at - RATE * velocity
    assert torch.allclose(moved(gate_optimiser="sgd", gate_momentum=momentum), at)


def test_adam_of_the_gates_has_their_own_betas() -> None:
    at, mean, square = torch.tensor([1.0, 2.0]), torch.zeros(2), torch.zeros(2)
    first, second = 0.3, 0.7
    for step, slope in enumerate(SLOPES, 1):
        slope = slope + DECAY * at
        mean = first * mean + (1 - first) * slope
        square = second * square + (1 - second) * slope.square()
        unbiased = mean / (1 - first**step), square / (1 - second**step)
        at = at - RATE * unbiased[0] / (unbiased[1].sqrt() + 1e-8)
    assert torch.allclose(moved(gate_betas=(first, second)), at)


def test_a_method_says_which_optimiser_its_gates_have_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert layered(({"method": {"name": "darts"}},)).search.gate_optimiser == "adam"
    darts = methods.find("darts")
    own = {**darts.search, "gate_optimiser": "sgd", "gate_momentum": 0.5}
    monkeypatch.setattr(darts, "search", own)
    found = layered(({"method": {"name": "darts"}},)).search
    assert (found.gate_optimiser, found.gate_momentum) == ("sgd", 0.5)
    asked = {"method": {"name": "darts"}, "search": {"gate_optimiser": "adam"}}
    assert layered((asked,)).search.gate_optimiser == "adam"


def test_adamw_takes_its_decay_off_the_weights_and_not_into_their_moments() -> None:
    layer = nn.Linear(2, 1, bias=False)
    at = layer.weight.detach().clone()
    mean, square = torch.zeros(1, 2), torch.zeros(1, 2)
    optimiser = weight_optimiser(layer, Fitting(optimiser="adamw", rate=RATE, weight_decay=DECAY))
    for step, slope in enumerate(SLOPES, 1):
        layer.weight.grad = slope[None].clone()
        optimiser.step()
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope.square()
        unbiased = mean / (1 - 0.9**step), square / (1 - 0.999**step)
        at = at - RATE * DECAY * at - RATE * unbiased[0] / (unbiased[1].sqrt() + 1e-8)
    assert torch.allclose(layer.weight, at)
