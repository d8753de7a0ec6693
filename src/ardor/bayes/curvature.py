"""The curvature of a loss in the gates, along the direction in which it bends upwards most.

No second derivative is taken: native code has none, and a few more gradients do as well.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ardor.bayes.divergences import Gates

Map = Callable[[Tensor], Tensor]  # of vectors
SPENT = 1e-12  # of a product: less than that left of it is rounding
ONE = 1e-4  # how far from one the sum of a softmax may be


def largest_eigenvalue(product: Map, start: Tensor, iterations: int) -> tuple[float, Tensor]:
    """The largest eigenvalue of a symmetric matrix, and its unit vector, by products with it alone.

    The best of the Krylov space of `start` (Lanczos 1950, with full orthogonalisation). It is never
    below what as many power iterations give, exact after as many products as there are
    dimensions, and the largest by value, not by magnitude. NaN where a product is not finite.
    """
    basis: list[Tensor] = []
    products: list[Tensor] = []
    vector = start / start.norm()
    for _ in range(iterations):
        basis.append(vector)
        products.append(product(vector))
        rest = _without(_without(products[-1], basis), basis)  # once leaves a trace of rounding
        if not rest.norm() > SPENT * products[-1].norm():
            break
        vector = rest / rest.norm()
    within = torch.stack(basis) @ torch.stack(products).T
    if not within.isfinite().all():
        return float("nan"), start
    values, vectors = torch.linalg.eigh((within + within.T) / 2)
    return values[-1].item(), vectors[:, -1] @ torch.stack(basis)


def _without(vector: Tensor, basis: list[Tensor]) -> Tensor:
    """What is orthogonal to all of a basis."""
    for other in basis:
        vector = vector - (other @ vector) * other
    return vector


def hessian_product(gradient: Map, step: float) -> Map:
    """The Hessian at zero times a vector, by central differences, with an error of order step^2."""
    return lambda v: (gradient(step * v) - gradient(-step * v)) / (2 * step)


def shifted(gates: Gates, by: Tensor) -> Gates:
    """The gates where all strengths, one after another in `by`, have moved by that much.

    Gates that sum to one are a softmax of strengths: so that for DARTS these are its alphas. Any
    others are strengths themselves. What has left the supernet, with a gate of zero, stays out.
    """
    parts = torch.split(by, [gate.numel() for gate in gates.values()])
    moved = {}
    for (name, gate), part in zip(gates.items(), parts, strict=True):
        change = part.view_as(gate)
        moved[name] = (gate.log() + change).softmax(-1) if _is_softmax(gate) else gate + change
    return moved


def _is_softmax(gate: Tensor) -> bool:
    return bool((gate >= 0).all() and ((gate.sum(-1) - 1).abs() < ONE).all())
