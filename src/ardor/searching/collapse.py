"""Collapse: a search that drifts towards cells in which nothing is learned, and how to tell.

What has no weights needs no training, so that gates come to like it while the rest still learns:
left for long, DARTS fills its cells with skip connections (Zela et al. 2020, "Understanding and
Robustifying Differentiable Architecture Search"). A kind of cell has collapsed where, of four kept
edges or more and for two epochs in a row, at least three quarters of the kept operations are skip
connections; or at least three quarters are pools, or all are skip connections or pools.

Why so: with fewer edges than four one decision would be more than a quarter, and from one epoch to
the next single decisions come and go. Of the normal cells that DARTS publishes, which do well, one
has 3 skip connections of 8. Pools do not count in a reduction cell beside cells of another kind:
shrinking is what it is for, and both that DARTS publishes are pools and skip connections alone.

Before that the loss of held-out images bends ever more sharply in the gates (see watch.py).
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
SORTS = {"skip": "skip connections", "pool": "pools"}

WINDOW, GROWTH = 5, 0.75  # Zela et al. 2020, section 4: epochs, and the quotient of their means


@dataclass(frozen=True)
class OperationCounts:
    """What an architecture keeps in one kind of cell, or in all of them."""

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
    """What is kept in each kind of cell, or cell; `choices` are those of operations."""
    places: dict[Place, list[Choice]] = {}
    for choice in choices:
        places.setdefault(choice.place, []).append(choice)
    return {place: _counted(there, architecture) for place, there in places.items()}


def _counted(choices: Sequence[Choice], architecture: Architecture) -> OperationCounts:
    """What is kept of the choices of one place."""
    kept = [(choice, option) for choice in choices for option in architecture.options[choice.name]]
    return OperationCounts(
        dict(Counter(option for _, option in kept)),
        sum(bool(architecture.options[choice.name]) for choice in choices),
        dict(Counter(choice.family(option) for choice, option in kept)),
    )


def together(places: Iterable[OperationCounts]) -> OperationCounts:
    """All kinds of cells as one."""
    operations, families, edges = Counter[str](), Counter[str](), 0
    for kept in places:
        operations.update(kept.operations)
        families.update(kept.families)
        edges += kept.edges
    return OperationCounts(dict(operations), edges, dict(families))


def collapses(places: Mapping[Place, OperationCounts]) -> dict[str, str]:
    """The names of the places that look collapsed, each with what is wrong there."""
    kinds = {place.kind for place in places}
    found = {}
    for place, kept in places.items():
        shrinks = place.shrinks and len(kinds) > 1
        if kept.edges >= FEWEST and (said := _collapse(kept, ["skip"] if shrinks else [*SORTS])):
            what = "edges" if kept.edges == kept.total else "operations"
            found[place.name] = (
                f"{said[0]} of {kept.total} {what} of the {place.title} are {said[1]}"
            )
    return found


def _collapse(kept: OperationCounts, sorts: Sequence[str]) -> tuple[int, str] | None:
    """How many operations are of what sort, where that is too many."""
    for sort in sorts:
        if kept.count(sort) >= MOST * kept.total:
            return kept.count(sort), SORTS[sort]
    if len(sorts) > 1 and sum(map(kept.count, sorts)) == kept.total:
        return kept.total, " or ".join(SORTS[sort] for sort in sorts)
    return None


def growth(curvatures: Sequence[float]) -> float | None:
    """How many times as large as in the five epochs before the mean of the last five is.

    Where it counts as a sign (Zela et al. 2020, section 4): past 1 / 0.75, and all of it positive.
    """
    before, now = curvatures[-2 * WINDOW : -WINDOW], curvatures[-WINDOW:]
    if len(before) < WINDOW or min(*before, *now) <= 0 or fmean(before) >= GROWTH * fmean(now):
        return None
    return fmean(now) / fmean(before)
