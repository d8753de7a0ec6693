"""Relevance: every formula of BayesNAS against a table, its printed form, or a search."""

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

from ardor.bayes.curvature import gauss_newton_diagonal
from ardor.bayes.relevance import (
    BOUND,
    gaussian_entropy,
    group_norm,
    parallel,
    posterior_variance,
    predecessors,
    reweighting,
    series,
    shrunk,
    switch,
)

# H -> omega and s of one part, at gamma = w = 1
TABLE = {
    0.001: (0.032, 31.6),
    0.1: (0.302, 3.32),
    1.0: (0.707, 1.414),
    10.0: (0.953, 1.049),
    100.0: (0.995, 1.005),
}


def of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double)[:, None]  # (copies, 1)


@pytest.mark.parametrize(("curvature", "values"), TABLE.items())
def test_the_first_update_has_the_known_values(
    curvature: float, values: tuple[float, float]
) -> None:
    omega = reweighting(of(curvature), of(1.0))
    assert omega.item() == pytest.approx(values[0], abs=5e-4)
    assert switch(of(1.0), omega).item() == pytest.approx(values[1], rel=2e-3)


def test_omega_is_as_printed_and_in_closed_form() -> None:
    gamma, curvature = of(0.7), of(3.2)
    c = posterior_variance(curvature, gamma)
    assert c.item() == pytest.approx(1 / (1 / 0.7 + 3.2))
    omega = reweighting(curvature, gamma).item()
    assert omega == pytest.approx(math.sqrt(0.7 - c.item()) / 0.7)
    assert omega == pytest.approx(math.sqrt(3.2 / (1 + 0.7 * 3.2))) == pytest.approx(0.993808)


def test_omega_keeps_its_digits_where_the_printed_form_cancels() -> None:
    """At H = 1e-8 the printed form is exactly zero in float32, and everything would be kept."""
    gamma, curvature = torch.ones(1, 1), torch.full((1, 1), 1e-8)
    assert (gamma - posterior_variance(curvature, gamma)).item() == 0
    assert reweighting(curvature, gamma).item() == pytest.approx(1e-4, rel=1e-6)


def test_a_part_without_curvature_has_a_finite_switch_and_one_without_variance_an_omega() -> None:
    omega = reweighting(of(0.0), of(1.0))
    assert 1e9 < switch(of(1.0), omega).item() < math.inf
    assert switch(of(0.0), omega).item() == 0
    assert reweighting(of(4.0), of(0.0)).item() == pytest.approx(2.0)


def test_large_curvature_leaves_the_size_of_the_weight_alone() -> None:
    """s >= |w| sqrt(gamma), and is that in the limit: then magnitude decides."""
    for gamma in (0.3, 1.0):
        s = [switch(of(0.5), reweighting(of(h), of(gamma))).item() for h in (0.1, 10.0, 1e9)]
        assert s[0] > s[1] > s[2] == pytest.approx(0.5 * math.sqrt(gamma))


def test_a_group_has_the_norm_of_its_copies_and_the_sum_of_their_curvatures() -> None:
    weights, curvature, gamma = of(0.3, -0.4, 1.2), of(0.5, 0.0, 7.0), of(0.6)
    omega = reweighting(curvature, gamma)
    each = [reweighting(of(h), gamma).item() for h in curvature.flatten().tolist()]
    assert omega.item() == pytest.approx(math.sqrt(sum(one**2 for one in each)))
    assert group_norm(weights).item() == pytest.approx(1.3)
    assert switch(weights, omega).item() == pytest.approx(1.3 / omega.item())
    alike = switch(of(*[0.5] * 9), reweighting(of(*[2.0] * 9), gamma))
    assert alike.item() == pytest.approx(switch(of(0.5), reweighting(of(2.0), gamma)).item())


def test_the_switch_is_the_variance_of_the_least_cost() -> None:
    """w^2 / gamma + omega^2 gamma is least at gamma = |w| / omega, where it is 2 omega |w|."""
    omega, gammas = of(0.8), torch.linspace(0.01, 4, 400_000, dtype=torch.double)
    cost = 0.6**2 / gammas + omega.item() ** 2 * gammas
    assert gammas[cost.argmin()].item() == pytest.approx(switch(of(0.6), omega).item(), abs=1e-4)
    assert cost.min().item() == pytest.approx(2 * 0.8 * 0.6, abs=1e-8)


def test_omega_squared_is_the_slope_of_what_the_evidence_adds() -> None:
    """d / d gamma of log gamma + log(H + 1 / gamma), by automatic differentiation."""
    gamma, curvature = of(0.37).requires_grad_(), of(2.9)
    added = gamma.log() + (curvature + 1 / gamma).log()
    (slope,) = torch.autograd.grad(added.sum(), gamma)
    omega = reweighting(curvature, gamma.detach())
    assert omega.square().item() == pytest.approx(slope.item())


def test_series_and_parallel() -> None:
    one, two, off, open_ = (torch.tensor([x]) for x in (1.0, 2.0, 0.0, math.inf))
    assert series(one, one).item() == 0.5
    assert series(one, two, two).item() == 0.5
    assert series(one, off).item() == series(off, off).item() == 0
    assert series(two, open_).item() == 2.0
    assert parallel(torch.tensor([1.0, 1.0, 0.0])).item() == 2.0


def test_an_operation_depends_on_its_gate_and_on_what_leads_to_its_source() -> None:
    """Eq. 8 at s of 1 and 0.5, a gate of 1, and a sum of 2 before it."""
    own, gate, before = torch.tensor([1.0, 0.5]), torch.tensor([1.0]), torch.tensor([2.0])
    off = torch.zeros(1)
    assert series(own, gate, predecessors(before)).tolist() == pytest.approx([0.4, 1 / 3.5])
    code = series(own, gate, predecessors(before, "code"))
    assert code.tolist() == pytest.approx([0.5, 1 / 3])
    assert series(own, off, predecessors(before)).tolist() == [0, 0]
    for rule in ("print", "code"):
        assert series(own, gate, predecessors(off, rule)).tolist() == [0, 0]  # type: ignore[arg-type]


def test_a_step_against_the_norm_is_the_least_of_its_cost() -> None:
    """0.5 |v - w|^2 + 0.3 |v|, least at w (1 - 0.3 / |w|); at zero where w is shorter than 0.3."""
    w, by = of(0.3, -0.4), torch.tensor(0.3, dtype=torch.double)
    assert shrunk(w, by).flatten().tolist() == pytest.approx([0.12, -0.16])
    v = shrunk(w, by).requires_grad_()
    (0.5 * (v - w).square().sum() + by * v.norm()).backward()  # type: ignore[no-untyped-call]
    assert v.grad is not None
    assert v.grad.abs().max().item() < 1e-12
    assert shrunk(w, torch.tensor(0.6)).tolist() == [[0], [0]]
    assert shrunk(of(0.0, 0.0), by).tolist() == [[0], [0]]


def test_the_bound_is_where_the_entropy_is_zero() -> None:
    assert pytest.approx(0.05854983) == BOUND
    for gamma in (0.01, BOUND, 2.5):
        found = gaussian_entropy(torch.tensor(gamma, dtype=torch.double)).item()
        assert found == pytest.approx(Normal(0.0, math.sqrt(gamma)).entropy().item(), abs=1e-6)
    assert gaussian_entropy(torch.zeros(1)).item() == -math.inf


def test_larger_curvature_and_smaller_lambda_are_the_same() -> None:
    """The curvature of two operations on an edge by hand, z' (diag p - p p') z, over lambda."""
    torch.manual_seed(0)
    z = torch.randn(2, 5, 3, dtype=torch.double)  # what each operation adds to the logits
    gates = {"edge": torch.ones(1, 5, 2, dtype=torch.double)}
    found = gauss_newton_diagonal(
        lambda g: torch.einsum("bo,obc->bc", g["edge"][0], z), gates, per_image=True
    )["edge"].mean(1)
    p = z.sum(0).softmax(-1)
    bends = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    assert torch.allclose(found[0], torch.einsum("obc,bcd,obd->ob", z, bends, z).mean(1))
    assert (found >= 0).all()
    gamma = torch.ones(1, 2, dtype=torch.double)
    omegas = [reweighting(found / lam, gamma) for lam in (0.1, 0.01)]
    assert torch.allclose(omegas[0], (10 * found / (1 + 10 * found)).sqrt())
    assert (omegas[0] < omegas[1]).all()
