"""The curvature of a loss in the gates: its Gauss-Newton diagonal, and its largest eigenvalue."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from ardor.bayes import Gates
from ardor.bayes.divergences import TINY

Map = Callable[[Tensor], Tensor]  # of vectors
LogitsAt = Callable[[Gates], Tensor]  # (batch, classes), at gates for each image
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


def gauss_newton_diagonal(
    logits_at: LogitsAt, gates: Gates, *, per_image: bool = False, samples: int = 0
) -> Gates:
    """J_n^T (diag p - p p^T) J_n, diagonal in every gate, summed over the images of `logits_at`.

    `gates` are per image, (copies, batch, options), so that a backward pass gives something of all
    images at once. The result is (copies, 1, options), or as the gates, an image apart from the
    other. It takes a backward pass for each class; or only `samples` passes, for an estimate
    without bias.
    """
    at = {name: gate.detach().requires_grad_() for name, gate in gates.items()}
    logits = logits_at(at)
    inputs = list(at.values())
    found = sampled_diagonal(logits, inputs, samples) if samples else _exact(logits, inputs)
    each = dict(zip(at, found, strict=True))
    return each if per_image else {name: d.sum(1, keepdim=True) for name, d in each.items()}


def _exact(logits: Tensor, gates: Sequence[Tensor]) -> list[Tensor]:
    """The variance of the rows of J under p, which the diagonal is.

    Row after row into a running mean and sum of squares (West 1979): E J^2 - (E J)^2 would cancel
    in float32, and all rows at once need as many times the memory as there are classes.
    """
    p = logits.detach().softmax(-1)  # (batch, classes)
    so_far = torch.zeros_like(p[:, 0])
    means, squares = ([torch.zeros_like(gate) for gate in gates] for _ in range(2))
    for c in range(p.shape[1]):
        rows = _slopes(logits[:, c].sum(), gates)
        so_far = so_far + p[:, c]
        share = (p[:, c] / so_far.clamp_min(TINY))[:, None]  # (batch, 1), as an image's options
        for mean, square, row in zip(means, squares, rows, strict=True):
            ahead = row - mean
            mean += share * ahead
            square += p[:, c, None] * ahead * (row - mean)
    return squares


def sampled_diagonal(logits: Tensor, inputs: Sequence[Tensor], samples: int) -> list[Tensor]:
    """The mean square of the gradient of log p(y), for labels y drawn from p itself.

    That gradient is J_y - E J, so that its square has the variance of J under p as its mean
    (Martens 2020, section 9.1: the Fisher matrix is the Gauss-Newton matrix of a softmax). Images
    may share what they are differentiated in, as all of them share weights: labels of different
    images are drawn apart, so that in the mean their gradients do not mix, and what comes is the
    sum over the images.
    """
    log_p = logits.log_softmax(-1)
    labels = log_p.detach().exp().multinomial(samples, replacement=True)  # (batch, samples)
    squares = [torch.zeros_like(gate) for gate in inputs]
    for drawn in labels.T:
        fit = log_p.gather(1, drawn[:, None]).sum()
        for square, slope in zip(squares, _slopes(fit, inputs), strict=True):
            square += slope.square() / samples
    return squares


def mean_diagonal(batches: Iterable[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """The same for an image in the mean, of the logits of one batch after another."""
    sums, count = [torch.zeros_like(each) for each in inputs], 0
    for logits in batches:
        for total, found in zip(sums, sampled_diagonal(logits, inputs, 1), strict=True):
            total += found
        count += len(logits)
    return [total / count for total in sums]


def _slopes(of: Tensor, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """The gradient in every gate; zero where nothing is left that the gate would weigh."""
    if not of.requires_grad:
        return [torch.zeros_like(gate) for gate in inputs]
    return torch.autograd.grad(of, inputs, retain_graph=True, materialize_grads=True)
