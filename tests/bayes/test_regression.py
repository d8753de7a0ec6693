"""Linear regression of scores, against the textbook's joint Gaussian computed another way."""

import pytest
import torch
from torch import Tensor

from ardor.bayes.regression import draw, evidence, posterior

NOISE, SPREAD = 0.2, 0.5


def scored(seed: int, looks: int = 12) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    features = torch.randint(2, (looks, 4), generator=random).double()
    return features, torch.randn(looks, generator=random, dtype=torch.double)


def prior() -> Tensor:
    return torch.eye(4, dtype=torch.double) / SPREAD**2


def test_it_is_the_conditional_of_strengths_and_scores_together() -> None:
    features, scores = scored(0)
    looks = len(scores)
    precision, shift = evidence(features, scores, NOISE)
    mean, covariance = posterior(prior() + precision, shift)
    # The same by conditioning the joint Gaussian, with a base that may be almost anything.
    kernel = SPREAD**2 * features @ features.T + 1e6 * torch.ones(looks, looks)
    inverse = torch.linalg.inv(kernel + NOISE**2 * torch.eye(looks))
    cross = SPREAD**2 * features
    assert torch.allclose(mean, cross.T @ inverse @ scores, atol=1e-5)
    left = SPREAD**2 * torch.eye(4) - cross.T @ inverse @ cross
    assert torch.allclose(covariance, left.double(), atol=1e-5)


def test_a_group_that_scores_better_as_a_whole_tells_the_same() -> None:
    features, scores = scored(1)
    one, other = evidence(features, scores, NOISE), evidence(features, scores + 7.0, NOISE)
    assert torch.allclose(one[1], other[1])
    assert torch.equal(one[0], other[0])


def test_noise_twice_as_large_counts_a_quarter() -> None:
    features, scores = scored(2)
    for near, far in zip(
        evidence(features, scores, NOISE), evidence(features, scores, 2 * NOISE), strict=True
    ):
        assert torch.allclose(near, 4 * far)


def test_draws_have_the_mean_and_covariance_of_the_posterior() -> None:
    features, scores = scored(3)
    precision, shift = evidence(features, scores, NOISE)
    mean, covariance = posterior(prior() + precision, shift)
    noise = torch.randn(40_000, 4, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    drawn = draw(prior() + precision, shift, noise)
    assert drawn.mean(0).tolist() == pytest.approx(mean.tolist(), abs=0.005)
    assert torch.allclose(torch.cov(drawn.T), covariance, atol=0.003)
