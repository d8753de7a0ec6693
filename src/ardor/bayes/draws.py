"""Random draws that a gradient can pass, and their probabilities in closed form."""

import numpy as np
import torch
from torch import Tensor

from ardor.bayes.divergences import TINY


def gaussian_draw(mean: Tensor, log_var: Tensor) -> Tensor:
    """One draw of N(mean, exp(log_var)), differentiable in both."""
    return mean + (0.5 * log_var).exp() * torch.randn_like(mean)


def mixture_log_var(means: Tensor, log_vars: Tensor) -> Tensor:
    """Log-variances of an equal mixture of Gaussians, (parts, ..., options) -> (..., options).

    By the law of total variance: the mean of the variances plus the variance of the means. The
    latter is averaged over the options, as a few parts are too few to estimate it for each.
    """
    between = means.var(0, correction=min(1, len(means) - 1)).mean(-1, keepdim=True)
    return (log_vars.exp().mean(0) + between).log()


def gumbel_scores(logits: Tensor) -> Tensor:
    """log softmax(logits) + Gumbel noise: its largest entry is a draw of the softmax."""
    noise = torch.empty_like(logits).exponential_().clamp_min(TINY).log()
    return logits.log_softmax(-1) - noise


def concrete_draw(logits: Tensor, temperature: float) -> Tensor:
    """A draw of the concrete distribution (Maddison et al. 2017), differentiable in the logits.

    softmax((log p + Gumbel noise) / temperature): as the temperature goes to zero it is one-hot,
    with the probabilities p = softmax(logits).
    """
    return (gumbel_scores(logits) / temperature).softmax(-1)


def straight_through(soft: Tensor) -> Tensor:
    """One-hot where `soft` is largest, exactly; backwards it is `soft` (Dong and Yang 2019)."""
    one_hot = torch.zeros_like(soft).scatter(-1, soft.argmax(-1, keepdim=True), 1.0)
    return one_hot + (soft - soft.detach())


def keep_probability(log_delta: Tensor) -> Tensor:
    """P(psi = 1) = 1 / (1 + delta): the probability that dropout at that rate keeps a value."""
    return torch.sigmoid(-log_delta)


def soft_mask(drop_logit: Tensor, temperature: float) -> Tensor:
    """Concrete masks (Maddison et al. 2017): near zero with probability p, and near one otherwise.

    1 - sigmoid((ln p - ln(1 - p) + noise) / temperature), with logistic noise ln u - ln(1 - u).
    Whatever the temperature, a mask is below a half with probability p; as it goes to zero, masks
    are Bernoulli draws.

    Zhou et al. 2020 (PGNAS), eq. 16, made right: print takes the logarithm of log r, which is
    negative, where the noise is ln(-ln r1) - ln(-ln r2), has the temperature going to infinity, and
    calls p, the drop probability, that of keeping.
    """
    noise = torch.rand_like(drop_logit).logit(eps=1e-7)
    return torch.sigmoid((noise - drop_logit) / temperature)


def switch_draw(log_delta: Tensor, gradient: str, temperature: float) -> Tensor:
    """psi ~ Bernoulli(1 / (1 + delta)), with one of three gradients in log delta.

    "gaussian" has none; "straight-through" has that of the probability (Bengio et al. 2013);
    "concrete" is a soft mask, which has its own gradient, but is neither exactly zero nor one.
    """
    if gradient == "concrete":
        return soft_mask(log_delta, temperature)
    keep = keep_probability(log_delta)
    on = torch.bernoulli(keep.detach())
    return on if gradient == "gaussian" else on + (keep - keep.detach())


def dropout_noise(on: Tensor, log_delta: Tensor) -> Tensor:
    """xi given psi ~ N(psi, psi delta) (Wang et al. 2020, eq. 3): one draw for each psi in `on`.

    Written as psi (1 + sqrt(delta) e), which is the same for psi of zero or one.
    """
    return on * gaussian_draw(torch.ones_like(log_delta), log_delta)


def best_probability(mean: Tensor, log_var: Tensor, *, points: int = 2001) -> Tensor:
    """P(entry k is the largest) for independent Gaussians along the last dimension.

    P_k = integral of N(x; mu_k, sigma_k^2) prod_{j != k} Phi((x - mu_j) / sigma_j) dx, by the
    trapezium rule at quantiles of entry k, so that the grid follows the narrowest Gaussian.
    """
    mean, std = mean.double(), (0.5 * log_var.double()).exp()
    quantiles = torch.linspace(-8, 8, points, dtype=torch.double, device=mean.device)
    at = mean.unsqueeze(-1) + std.unsqueeze(-1) * quantiles  # (..., k, points)
    z = (at.unsqueeze(-2) - mean[..., None, :, None]) / std[
        ..., None, :, None
    ]  # (..., k, j, point)
    others = torch.special.log_ndtr(z).sum(-2) - torch.special.log_ndtr(quantiles)
    density = (-0.5 * quantiles.square()).exp() / (2 * np.pi) ** 0.5
    probabilities = torch.trapezoid(density * others.exp(), quantiles, dim=-1)
    return (probabilities / probabilities.sum(-1, keepdim=True)).float()
