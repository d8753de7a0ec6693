"""Every formula against its twin: a table, an integral, draws, or brute force."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ardor.bayes.curvature import gauss_newton_diagonal
from ardor.bayes.divergences import (
    dirichlet_concentration,
    dirichlet_kl,
    distillation,
    dropout_divergence,
    entropy,
    gaussian_kl,
    log_noise_ratio,
    log_uniform_divergence,
    log_uniform_kl,
    softened,
    zero_one_loss,
)
from ardor.bayes.draws import (
    best_probability,
    concrete_draw,
    dropout_noise,
    gaussian_draw,
    gumbel_scores,
    keep_probability,
    straight_through,
    switch_draw,
)

# log lambda -> the fit of Molchanov et al. 2017, and the divergence by quadrature
GOLD = {
    -10: (5.635781, 5.635159),
    -8: (4.635899, 4.635014),
    -5: (3.136684, 3.131778),
    -3: (2.115590, 2.107978),
    -1: (0.913872, 0.914531),
    0: (0.431239, 0.426636),
    1: (0.177970, 0.173191),
    3: (0.025420, 0.024679),
    8: (0.000168, 0.000170),
}


@pytest.mark.parametrize(("log_lambda", "values"), GOLD.items())
def test_divergence_has_the_known_values(log_lambda: int, values: tuple[float, float]) -> None:
    found = log_uniform_divergence(torch.tensor(float(log_lambda), dtype=torch.double)).item()
    assert found == pytest.approx(values[0], abs=1e-5)
    assert found == pytest.approx(values[1], abs=8e-3)


@pytest.mark.parametrize("log_lambda", [-5.0, -1.0, 0.0, 2.0])
def test_divergence_is_the_integral(log_lambda: float) -> None:
    """KL = E log q - E log p with w = 1 + sqrt(lambda) e; constant set so that it ends at 0."""
    std = math.exp(log_lambda / 2)
    z = torch.linspace(-12, 12, 4_000_001, dtype=torch.double)
    density = (-0.5 * z.square()).exp() / math.sqrt(2 * math.pi)
    mean_log = torch.trapezoid(density * (1 + std * z).abs().clamp_min(1e-300).log(), z).item()
    constant = 0.5 * (math.log(2) + 0.5772156649015329)
    exact = mean_log - 0.5 * log_lambda + constant
    found = log_uniform_divergence(torch.tensor(log_lambda, dtype=torch.double)).item()
    assert found == pytest.approx(exact, abs=8e-3)


def test_divergence_is_positive_and_falls_with_the_noise() -> None:
    at = torch.linspace(-30, 30, 601, dtype=torch.double, requires_grad=True)
    divergence = log_uniform_divergence(at)
    (slope,) = torch.autograd.grad(divergence.sum(), at)
    assert (divergence >= 0).all()
    assert (divergence.diff() < 0).all()
    assert slope[0].item() == pytest.approx(-0.5, abs=1e-6)
    assert slope[-1].item() == pytest.approx(0.0, abs=1e-6)


def test_more_variance_always_lowers_the_kl() -> None:
    mean, log_var = torch.randn(50), torch.full((50,), -5.0, requires_grad=True)
    (slope,) = torch.autograd.grad(log_uniform_kl(mean, log_var), log_var)
    assert (slope < 0).all()


def test_kl_is_finite_at_zero_mean_and_any_variance() -> None:
    mean = torch.tensor([0.0, 1e-30, 1e-8, 1.0, 1e15]).repeat(2, 1).requires_grad_()
    log_var = torch.tensor([[-30.0], [10.0]]).expand(2, 5).clone().requires_grad_()
    kl = log_uniform_kl(mean, log_var)
    slopes = torch.autograd.grad(kl, (mean, log_var))
    assert kl.isfinite()
    assert all(slope.isfinite().all() for slope in slopes)


def test_noise_ratio_is_the_log_of_variance_over_squared_mean() -> None:
    mean, log_var = torch.tensor([0.5, -2.0]), torch.tensor([-1.0, 2.0])
    assert torch.allclose(log_noise_ratio(mean, log_var), (log_var.exp() / mean**2).log())


def test_gaussian_kl_is_the_mean_of_the_divergence_over_the_prior_mean() -> None:
    """By quadrature over m ~ N(M, S^2) of torch's own KL between two Gaussians."""
    mean, log_var = torch.tensor([0.3, -1.2]), torch.tensor([-2.0, 0.5])
    prior_mean, prior_log_var = torch.tensor([0.1, 0.4]), torch.tensor([-1.0, -3.0])
    log_width = torch.tensor(-0.7)
    z = torch.linspace(-10, 10, 20_001, dtype=torch.double)[:, None]
    m = prior_mean + (0.5 * prior_log_var).exp() * z
    ours = torch.distributions.Normal(mean.double(), (0.5 * log_var.double()).exp())
    prior = torch.distributions.Normal(m, (0.5 * log_width.double()).exp())
    density = (-0.5 * z.square()).exp() / math.sqrt(2 * math.pi)
    each = torch.trapezoid(density * torch.distributions.kl_divergence(ours, prior), z, dim=0)
    found = gaussian_kl(mean, log_var, prior_mean, prior_log_var, log_width)
    assert found.item() == pytest.approx(each.sum().item(), rel=1e-5)


def test_gaussian_kl_is_least_where_the_width_is_the_mean_square_distance() -> None:
    mean, log_var = torch.randn(4, 5), torch.randn(4, 5)
    prior_mean, prior_log_var = torch.randn(5), torch.randn(5)
    square = log_var.exp() + prior_log_var.exp() + (mean - prior_mean).square()
    log_width = square.mean().log().requires_grad_()
    kl = gaussian_kl(mean, log_var, prior_mean, prior_log_var, log_width)
    (slope,) = torch.autograd.grad(kl, log_width)
    assert slope.item() == pytest.approx(0.0, abs=1e-4)


def test_gaussian_kl_in_float32_is_that_in_float64_at_any_scale() -> None:
    mean = torch.tensor([0.0, 1e-8, 1.0, 1e3]).repeat(3, 1)
    log_var = torch.tensor([[-60.0], [-10.0], [10.0]]).expand(3, 4)
    for log_width in (-60.0, -4.6, 10.0):
        numbers = (mean, log_var, mean - 0.1, log_var - 1, torch.tensor(log_width))
        found, exact = gaussian_kl(*numbers), gaussian_kl(*(n.double() for n in numbers))
        assert found.isfinite()
        assert found.item() == pytest.approx(exact.item(), rel=1e-3)


def test_gaussian_draws_have_their_moments() -> None:
    draws = gaussian_draw(torch.full((200_000,), 1.5), torch.full((200_000,), math.log(0.25)))
    assert draws.mean().item() == pytest.approx(1.5, abs=0.01)
    assert draws.var().item() == pytest.approx(0.25, rel=0.02)


def test_the_largest_gumbel_score_is_a_draw_of_the_softmax() -> None:
    logits = torch.tensor([0.0, 1.0, -2.0, 0.5])
    best = gumbel_scores(logits.expand(200_000, 4)).argmax(-1)
    often = best.bincount(minlength=4) / 200_000
    assert torch.allclose(often, logits.softmax(-1), atol=5e-3)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
def test_a_concrete_draw_is_torchs_own(temperature: float) -> None:
    ours, theirs = (torch.randn(3, 5).requires_grad_() for _ in range(2))
    theirs.data.copy_(ours.data)
    torch.manual_seed(1)
    draw = concrete_draw(ours, temperature)
    torch.manual_seed(1)
    expected = nn.functional.gumbel_softmax(theirs, tau=temperature)
    assert torch.allclose(draw, expected, atol=1e-6)
    (slope,), (exact,) = (
        torch.autograd.grad(d[:, 0].sum(), p) for d, p in ((draw, ours), (expected, theirs))
    )
    assert torch.allclose(slope, exact, atol=1e-5)


def test_straight_through_is_one_hot_forwards_and_soft_backwards() -> None:
    soft = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]], requires_grad=True)
    hard = straight_through(soft)
    assert hard.tolist() == [[0, 1, 0], [0, 0, 1]]
    weights = torch.randn(2, 3)
    (slope,) = torch.autograd.grad((weights * hard).sum(), soft)
    assert torch.equal(slope, weights)


@pytest.mark.parametrize("delta", [0.1, 1.0, 5.0])
def test_dropout_noise_has_its_moments(delta: float) -> None:
    """E xi = 1 / (1 + delta), E xi^2 = 1; xi is zero with probability delta / (1 + delta)."""
    log_delta = torch.full((400_000,), math.log(delta))
    xi = dropout_noise(switch_draw(log_delta, "gaussian", 1.0), log_delta)
    assert xi.mean().item() == pytest.approx(1 / (1 + delta), abs=0.01)
    assert xi.square().mean().item() == pytest.approx(1.0, abs=0.02)
    assert xi.eq(0).float().mean().item() == pytest.approx(delta / (1 + delta), abs=0.005)
    assert xi[xi != 0].var().item() == pytest.approx(delta, rel=0.03)


def gaussian_of(mean: float, var: float) -> torch.distributions.Normal:
    return torch.distributions.Normal(torch.tensor(mean).double(), math.sqrt(var))


@pytest.mark.parametrize("weight", [0.01, -0.7, 30.0])
def test_dropout_divergence_is_the_least_over_the_priors_width_for_any_weight(
    weight: float,
) -> None:
    """Torch's own KL between Gaussians, at 1 / eta of all sizes; Proposition 1."""
    delta, lam = 0.8, 0.3
    posterior = gaussian_of(weight, weight**2 * delta)
    widths = weight**2 * torch.logspace(-2, 2, 4001, dtype=torch.double)
    priors = torch.distributions.Normal(torch.tensor(lam * weight).double(), widths.sqrt())
    least = torch.distributions.kl_divergence(posterior, priors).min().item()
    found = dropout_divergence(torch.tensor(math.log(delta)), (1 - lam) ** 2).item()
    assert found == pytest.approx(0.238893, abs=1e-6)
    assert found == pytest.approx(least, abs=1e-6)


def mixtures(delta: float, left: float, weight: float) -> tuple[float, Any, Any]:
    """P(psi = 1), and what posterior and prior are where it is 1."""
    prior = gaussian_of((1 - math.sqrt(left)) * weight, weight**2 * (left + delta))
    return 1 / (1 + delta), gaussian_of(weight, weight**2 * delta), prior


@pytest.mark.parametrize(("delta", "left"), [(0.1, 1.0), (0.8, 0.49), (4.0, 0.1)])
def test_the_expected_dropout_divergence_is_the_kl_of_the_mixtures(
    delta: float, left: float
) -> None:
    """Both are a spike at zero and a Gaussian: P times the density, by quadrature and in draws."""
    keep, posterior, prior = mixtures(delta, left, 1.7)
    log_delta = torch.tensor(math.log(delta), dtype=torch.double)
    expected = (keep_probability(log_delta) * dropout_divergence(log_delta, left)).item()
    tau = 1.7 + 1.7 * math.sqrt(delta) * torch.linspace(-12, 12, 200_001, dtype=torch.double)
    density, other = keep * posterior.log_prob(tau).exp(), keep * prior.log_prob(tau).exp()
    spike = (1 - keep) * math.log((1 - keep) / (1 - keep))
    exact = spike + torch.trapezoid(density * (density.log() - other.log()), tau).item()
    assert expected == pytest.approx(exact, abs=1e-6)
    on = torch.rand(200_000) < keep
    draws = posterior.sample((200_000,))
    ratio = on * (posterior.log_prob(draws) - prior.log_prob(draws))
    assert ratio.mean().item() == pytest.approx(expected, abs=0.02)


def test_dropout_divergence_always_pushes_rates_up_and_ends_with_the_annealing() -> None:
    log_delta = torch.linspace(-8, 8, 33, dtype=torch.double, requires_grad=True)
    for left in (1.0, 0.3):
        (slope,) = torch.autograd.grad(dropout_divergence(log_delta, left).sum(), log_delta)
        assert torch.allclose(slope, -0.5 * left / (log_delta.exp() + left))
    assert dropout_divergence(log_delta, 0.0).eq(0).all()
    ard = 0.5 * torch.log(1 + 1 / log_delta.exp())
    assert torch.allclose(dropout_divergence(log_delta, 1.0), ard)


def test_switches_have_the_gradients_they_are_named_after() -> None:
    log_delta = torch.tensor([-2.0, 0.0, 1.0], requires_grad=True)
    assert not switch_draw(log_delta, "gaussian", 1.0).requires_grad
    drawn = switch_draw(log_delta, "straight-through", 1.0)
    assert set(drawn.tolist()) <= {0.0, 1.0}
    (slope,) = torch.autograd.grad(drawn.sum(), log_delta)
    keep = keep_probability(log_delta)
    assert torch.allclose(slope, -keep * (1 - keep))


def test_a_concrete_switch_is_torchs_own() -> None:
    at = torch.tensor([-2.0, 0.0, 1.0], dtype=torch.double)
    found = switch_draw(at.expand(200_000, 3), "concrete", 0.5)
    theirs = torch.distributions.RelaxedBernoulli(torch.tensor(0.5).double(), logits=-at)
    assert torch.allclose(found.mean(0), theirs.sample((200_000,)).mean(0), atol=5e-3)
    assert torch.allclose((found > 0.5).double().mean(0), keep_probability(at), atol=5e-3)


def test_a_concentration_is_elu_plus_one_and_always_positive() -> None:
    beta = torch.linspace(-10, 10, 41, dtype=torch.double)
    assert torch.allclose(dirichlet_concentration(beta), nn.functional.elu(beta) + 1)
    far = torch.tensor([-80.0, -20.0, 0.0, 80.0], requires_grad=True)
    assert (dirichlet_concentration(far) > 0).all()
    (slope,) = torch.autograd.grad(dirichlet_concentration(far).sum(), far)
    assert slope.isfinite().all()


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (2.5, 1.2), (1.5, 6.0)])
def test_dirichlet_kl_is_the_integral(a: float, b: float) -> None:
    """Of two shares: a beta density against the uniform one, whose log is zero."""
    x = torch.linspace(0, 1, 2_000_001, dtype=torch.double)[1:-1]
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    log_density = (a - 1) * x.log() + (b - 1) * (1 - x).log() - log_beta
    exact = torch.trapezoid(log_density.exp() * log_density, x).item()
    twice = torch.tensor([[a, b], [a, b]], dtype=torch.double)
    assert dirichlet_kl(twice).item() == pytest.approx(2 * exact, abs=1e-4)


def test_zero_one_loss_is_minus_the_mean_square_from_the_middle() -> None:
    assert zero_one_loss(torch.tensor([0.5, 0.5])).item() == 0.0
    assert zero_one_loss(torch.tensor([0.0, 1.0, 1.0])).item() == -0.25
    assert zero_one_loss(torch.tensor([0.9, 0.4])).item() == pytest.approx(-(0.16 + 0.01) / 2)


def test_entropy_of_uniform_is_log_of_the_count_and_of_certain_zero() -> None:
    assert entropy(torch.full((10,), 0.1)).item() == pytest.approx(math.log(10))
    certain = torch.tensor([0.0, 1.0, 0.0])
    assert entropy(certain).item() == 0.0


def test_best_probability_is_how_often_a_draw_is_the_largest() -> None:
    mean = torch.tensor([[0.0, 0.3, -0.2], [1.0, 1.0, -5.0]])
    log_var = torch.tensor([[-1.0, -3.0, 1.0], [-10.0, -10.0, -10.0]])
    draws = mean + (0.5 * log_var).exp() * torch.randn(400_000, 2, 3)
    often = nn.functional.one_hot(draws.argmax(-1), 3).float().mean(0)
    assert torch.allclose(best_probability(mean, log_var), often, atol=5e-3)


def test_best_probability_stands_very_different_widths() -> None:
    mean, log_var = torch.tensor([0.0, 0.1, 5.0]), torch.tensor([-30.0, 10.0, -10.0])
    found = best_probability(mean, log_var)
    above = 0.5 * math.erfc((5.0 - 0.1) / math.exp(5) / math.sqrt(2))
    assert found.sum().item() == pytest.approx(1.0)
    assert found[1].item() == pytest.approx(above, abs=1e-3)


def test_gauss_newton_diagonal_is_that_of_the_full_jacobian() -> None:
    torch.manual_seed(3)
    batch, classes = 5, 4
    x = torch.randn(batch, 6, dtype=torch.double)
    mix = torch.randn(2, 3, 6, classes, dtype=torch.double)

    def logits_at(gates: dict[str, Tensor]) -> Tensor:
        return torch.tanh(torch.einsum("cbk,ckfo,bf->bo", gates["a"].square(), mix, x))

    gates = {"a": torch.rand(2, 1, 3, dtype=torch.double)}
    found = gauss_newton_diagonal(logits_at, {"a": gates["a"].expand(2, batch, 3)})["a"]
    jacobian = torch.autograd.functional.jacobian(lambda a: logits_at({"a": a}), gates["a"])
    jacobian = jacobian.reshape(batch, classes, 6)
    p = logits_at(gates).softmax(-1)
    hessian = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    full = torch.einsum("bci,bcd,bdj->ij", jacobian, hessian, jacobian)
    assert torch.allclose(found.reshape(6), full.diagonal(), rtol=1e-10)
    assert (found >= 0).all()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_softened_probabilities_are_those_of_logits_by_temperature(temperature: float) -> None:
    logits = torch.randn(3, 5, dtype=torch.double)
    powers = logits.softmax(1) ** (1 / temperature)
    found = softened(logits.log_softmax(1), temperature)
    assert torch.allclose(found, powers / powers.sum(1, keepdim=True))
    assert torch.allclose(found, softened(logits, temperature))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_distillation_is_the_divergence_of_softened_answers(temperature: float) -> None:
    student, teacher = torch.randn(2, 3, 5, dtype=torch.double).unbind(0)
    q = softened(teacher, temperature)
    found = distillation(student, q, temperature)
    for row, value in enumerate(found):
        p = softened(student[row], temperature)
        terms = [a * math.log(a / b) for a, b in zip(q[row].tolist(), p.tolist(), strict=True)]
        assert value.item() == pytest.approx(temperature**2 * math.fsum(terms))
    assert distillation(teacher, q, temperature).abs().max() < 1e-12


def test_a_row_of_answers_weighs_what_it_sums_to() -> None:
    student, q = torch.randn(2, 5, dtype=torch.double), torch.rand(2, 5, dtype=torch.double)
    q /= q.sum(1, keepdim=True)
    weights = torch.tensor([[0.3], [0.0]], dtype=torch.double)
    whole, part = distillation(student, q, 2.0), distillation(student, weights * q, 2.0)
    assert torch.allclose(part, weights[:, 0] * whole)


def test_gradients_of_hot_answers_are_as_large_as_those_of_logits() -> None:
    """At a high temperature it is half the mean square of logits (Hinton et al. 2015, eq. 4)."""
    student, teacher = torch.randn(2, 6, dtype=torch.double).unbind(0)
    student, teacher = student - student.mean(), teacher - teacher.mean()
    found = distillation(student, softened(teacher, 1e3), 1e3).item()
    assert found == pytest.approx((student - teacher).square().mean().item() / 2, rel=1e-2)
