"""Bayesian linear regression: what each of several things adds to a score, and how sure that is.

Scores y = base + F s + noise, noise ~ N(0, noise^2), strengths s ~ N(0, spread^2) each, and a base
that is its own for every group of scores (Bishop 2006, section 3.3; a base with a flat prior leaves
only differences from the group's mean). Evidence adds up: one group's is the prior of the next.
"""

import torch
from torch import Tensor


def evidence(features: Tensor, scores: Tensor, noise: float) -> tuple[Tensor, Tensor]:
    """Precision and shift that a group of scores, (looks,), adds: F'CF / noise^2, F'Cy / noise^2.

    C takes off the mean of the group. Features are (looks, things).
    """
    apart = features - features.mean(0, keepdim=True)
    return apart.T @ apart / noise**2, apart.T @ (scores - scores.mean()) / noise**2


def posterior(precision: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the strengths: N(P^-1 shift, P^-1)."""
    covariance = torch.linalg.inv(precision)
    return covariance @ shift, covariance


def draw(precision: Tensor, shift: Tensor, noise: Tensor) -> Tensor:
    """Draws of the strengths, (draws, things), from standard normal `noise` of that shape."""
    factor = torch.linalg.cholesky(precision)
    mean = torch.cholesky_solve(shift[:, None], factor)
    # L L' = P: the covariance of L'^-1 e is P^-1.
    apart = torch.linalg.solve_triangular(factor.T, noise.T, upper=True)
    drawn: Tensor = (mean + apart).T
    return drawn
