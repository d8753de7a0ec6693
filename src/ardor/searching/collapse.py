"""Collapse: signs that a search drifts towards cells without weights, in which nothing is learned.

Operations without weights need no training, so gates favour them while the others still learn:
after many epochs DARTS fills its cells with skip connections (Zela et al. 2020, "Understanding and
Robustifying Differentiable Architecture Search"). A kind of cell has collapsed where, of four kept
edges or more and for two epochs in a row, at least three quarters of the kept operations are skip
connections; or at least three quarters are pools, or all are skip connections or pools.

Why these limits: with fewer than four edges one decision would be more than a quarter, and single
decisions change from one epoch to the next. Of the normal cells that DARTS publishes, which do
well, one has 3 skip connections of 8. Pools do not count in a reduction cell if there are cells of
another kind: it is there to shrink, and both that DARTS publishes consist of pools and skip
connections alone.

Before a collapse the curvature of the held-out loss in the gates grows (see monitor.py).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from ardor.architecture import Architecture, Choice, Place
from ardor.bayes.divergences import entropy

FEWEST = 4  # kept edges
MOST = 0.75  # of the kept operations
SORTS = {"skip": "skip connections", "pool": "pools"}  # family -> its name in warnings

WINDOW, GROWTH = 5, 0.75  # Zela et al. 2020, section 4: epochs, and the ratio of their means


@dataclass(frozen=True)
class OperationCounts:
    """How many operations an architecture keeps in one kind of cell, or in all cells."""

    operations: Mapping[str, int]  # how many of each
    edges: int
    families: Mapping[str, int]  # how many operations of each

    @property
    def total(self) -> int:
        """Operations in all."""
        return sum(self.operations.values())

    def count(self, family: str) -> int:
        """Operations of a family."""
        return self.families.get(family, 0)

    def numbers(self) -> dict[str, float]:
        """Shares of skip connections and pools; variety, the entropy of operations in nats."""
        counts = torch.tensor([*self.operations.values()], dtype=torch.double)
        shares = {f"{sort}_share": self.count(sort) / max(1, self.total) for sort in SORTS}
        return {**shares, "op_entropy": entropy(counts / max(1, self.total)).item()}


def kept_by(choices: Sequence[Choice], architecture: Architecture) -> dict[Place, OperationCounts]:
    """The kept operations of each place (a kind of cell, or a cell); `choices` are op choices."""
    places: dict[Place, list[Choice]] = {}
    for choice in choices:
        places.setdefault(choice.place, []).append(choice)
    return {place: _counted(there, architecture) for place, there in places.items()}


def _counted(choices: Sequence[Choice], architecture: Architecture) -> OperationCounts:
    """The kept operations of the choices of one place."""
    kept = [(choice, option) for choice in choices for option in architecture.options[choice.name]]
    return OperationCounts(
        dict(Counter(option for _, option in kept)),
        sum(bool(architecture.options[choice.name]) for choice in choices),
        dict(Counter(choice.family(option) for choice, option in kept)),
    )


def together(places: Iterable[OperationCounts]) -> OperationCounts:
    """The sum of several counts."""
    operations, families, edges = Counter[str](), Counter[str](), 0
    for kept in places:
        operations.update(kept.operations)
        families.update(kept.families)
        edges += kept.edges
    return OperationCounts(dict(operations), edges, dict(families))


def collapses(places: Mapping[Place, OperationCounts]) -> dict[str, str]:
    """The names of the places that look collapsed, each with the reason in words."""
    kinds = {place.kind for place in places}
    found = {}
    for place, kept in places.items():
        shrinks = place.shrinks and len(kinds) > 1
        if kept.edges >= FEWEST and (worst := _collapse(kept, ["skip"] if shrinks else [*SORTS])):
            what = "edges" if kept.edges == kept.total else "operations"
            found[place.name] = (
                f"{worst[0]} of {kept.total} {what} of the {place.title} are {worst[1]}"
            )
    return found


def _collapse(kept: OperationCounts, sorts: Sequence[str]) -> tuple[int, str] | None:
    """The number of operations without weights and their name, if there are too many."""
    for sort in sorts:
        if kept.count(sort) >= MOST * kept.total:
            return kept.count(sort), SORTS[sort]
    if len(sorts) > 1 and sum(map(kept.count, sorts)) == kept.total:
        return kept.total, " or ".join(SORTS[sort] for sort in sorts)
    return None


def growth(curvatures: Sequence[float]) -> float | None:
    """The mean of the last five epochs as a multiple of that of the five before; None if harmless.

    It is a sign of collapse (Zela et al. 2020, section 4) above 1 / 0.75, if all are positive.
    """
    before, now = curvatures[-2 * WINDOW : -WINDOW], curvatures[-WINDOW:]
    if len(before) < WINDOW or min(*before, *now) <= 0 or fmean(before) >= GROWTH * fmean(now):
        return None
    return fmean(now) / fmean(before)
