"""Masks that are dropped at learned rates: draws, entropy and cost against known values."""

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli

from ardor.bayes.divergences import bernoulli_entropy, expected_weight_cost
from ardor.bayes.draws import soft_mask

DRAWS = 200_000
# Temperature -> the mean of what is dropped, one minus the mask, at p = 0.1.
DROPPED = {2 / 3: 0.145, 0.2: 0.105, 0.1: 0.101}


def logit_of(p: float) -> Tensor:
    return torch.tensor(p, dtype=torch.double).logit().requires_grad_()


def slope(value: Tensor, at: Tensor) -> float:
    (found,) = torch.autograd.grad(value, at)
    return found.item()


@pytest.mark.parametrize(("temperature", "mean"), DROPPED.items())
def test_masks_have_the_known_mean_and_are_dropped_at_their_rate(
    temperature: float, mean: float
) -> None:
    dropped = 1 - soft_mask(logit_of(0.1).expand(DRAWS), temperature)
    assert dropped.mean().item() == pytest.approx(mean, abs=2e-3)
    assert (dropped > 0.5).double().mean().item() == pytest.approx(0.1, abs=3e-3)


def test_a_mask_rises_as_its_rate_of_being_dropped_falls() -> None:
    logit = logit_of(0.3)
    assert slope(soft_mask(logit.expand(100), 0.2).sum(), logit) < 0


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.8])
def test_the_entropy_is_torchs_own(p: float) -> None:
    expected = Bernoulli(probs=torch.tensor(p, dtype=torch.double)).entropy().item()
    assert bernoulli_entropy(logit_of(p)).item() == pytest.approx(expected, rel=1e-9)


def test_the_entropy_is_largest_at_a_half() -> None:
    half = logit_of(0.5)
    assert bernoulli_entropy(half).item() == pytest.approx(math.log(2))
    assert slope(bernoulli_entropy(half), half) == pytest.approx(0.0, abs=1e-12)


def test_the_entropy_of_what_is_certain_is_zero_and_so_is_its_gradient() -> None:
    certain = torch.tensor([-200.0, 200.0], requires_grad=True)
    entropy = bernoulli_entropy(certain)
    (found,) = torch.autograd.grad(entropy.sum(), certain)
    assert entropy.tolist() == pytest.approx([0.0, 0.0])
    assert found.tolist() == pytest.approx([0.0, 0.0])


def test_weights_cost_less_the_more_often_they_are_dropped() -> None:
    p = torch.tensor(0.3, requires_grad=True)
    cost = expected_weight_cost(1 - p, torch.tensor(2.5), length_scale=4.0)
    assert cost.item() == pytest.approx(0.7 * 16 / 2 * 2.5)
    assert slope(cost, p) == pytest.approx(-16 / 2 * 2.5)
