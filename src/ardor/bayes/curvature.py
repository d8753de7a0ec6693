"""The curvature of a loss in the gates: its Gauss-Newton diagonal, and its largest eigenvalue."""

from collections.abc import Callable

import torch
from torch import Tensor

from ardor.bayes import Gates

Map = Callable[[Tensor], Tensor]  # of vectors
ROUNDING = 1e-12  # share of a product below which a remainder is rounding error
TOLERANCE = 1e-4  # how far from one the sum of a softmax may be


def largest_eigenvalue(product: Map, start: Tensor, iterations: int) -> tuple[float, Tensor]:
    """The largest eigenvalue of a symmetric matrix, and its unit vector, by products with it alone.

    The largest in the Krylov space of `start` (Lanczos 1950, with full orthogonalisation): never
    below the result of as many power iterations, exact after as many products as there are
    dimensions, and the largest by value, not by magnitude. NaN where a product is not finite.
    """
    basis: list[Tensor] = []
    products: list[Tensor] = []
    vector = start / start.norm()
    for _ in range(iterations):
        basis.append(vector)
        products.append(product(vector))
        # Twice, as rounding in the first pass leaves a trace of the basis.
        remainder = _orthogonal(_orthogonal(products[-1], basis), basis)
        if not remainder.norm() > ROUNDING * products[-1].norm():
            break
        vector = remainder / remainder.norm()
    within = torch.stack(basis) @ torch.stack(products).T
    if not within.isfinite().all():
        return float("nan"), start
    values, vectors = torch.linalg.eigh((within + within.T) / 2)
    return values[-1].item(), vectors[:, -1] @ torch.stack(basis)


def _orthogonal(vector: Tensor, basis: list[Tensor]) -> Tensor:
    """The part of a vector that is orthogonal to all of a basis."""
    for other in basis:
        vector = vector - (other @ vector) * other
    return vector


def hessian_product(gradient: Map, step: float) -> Map:
    """The Hessian at zero times a vector, by central differences, with an error of order step^2."""
    return lambda v: (gradient(step * v) - gradient(-step * v)) / (2 * step)


def shifted(gates: Gates, by: Tensor) -> Gates:
    """The gates after all strengths have moved; `by` holds the changes one after another.

    Gates that sum to one are taken as a softmax of strengths, which for DARTS are its alphas. Any
    others are strengths themselves. Removed options, with a gate of zero, stay removed.
    """
    parts = torch.split(by, [gate.numel() for gate in gates.values()])
    moved = {}
    for (name, gate), part in zip(gates.items(), parts, strict=True):
        change = part.view_as(gate)
        moved[name] = (gate.log() + change).softmax(-1) if _is_softmax(gate) else gate + change
    return moved


def _is_softmax(gate: Tensor) -> bool:
    return bool((gate >= 0).all() and ((gate.sum(-1) - 1).abs() < TOLERANCE).all())


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
