"""Relevance of the parts of a network: an ARD prior that knows what depends on what.

Zhou et al. 2019, "BayesNAS". Every part is scaled by a number w ~ N(0, gamma), its switch; gamma
is large where the part is needed, and goes to zero where it is not. The same part in all copies of
a cell is a group: it has a w for each copy, along the first dimension, and one gamma. A part that
stands once is a group of one.
"""

import math
from typing import Literal

import torch
from torch import Tensor

# A Gaussian of a larger variance has positive entropy; all else is pruned (Algorithm 1).
BOUND = 1 / (2 * math.pi * math.e)
SMALLEST = 1e-10  # of gamma and omega, where one is divided by: a part without curvature has none
Rule = Literal["print", "code"]


def series(*variances: Tensor) -> Tensor:
    """The harmonic sum: no larger than any of them, so that one part that is off shuts them all.

    For parts one behind another (eqs 6, 8). A variance of infinity leaves the others as they are.
    """
    return sum((each.reciprocal() for each in variances), torch.zeros(())).reciprocal()


def parallel(variances: Tensor) -> Tensor:
    """The plain sum over the last dimension, for parts side by side: one that is on is enough."""
    return variances.sum(-1, keepdim=True)


def predecessors(leading: Tensor, rule: Rule = "print") -> Tensor:
    """What a switch has in series for all that leads to its source, the sum of their s (eqs 6, 8).

    The authors' code ("code") leaves this sum out. Here a source that nothing leads to, of a sum of
    zero, still shuts what reads it.
    """
    return leading if rule == "print" else torch.where(leading > 0, torch.inf, leading)


def posterior_variance(curvature: Tensor, gamma: Tensor) -> Tensor:
    """C = 1 / (1 / gamma + H), of each copy (eq. 17); written so that gamma may be zero.

    H is the curvature of E / lambda for an objective E + lambda R, as R is then minus the logarithm
    of the prior. Print leaves out the lambda, the authors' code has it.
    """
    return gamma / (1 + gamma * curvature)


def reweighting(curvature: Tensor, gamma: Tensor) -> Tensor:
    """omega of a group, (1, ...): the weight of its norm in the objective (eqs 18, 21).

    For one copy sqrt(gamma - C) / gamma (eq. 18). That cancels where H is small, and is the same as
    sqrt(H C / gamma) = sqrt(H / (1 + gamma H)). Squares of copies add up, as in the authors' code.
    """
    squares = evidence_slope(curvature, gamma.clamp_min(SMALLEST))
    return squares.sum(0, keepdim=True).sqrt().clamp_min(SMALLEST)


def evidence_slope(curvature: Tensor, gamma: Tensor) -> Tensor:
    """alpha = 1 / gamma - C / gamma^2 = H / (1 + gamma H): what evidence a larger gamma costs.

    The derivative of log gamma + log(1 / gamma + H), and the square of omega in eq. 18.
    """
    return curvature / (1 + gamma * curvature)


def well_determined(curvature: Tensor, gamma: Tensor) -> Tensor:
    """1 - C / gamma = gamma H / (1 + gamma H): how far the data, not the prior, decide a weight.

    From 0 to 1 (MacKay 1992, "Bayesian Interpolation", eq. 4.9); their sum is the effective number
    of parameters.
    """
    return gamma * evidence_slope(curvature, gamma)


def group_norm(weights: Tensor) -> Tensor:
    """|w| of a group, (1, ...): the L2 norm over its copies, the first dimension (eq. 21)."""
    norm: Tensor = torch.linalg.vector_norm(weights, dim=0, keepdim=True)
    return norm


def shrunk(weights: Tensor, by: Tensor) -> Tensor:
    """A group after a step against its norm: shorter by so much, and zero if it was no longer.

    argmin over v of 0.5 |v - w|^2 + by |v|: the proximal step of the norm, exact where its gradient
    does not exist (Parikh and Boyd 2014, "Proximal Algorithms", section 6.5.1).
    """
    norm = group_norm(weights)
    return weights * (1 - by / norm.clamp_min(SMALLEST)).clamp_min(0)


def switch(weights: Tensor, omega: Tensor) -> Tensor:
    """s = |w| / omega of a group (eq. 19): the gamma that it would have if it depended on nothing.

    At a given omega, gamma = s is where w^2 / gamma + omega^2 gamma is least, at 2 omega |w|.
    """
    return group_norm(weights) / omega


def gaussian_entropy(gamma: Tensor) -> Tensor:
    """0.5 ln(2 pi e gamma) of N(0, gamma), in nats; not above zero where gamma <= `BOUND`."""
    return 0.5 * (gamma / BOUND).log()
