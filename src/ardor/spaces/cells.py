"""Cells: normal and reduction cells in any layout (NASNet, DARTS, VINNAS, SI-VDNAS, BayesNAS).

A cell has two input nodes, 0 (the cell before the last) and 1 (the last cell), and states 2, 3, ...
Each state adds up what its edges bring; the output is all states, concatenated. The operation on
edge 0>2 is the choice "normal/0>2", the inputs of state 2 are "normal/>2".
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice, Decisions, Place
from ardor.bayes import Gates
from ardor.layers.operations import ZERO, families_of
from ardor.layers.style import DARTS, Order, Style
from ardor.settings.fields import Count
from ardor.spaces._base import Space, foreign, mean_score
from ardor.spaces._cellnet import CellNet
from ardor.spaces._edges import BY_EDGE
from ardor.spaces._graph import check_candidates, check_partial, check_weights
from ardor.spaces._kept import Table, kept_of, likeliest_in, likely_in, reached_in
from ardor.spaces._layout import (
    LARGEST,
    check_halvings,
    check_layout,
    check_operations,
    letters,
    operations_named,
)

KINDS = {"N": "normal", "R": "reduce"}
TITLES = {"N": "normal cell", "R": "reduction cell"}


@dataclass(frozen=True, kw_only=True)
class Cells(Space):
    """Stacked cells of two kinds; cells of a kind share their choices unless `shared` is off."""

    layout: str = "NRNR"  # "6N R 6N R 6N" repeats
    states: Annotated[int, Field(ge=1, le=20)] = 2
    channels: Count = 8  # of the first cell; a reduction doubles them
    ops: str = "vinnas"  # a named set, or operations separated by commas
    order: Literal["auto", Order] = "auto"  # "auto": by ops; "bn-relu-conv": of BayesNAS's code
    inputs: Count = 2  # edges into a state that `strongest` keeps; `subset` keeps any number
    shared: bool = True
    stem: Annotated[int, Field(ge=1, le=LARGEST)] = 3  # its channels, in those of the cells
    halvings: Annotated[int, Field(ge=0, le=10)] = 0  # times the stem halves images; ImageNet 3
    partial: Count = 1  # one in so many channels goes through operations while searching; 1 is all

    def __post_init__(self) -> None:
        check_partial(self.partial, self.channels)
        check_layout(self.layout)
        check_halvings(self.layout, self.halvings, self.channels, min(self.image[1:]))
        check_operations(self.ops, self.operations, self.states)
        edges = sum(self.nodes())
        product = f"{len(self.cells)} cells x {edges:,} edges x {len(self.operations)} operations"
        check_candidates(
            product,
            len(self.cells) * edges * len(self.operations),
            "use fewer space.states, fewer cells in space.layout, or fewer space.ops",
        )

    @cached_property
    def cells(self) -> str:
        """The layout written out: one letter for each cell."""
        return letters(self.layout)

    @cached_property
    def operations(self) -> tuple[str, ...]:
        """The candidates of every edge in gate order; with a set by edges, those of any edge."""
        return operations_named(self.ops)

    @property
    def style_order(self) -> Order:
        """The order of convolution, BatchNorm and ReLU."""
        if self.order == "auto":
            return "conv-bn-relu" if self.ops == "vinnas" else DARTS
        return self.order

    def operations_of(self, edge: str) -> tuple[str, ...]:
        """The candidates of an edge, such as "normal/0>2", in gate order."""
        return self._candidates[edge]

    @cached_property
    def _candidates(self) -> Mapping[str, tuple[str, ...]]:
        return {choice.name: choice.options for choice in self.choices if choice.kind == "op"}

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """For each cell the place of its choices."""
        return tuple(
            Place(
                KINDS[kind] if self.shared else f"{KINDS[kind]}{index}",
                KINDS[kind],
                TITLES[kind] if self.shared else f"{TITLES[kind]} {index}",
                shrinks=kind == "R",
                joins=True,
                complete=True,
            )
            for index, kind in enumerate(self.cells)
        )

    @cached_property
    def widths(self) -> tuple[tuple[int, int, int], ...]:
        """For each cell the channels of its two inputs and of its states."""
        before = last = self.stem * self.channels
        channels, found = self.channels, []
        for kind in self.cells:
            channels *= 2 if kind == "R" else 1
            found.append((before, last, channels))
            before, last = last, self.states * channels
        return tuple(found)

    def nodes(self) -> range:
        """The states, numbered after the two inputs."""
        return range(2, 2 + self.states)

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        found = []
        for place, copies in Counter(self.places).items():
            for node in self.nodes():
                sources = tuple(map(str, range(node)))
                name = f"{place.name}/>{node}"
                found.append(Choice(name, "edge", sources, copies, place, target=node))
                found += [self._link(place, copies, source, node) for source in range(node)]
        return tuple(found)

    def _link(self, place: Place, copies: int, source: int, node: int) -> Choice:
        """The choice of the operation on an edge."""
        link = f"{source}>{node}"
        own = BY_EDGE.get(self.ops)
        options = own[f"{place.kind}/{link}"] if own else self.operations
        families = families_of(options)
        name = f"{place.name}/{link}"
        return Choice(name, "op", options, copies, place, source, node, families)

    def check_size(self, architecture: Architecture | None = None) -> None:
        cells = []
        for place, (_, _, channels) in zip(self.places, self.widths, strict=True):
            edges = [
                f"{place.name}/{source}>{node}" for node in self.nodes() for source in range(node)
            ]
            kept = [
                self.operations_of(edge) if architecture is None else architecture.options[edge]
                for edge in edges
            ]
            cells.append((channels, [operation for edge in kept for operation in edge]))
        others = sum((before + last) * width for before, last, width in self.widths)
        check_weights(cells, others, self.style_order)

    def build(
        self,
        architecture: Architecture | None = None,
        *,
        conv: type[nn.Conv2d] = nn.Conv2d,
        as_searched: bool = False,
    ) -> "CellNet":
        searching = architecture is None or as_searched
        style = Style(conv, self.style_order, searching=searching, partial=self.partial)
        if architecture is not None:
            self.check(architecture)
            self._check_inputs(architecture)
        self.check_size(architecture)
        return CellNet(self, architecture, style)

    def strongest(self, scores: Gates) -> Architecture:
        """The best operation of each edge, zero apart, and the best `inputs` edges of each state.

        Edges are ranked by their operation's score, times their own where `scores` has one
        (PC-DARTS); such scores must be positive.
        """
        means = {n: torch.tensor([[mean_score(s)]], dtype=torch.double) for n, s in scores.items()}
        states = [self._strongest(means, place, node) for place, node in self._states()]
        return self.architecture({name: kept for (decision,) in states for name, kept in decision})

    def strongest_of_each(self, draws: Gates) -> list[Counter[Decisions]]:
        """For each state, counts of its decisions: states are independent."""
        return [self._strongest(draws, place, node) for place, node in self._states()]

    def subset(self, probabilities: Gates, threshold: float = 0.5) -> Architecture:
        kept: dict[str, tuple[str, ...]] = {}
        for place, node in self._states():
            table = self._table(probabilities, place, node)
            likely = likely_in(table, threshold)
            if not any(likely.values()):
                likely = likeliest_in(table)
            kept |= kept_of(place, node, likely)
        return self.architecture(kept)

    def connected(self, probabilities: Gates, threshold: float = 0.5) -> Architecture:
        kept: dict[str, tuple[str, ...]] = {}
        for place in dict.fromkeys(place.name for place in self.places):
            tables = {node: self._table(probabilities, place, node) for node in self.nodes()}
            for node, likely in reached_in(tables, threshold).items():
                kept |= kept_of(place, node, likely)
        return self.architecture(kept)

    def _strongest(self, draws: Gates, place: str, node: int) -> Counter[Decisions]:
        """Counts of the decisions of a state over draws, (draws, 1, options) each."""
        links = [f"{place}/{source}>{node}" for source in range(node)]
        strength, best = self._best(draws, links)
        edges = draws.get(f"{place}/>{node}", torch.ones(1, 1, node))[:, 0]
        ranked = (edges * strength).argsort(descending=True, stable=True)
        chosen = best.expand_as(ranked).scatter(1, ranked[:, self.inputs :], -1)
        found: Counter[Decisions] = Counter()
        for row, count in Counter(map(tuple, chosen.tolist())).items():
            by_source = {
                str(source): (self.operations_of(link)[at],) if at >= 0 else ()
                for source, (link, at) in enumerate(zip(links, row, strict=True))
            }
            found[tuple(kept_of(place, node, by_source).items())] = count
        return found

    def _best(self, draws: Gates, links: Sequence[str]) -> tuple[Tensor, Tensor]:
        """The best score of each edge, zero left out, and its option's index, (draws, edges)."""
        scores, places = [], []
        for link in links:
            options = self.operations_of(link)
            able = torch.tensor([at for at, op in enumerate(options) if op != ZERO])
            given = draws.get(
                link, torch.ones(1, 1, len(options))
            )  # all equal if there are no scores
            score, at = given[:, 0, able].max(-1)
            scores.append(score)
            places.append(able[at])
        count = max(map(len, scores))
        strength, best = (torch.stack([t.expand(count) for t in e], 1) for e in (scores, places))
        return strength, best

    def _states(self) -> Iterator[tuple[str, int]]:
        places = dict.fromkeys(place.name for place in self.places)
        return ((place, node) for place in places for node in self.nodes())

    def _table(self, scores: Gates, place: str, node: int) -> Table:
        """Source -> score of the edge, and of its operations but zero; 1 if there is none."""

        def of(name: str, count: int) -> list[float]:
            return mean_score(scores[name]) if name in scores else [1.0] * count

        edges = of(f"{place}/>{node}", node)
        table = {}
        for source, edge in enumerate(edges):
            link = f"{place}/{source}>{node}"
            options = self.operations_of(link)
            named = dict(zip(options, of(link, len(options)), strict=True))
            table[str(source)] = edge, {op: score for op, score in named.items() if op != ZERO}
        return table

    def _check_inputs(self, architecture: Architecture) -> None:
        led = set()
        for place, node in self._states():
            kept = {str(s): architecture.options[f"{place}/{s}>{node}"] for s in range(node)}
            led |= {place} if any(kept.values()) else set()
            if set(architecture.options[f"{place}/>{node}"]) != {
                s for s, ops in kept.items() if ops
            }:
                raise foreign(f"{place}/>{node} keeps other edges than those with operations")
            if any(ZERO in ops for ops in kept.values()):
                raise foreign(f"'{ZERO}' cannot be kept, at {place}/>{node}")
        if alone := next((place for place in self.places if place.name not in led), None):
            raise foreign(f"no operation leads into any node of the {alone.title}")
