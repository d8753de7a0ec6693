"""KL divergences and other penalties, in nats; each formula once, with its paper and equation."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Dirichlet, kl_divergence

# Molchanov et al. 2017, eq. 14: the fit of the divergence to the log-uniform prior.
K1, K2, K3 = 0.63576, 1.87320, 1.48695
# Keeps log(mean^2) finite at mean 0, far below any weight that survives.
TINY = 1e-16


def log_noise_ratio(mean: Tensor, log_var: Tensor) -> Tensor:
    """log lambda = log(sigma^2 / mu^2), elementwise: large where a value is only noise."""
    return log_var - (mean.square() + TINY).log()


def log_magnitude_ratio(weight: Tensor) -> Tensor:
    """log(mean square / w^2), elementwise: large where a weight is small beside the others.

    Magnitude pruning: as in Han et al. 2015, section 3, a weight is measured by the spread of its
    layer, here by the root mean square. It is `log_noise_ratio` with that for sigma.
    """
    return log_noise_ratio(weight, (weight.square().mean() + TINY).log())


def log_uniform_divergence(log_lambda: Tensor) -> Tensor:
    """KL from N(mu, sigma^2) to p(w) ~ 1/|w|, elementwise in log lambda (Molchanov et al. 2017).

    Both versions of VINNAS publish its negative and add it to the loss; minimised, that would drive
    lambda to 0 and never prune. Here it is the KL: positive and falling in log lambda. Unlike in
    Molchanov's code log lambda is not clamped, which would stop the gradient of large weights.
    """
    return K1 - K1 * torch.sigmoid(K2 + K3 * log_lambda) + 0.5 * F.softplus(-log_lambda)


def log_uniform_kl(mean: Tensor, log_var: Tensor) -> Tensor:
    """KL from N(mean, exp(log_var)) to the log-uniform prior, summed over all entries."""
    return log_uniform_divergence(log_noise_ratio(mean, log_var)).sum()


def gaussian_kl(
    mean: Tensor, log_var: Tensor, prior_mean: Tensor, prior_log_var: Tensor, log_width: Tensor
) -> Tensor:
    """E_m KL(N(mu, sigma^2) || N(m, s^2)) for m ~ N(M, S^2), summed over all entries.

    0.5 [(sigma^2 + S^2 + (mu - M)^2) / s^2 - 1 - log(sigma^2 / s^2)]; `log_width` is log s^2, and
    all others broadcast to it. Ratios of variances are taken as logs: float32 holds them where it
    would not hold both variances.
    """
    ratio = log_var - log_width
    apart = (mean - prior_mean).square() * (-log_width).exp()
    return 0.5 * (ratio.exp() + (prior_log_var - log_width).exp() + apart - 1 - ratio).sum()


def dropout_divergence(log_delta: Tensor, left: float) -> Tensor:
    """KL from N(g, g^2 delta) to N(lambda g, 1 / eta), elementwise, `left` = (1 - lambda)^2.

    At the best eta = 1 / (g^2 (left + delta)) it is 0.5 log(1 + left / delta), whatever g (Wang et
    al. 2020, eqs 10, 11). Their eq. 9 has 2 eta g^2 (left + delta) where half of eta g^2 (left +
    delta) is correct; eqs 10 and 11 follow from the latter.
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


def softened(log_probabilities: Tensor, temperature: float) -> Tensor:
    """softmax(z / T) along the last dimension (Hinton et al. 2015, section 2).

    Log-probabilities differ from the logits z by a constant, which the softmax takes out.
    """
    p: Tensor = (log_probabilities / temperature).softmax(-1)
    return p


def distillation(logits: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """T^2 KL(taught || softmax(logits / T)) for each row (Hinton et al. 2015, section 2).

    `taught` are a teacher's softened probabilities, and weigh as much as they sum to: w p for a row
    of weight w, zeros for one that has no teacher. As the paper says, gradients of softened
    probabilities fall with 1 / T^2, so that the factor keeps them as large as those of labels.
    """
    weights = taught.sum(-1)
    student = (logits / temperature).log_softmax(-1)
    cross = -(taught * student).sum(-1)
    own = torch.special.entr(taught).sum(-1) - torch.special.entr(weights)
    apart: Tensor = temperature**2 * (cross - own)
    return apart


def bernoulli_entropy(logit: Tensor) -> Tensor:
    """-p ln p - (1 - p) ln(1 - p) at p = sigmoid(logit), elementwise, in nats; exact near 0 and 1.

    For masks it is the second half of a KL, see `expected_weight_cost`. Zhou et al. 2020 (PGNAS)
    call the sum of p ln p alone the entropy.
    """
    return -torch.sigmoid(logit) * F.logsigmoid(logit) - torch.sigmoid(-logit) * F.logsigmoid(
        -logit
    )


def expected_weight_cost(keep: Tensor, squares: Tensor, length_scale: float) -> Tensor:
    """keep d^2 / 2 |m|^2, elementwise: the cost of weights m under N(0, 1 / d^2), kept so often.

    The KL from dropout, m times K masks that are zero with probability p, to that prior is the sum
    over groups of

        (1 - p) d^2 / 2 |m|^2 - K H(p),

    up to a constant, if every mixture is taken as narrow Gaussians around 0 and around m (Gal and
    Ghahramani 2016; as a spike and slab in Zhou et al. 2020, eq. 15, with a prior drop rate u of
    0). Print has H in a bracket that would subtract it from the likelihood, without its sign and
    its second term; Algorithm 1 adds gradients where it must descend. Weights are not divided by
    1 - p when they are kept, so that the cost has (1 - p) as a factor.
    """
    return 0.5 * length_scale**2 * keep * squares
