"""NAS-Bench-201 (Dong and Yang 2020): one cell of four nodes, six edges of five operations.

The network is a stem, three stages of the same cell and a residual reduction between them. The
operation on edge 0>1 is the choice "0>1"; zero may be chosen on any edge: then nothing is kept. All
15,625 cells of single operations are trained in the benchmark, under strings such as
|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_3x3~1|skip_connect~2|
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice, Decisions, Place
from ardor.bayes import Gates
from ardor.errors import ArdorError
from ardor.layers.operations import ZERO, families_of
from ardor.layers.style import Style
from ardor.settings.fields import Count
from ardor.spaces._base import Space, foreign, mean_score
from ardor.spaces._graph import check_partial, check_weights
from ardor.spaces._nasbench201net import (
    EDGES,
    LINKS,
    NODES,
    OPERATIONS,
    STAGES,
    Nasbench201Net,
)

LARGEST = 100  # cells of a stage: more must be a typing error
SMALLEST = 2 ** (STAGES - 1)  # pixels of a side, halved between stages
# From the input of a cell to its output.
PATHS = (("0>3",), ("0>1", "1>3"), ("0>2", "2>3"), ("0>1", "1>2", "2>3"))
SKIP, NOTHING = "skip_connect", "#"
CELL = Place(complete=True)


@dataclass(frozen=True, kw_only=True)
class Nasbench201(Space):
    """Stacked copies of one cell; the benchmark's networks are those of the defaults."""

    channels: Count = 16  # of the first stage; a reduction doubles them
    cells: Annotated[int, Field(ge=1, le=LARGEST)] = 5  # of each of the three stages
    partial: Count = 1  # one in so many channels goes through operations while searching; 1 is all

    def __post_init__(self) -> None:
        check_partial(self.partial, self.channels)
        smallest = min(self.image[1:])
        if smallest < SMALLEST:
            raise ArdorError(
                f"space 'nasbench201' halves {smallest} pixels more often than they allow",
                f"use images of at least {SMALLEST} pixels a side, or space.name=cells",
            )

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        copies, families = STAGES * self.cells, families_of(OPERATIONS)
        return tuple(
            Choice(edge, "op", OPERATIONS, copies, CELL, source, node, families)
            for edge, (source, node) in LINKS.items()
        )

    def check_size(self, architecture: Architecture | None = None) -> None:
        kept = [OPERATIONS] * len(EDGES) if architecture is None else architecture.options.values()
        on_edges = [operation for edge in kept for operation in edge]
        stages = [self.channels << stage for stage in range(STAGES)]
        between = sum(15 * width**2 for width in stages[1:])  # reductions: at most 9 + 4.5 + 0.5
        check_weights([(w, on_edges) for w in stages for _ in range(self.cells)], between)

    def build(
        self,
        architecture: Architecture | None = None,
        *,
        conv: type[nn.Conv2d] = nn.Conv2d,
        as_searched: bool = False,
    ) -> Nasbench201Net:
        searching = architecture is None or as_searched
        if architecture is not None:
            self.check(architecture)
        self.check_size(architecture)
        style = Style(conv, searching=searching, bare_pools=True, partial=self.partial)
        return Nasbench201Net(self, architecture, style)

    def check(self, architecture: Architecture) -> None:
        super().check(architecture)
        for edge, kept in architecture.kept:
            if ZERO in kept:
                raise foreign(f"'{ZERO}' is kept on {edge}, where nothing must be")

    def strongest(self, scores: Gates) -> Architecture:
        """The best operation of each edge, zero included: then nothing is kept there."""
        means = {n: torch.tensor([[mean_score(s)]], dtype=torch.double) for n, s in scores.items()}
        counts = self.strongest_of_each(means)
        return self.architecture({name: kept for ((name, kept),) in map(next, map(iter, counts))})

    def strongest_of_each(self, draws: Gates) -> list[Counter[Decisions]]:
        """For each edge, counts of the operation kept: edges are independent."""
        found = []
        for edge in EDGES:
            best = self._scores(draws, edge)[:, 0].argmax(-1)
            counts = best.bincount(minlength=len(OPERATIONS)).tolist()
            kept: Counter[Decisions] = Counter()
            for operation, count in zip(OPERATIONS, counts, strict=True):
                kept[((edge, keeping(operation)),)] += count
            found.append(+kept)  # + removes counts of zero
        return found

    def subset(self, probabilities: Gates, threshold: float = 0.5) -> Architecture:
        """All operations above the threshold but zero.

        If they do not connect input and output, the likeliest path is completed: each of its edges
        without operation gets its likeliest.
        """
        kept, best = {}, {}
        for edge in EDGES:
            shares = dict(
                zip(OPERATIONS, mean_score(self._scores(probabilities, edge)), strict=True)
            )
            del shares[ZERO]
            kept[edge] = tuple(op for op, share in shares.items() if share > threshold)
            best[edge] = max(shares.items(), key=lambda pair: pair[1])
        if not any(all(kept[edge] for edge in path) for path in PATHS):
            likeliest = max(PATHS, key=lambda path: math.prod(best[edge][1] for edge in path))
            kept |= {edge: kept[edge] or (best[edge][0],) for edge in likeliest}
        return self.architecture(kept)

    def from_string(self, text: str) -> Architecture:
        """The cell of a string of the benchmark; an ArdorError if it is not one."""
        return self.architecture({edge: keeping(op) for edge, op in operations_of(text).items()})

    def _scores(self, scores: Gates, edge: str) -> Tensor:
        """The scores of an edge; if it has none, one for each operation but zero."""
        return scores.get(edge, torch.tensor([[[float(op != ZERO) for op in OPERATIONS]]]))


def keeping(operation: str) -> tuple[str, ...]:
    """The kept options of an edge with this operation: none for zero."""
    return () if operation == ZERO else (operation,)


def cell_string(kept: Mapping[str, Sequence[str]]) -> str:
    """The benchmark's string for kept operations by edge; an ArdorError if there is none."""
    if set(kept) != set(EDGES) or any(len(ops) > 1 for ops in kept.values()):
        raise ArdorError(
            "the architecture is no cell of NAS-Bench-201: it must have one operation on each edge",
            "search in the space nasbench201, by a method that keeps the best of each edge",
        )
    return written({edge: next(iter(kept[edge]), ZERO) for edge in EDGES})


def written(operations: Mapping[str, str]) -> str:
    """Operations by edge as the benchmark writes them, a group for each node."""
    groups = [
        "".join(f"|{operations[f'{source}>{node}']}~{source}" for source in range(node)) + "|"
        for node in range(1, NODES)
    ]
    return "+".join(groups)


def operations_of(text: str) -> dict[str, str]:
    """The operation of each edge, from the benchmark's string."""
    names = [part.partition("~")[0] for part in text.replace("+", "").split("|") if part]
    found = dict(zip(EDGES, names, strict=False))
    if not set(names) <= set(OPERATIONS) or len(names) != len(EDGES) or written(found) != text:
        raise ArdorError(
            f"'{text}' is no cell of NAS-Bench-201",
            f"it must be written as {written(dict.fromkeys(EDGES, SKIP))}, "
            f"with the operations {', '.join(OPERATIONS)}",
        )
    return found


def unique(text: str) -> str:
    """A string that is equal for isomorphic cells, as the benchmark's authors define it.

    It writes out what node 3 computes, with skips left out, and "#" for zero and all that reads it.
    """
    operations, nodes = operations_of(text), ["0"]
    for node in range(1, NODES):
        terms = [brought(operations[f"{s}>{node}"], nodes[s]) for s in range(node)]
        nodes.append("+".join(sorted(terms)))
    return nodes[-1]


def brought(operation: str, source: str) -> str:
    """The expression of an edge, from that of its source."""
    if source == NOTHING or operation == ZERO:
        return NOTHING
    return source if operation == SKIP else f"({source})@{operation}"
