"""Disjoint parts of a data set, each with its share of every class."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ardor.errors import ArdorError


def stratified(labels: Tensor, fractions: Sequence[float], *, seed: int) -> list[Tensor]:
    """Sorted indices of one part for each fraction, every class spread by the fractions."""
    _check_fractions(fractions)
    generator = torch.Generator().manual_seed(seed)
    parts: list[list[Tensor]] = [[] for _ in fractions]
    classes, sizes = torch.unique(labels, return_counts=True)
    members = torch.split(labels.argsort(stable=True), sizes.tolist())
    for label, indices in zip(classes.tolist(), members, strict=True):
        shuffled = indices[torch.randperm(len(indices), generator=generator)]
        counts = _counts(label, len(indices), fractions)
        unused = len(indices) - sum(counts)
        pieces = torch.split(shuffled, [*counts, unused])[:-1]
        for part, piece in zip(parts, pieces, strict=True):
            part.append(piece)
    empty = torch.empty(0, dtype=torch.int64)
    return [torch.cat([empty, *part]).sort().values for part in parts]


def _counts(label: int, size: int, fractions: Sequence[float]) -> list[int]:
    """How many of `size` images each part gets: by largest remainder, and at least one."""
    needed = sum(fraction > 0 for fraction in fractions)
    if size < needed:
        raise ArdorError(
            f"class {label} has {size} images; must have at least {needed}, one for each part",
            "add images of this class, leave the class out, or ask for fewer parts",
        )
    shares = [fraction * size for fraction in fractions]
    counts = [int(share) for share in shares]
    spare = round(sum(shares)) - sum(counts)
    by_remainder = sorted(range(len(shares)), key=lambda part: counts[part] - shares[part])
    for part in by_remainder[:spare]:
        counts[part] += 1
    return _without_empty(counts, size, fractions)


def _without_empty(counts: list[int], size: int, fractions: Sequence[float]) -> list[int]:
    """The counts with one image in every part that asks for some, taken from the fullest."""
    filled = list(counts)
    for part, fraction in enumerate(fractions):
        if fraction > 0 and filled[part] == 0:
            if sum(filled) == size:
                filled[filled.index(max(filled))] -= 1
            filled[part] = 1
    return filled


def _check_fractions(fractions: Sequence[float]) -> None:
    """Raise unless the fractions are shares that add up to at most 1."""
    # Sums such as 0.7 + 0.2 + 0.1 miss 1 by a rounding error.
    if any(not 0 <= fraction <= 1 for fraction in fractions) or sum(fractions) > 1 + 1e-9:
        raise ArdorError(
            f"fractions {list(fractions)} must each lie in 0..1 and add up to at most 1",
            "lower the fractions until they fit; what is over is left out",
        )
