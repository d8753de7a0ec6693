"""Pure tensor functions of the theory: divergences, draws, entropies, curvature in the gates."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Dirichlet, kl_divergence

# Choice -> (copies | 1, batch | 1, options); an absent choice is left open.
Gates = Mapping[str, Tensor]

# Molchanov et al. 2017, eq. 14: the fit of the divergence to the log-uniform prior.
K1, K2, K3 = 0.63576, 1.87320, 1.48695
# Keeps log(mean^2) finite at mean 0, far below any weight that survives.
TINY = 1e-16


def log_noise_ratio(mean: Tensor, log_var: Tensor) -> Tensor:
    """log lambda = log(sigma^2 / mu^2), elementwise: large where a value is only noise."""
    return log_var - (mean.square() + TINY).log()


def log_uniform_divergence(log_lambda: Tensor) -> Tensor:
    """KL from N(mu, sigma^2) to p(w) ~ 1/|w|, elementwise in log lambda (Molchanov et al. 2017).

    Both versions of VINNAS print its negative and add it to the loss; minimised, that would drive
    lambda to 0 and never prune. Here it is the KL: positive and falling in log lambda. Nor is
    log lambda clamped as in Molchanov's code, which would stop the gradient of large weights.
    """
    return K1 - K1 * torch.sigmoid(K2 + K3 * log_lambda) + 0.5 * F.softplus(-log_lambda)


def log_uniform_kl(mean: Tensor, log_var: Tensor) -> Tensor:
    """KL from N(mean, exp(log_var)) to the log-uniform prior, summed over all entries."""
    return log_uniform_divergence(log_noise_ratio(mean, log_var)).sum()


def gaussian_kl(
    mean: Tensor, log_var: Tensor, prior_mean: Tensor, prior_log_var: Tensor, log_width: Tensor
) -> Tensor:
    """E_m KL(N(mu, sigma^2) || N(m, s^2)) for m ~ N(M, S^2), summed over all entries.

    0.5 [(sigma^2 + S^2 + (mu - M)^2) / s^2 - 1 - log(sigma^2 / s^2)]; `log_width` is log s^2, the
    rest broadcast to it. Ratios of variances are taken as logs: float32 holds them where it would
    not hold both variances.
    """
    ratio = log_var - log_width
    apart = (mean - prior_mean).square() * (-log_width).exp()
    return 0.5 * (ratio.exp() + (prior_log_var - log_width).exp() + apart - 1 - ratio).sum()


def gaussian_draw(mean: Tensor, log_var: Tensor) -> Tensor:
    """One draw of N(mean, exp(log_var)), differentiable in both."""
    return mean + (0.5 * log_var).exp() * torch.randn_like(mean)


def mixture_log_var(means: Tensor, log_vars: Tensor) -> Tensor:
    """Log-variances of an equal mixture of Gaussians, (parts, ..., options) -> (..., options).

    By the law of total variance: the mean of the variances, and the variance of the means. The
    latter is one for all options, as a few parts are too few to tell one option's from another's.
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
    """P(psi = 1) = 1 / (1 + delta): how likely dropout at that rate keeps a value."""
    return torch.sigmoid(-log_delta)


def switch_draw(log_delta: Tensor, gradient: str, temperature: float) -> Tensor:
    """psi ~ Bernoulli(1 / (1 + delta)), with one of three gradients in log delta.

    "gaussian" has none; "straight-through" has that of the probability (Bengio et al. 2013);
    "concrete" is sigmoid((logistic noise - log delta) / temperature) (Maddison et al. 2017), which
    is neither zero nor one, but its own gradient.
    """
    if gradient == "concrete":
        noise = torch.rand_like(log_delta).logit(eps=1e-7)
        return torch.sigmoid((noise - log_delta) / temperature)
    keep = keep_probability(log_delta)
    on = torch.bernoulli(keep.detach())
    return on if gradient == "gaussian" else on + (keep - keep.detach())


def dropout_noise(on: Tensor, log_delta: Tensor) -> Tensor:
    """xi given psi ~ N(psi, psi delta) (Wang et al. 2020, eq. 3): one draw for each psi in `on`.

    Written as psi (1 + sqrt(delta) e), which is the same for psi of zero or one.
    """
    return on * gaussian_draw(torch.ones_like(log_delta), log_delta)


def dropout_divergence(log_delta: Tensor, left: float) -> Tensor:
    """KL from N(g, g^2 delta) to N(lambda g, 1 / eta), elementwise, `left` = (1 - lambda)^2.

    At the best eta = 1 / (g^2 (left + delta)) it is 0.5 log(1 + left / delta), whatever g (Wang et
    al. 2020, eqs 10, 11). Their eq. 9 prints 2 eta g^2 (left + delta) where half of eta g^2 (left +
    delta) is right; eqs 10 and 11 follow from the latter.
    """
    return 0.5 * torch.log1p(left * (-log_delta).exp())


def dirichlet_concentration(beta: Tensor) -> Tensor:
    """elu(beta) + 1 (Chen et al. 2021), written so that it stays positive in float32."""
    return torch.where(beta > 0, beta + 1, beta.clamp_max(0).exp())


def dirichlet_kl(concentration: Tensor) -> Tensor:
    """KL from Dirichlets along the last dimension to the uniform one, Dir(1, ..., 1), summed."""
    ours, uniform = Dirichlet(concentration), Dirichlet(torch.ones_like(concentration))
    kl: Tensor = kl_divergence(ours, uniform)
    return kl.sum()


def zero_one_loss(shares: Tensor) -> Tensor:
    """-mean (p - 1/2)^2: least where every p is zero or one (Chu et al. 2020)."""
    return -(shares - 0.5).square().mean()


def entropy(probabilities: Tensor) -> Tensor:
    """-sum p log p along the last dimension, in nats; 0 log 0 is 0."""
    terms: Tensor = torch.special.entr(probabilities)
    return terms.sum(-1)


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


def gauss_newton_diagonal(logits_at: Callable[[Gates], Tensor], gates: Gates) -> Gates:
    """sum_n J_n^T (diag p - p p^T) J_n, diagonal in every gate, for the images of `logits_at`.

    `gates` are per image, (copies, batch, options), so that one backward pass for each class gives
    the Jacobian rows of all images at once; the result is (copies, 1, options). Writing it as the
    variance of J under p, centred, avoids the cancellation of E J^2 - (E J)^2 in float32.
    """
    at = {name: gate.detach().requires_grad_() for name, gate in gates.items()}
    logits = logits_at(at)
    p = logits.detach().softmax(-1)  # (batch, classes)
    rows = [
        torch.autograd.grad(logits[:, c].sum(), list(at.values()), retain_graph=True)
        for c in range(logits.shape[1])
    ]
    diagonal = {}
    for name, jacobian in zip(at, map(torch.stack, zip(*rows, strict=True)), strict=True):
        weight = p.T[:, None, :, None]  # (classes, 1, batch, 1) against (classes, copies, batch, k)
        centred = jacobian - (weight * jacobian).sum(0)
        diagonal[name] = (weight * centred.square()).sum(0).sum(1, keepdim=True)
    return diagonal
