"""The cells of an architecture: the nodes of each place, and what is kept between them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ardor.architecture import (
    Architecture,
    Choice,
    Family,
    FellWith,
    Options,
    Place,
    Probabilities,
)
from ardor.reporting.format import operation

Row = tuple[str, str, str, str, float | None]

# The inputs of a place that joins its nodes: short name and caption.
_INPUTS = {"0": ("c−2", "cell before last"), "1": ("c−1", "last cell")}


@dataclass(frozen=True)
class Edge:
    """One kept operation between two nodes, and the other candidates."""

    choice: str
    source: str
    target: str
    operation: str
    kept: tuple[str, ...]  # every operation kept between the two, this one included
    candidates: Mapping[str, float]  # all operations with their probabilities; empty if unknown
    family: Family = "other"

    @property
    def probability(self) -> float | None:
        """How sure the posterior is of this operation."""
        return self.candidates.get(self.operation)

    @property
    def runner_up(self) -> tuple[str, float] | None:
        """The likeliest operation that was not kept."""
        others = {name: p for name, p in self.candidates.items() if name not in self.kept}
        return max(others.items(), key=lambda pair: pair[1]) if others else None

    @property
    def remark(self) -> str:
        """A remark if another operation was nearly as likely, or likelier."""
        chance, other = self.probability, self.runner_up
        if chance is None:
            return ""
        if other and other[1] > chance:
            return f"against the odds: {operation(other[0])} is likelier"
        close = chance < 0.5 or (other is not None and chance < 1.5 * other[1])
        return "close call" if close else ""


@dataclass(frozen=True)
class Fallen:
    """Operations between two nodes that fell with something else, and would have stayed alone."""

    choice: str
    source: str
    target: str
    operations: Mapping[str, str]  # each with what it fell with


@dataclass(frozen=True)
class Cell:
    """The nodes and kept edges of one place."""

    place: Place
    inputs: tuple[str, ...]
    states: tuple[str, ...]
    edges: tuple[Edge, ...]
    fallen: tuple[Fallen, ...] = ()

    @property
    def links(self) -> tuple[Edge | Fallen, ...]:
        """All that is drawn between two nodes."""
        return *self.edges, *self.fallen

    @property
    def title(self) -> str:
        """The heading above the drawing."""
        return heading(self.place)

    @property
    def out(self) -> str:
        """The node that leaves the cell: all states where it joins them, or the last of them."""
        return "out" if self.place.joins else self.states[-1]

    def word(self, node: str) -> str:
        """A node's short name."""
        if self.place.joins:
            return _INPUTS.get(node, (node,))[0]
        return "in" if node in self.inputs else "out" if node == self.out else node

    def caption(self, node: str) -> str:
        """The text below the short name; often empty."""
        if self.place.joins:
            return "all states" if node == "out" else _INPUTS.get(node, ("", ""))[1]
        return "cell input" if node in self.inputs else "cell output" if node == self.out else ""


def heading(place: Place) -> str:
    """The title of a place, as a heading."""
    return place.title[:1].upper() + place.title[1:]


def cells(
    architecture: Architecture,
    choices: Sequence[Choice],
    probabilities: Probabilities | None = None,
    fell_with: FellWith | None = None,
) -> list[Cell]:
    """Every cell with its kept edges and what fell, in the order of the choices."""
    places: dict[Place, list[Choice]] = {}
    for choice in choices:
        places.setdefault(choice.place, []).append(choice)
    return [
        _cell(place, there, architecture, probabilities or {}, fell_with or {})
        for place, there in places.items()
        if any(choice.source is not None for choice in there)
    ]


def told_by_operations(choices: Sequence[Choice]) -> set[str]:
    """The choices of inputs that need not be shown: they follow from the operations."""
    targets = {(c.place, c.target) for c in choices if c.source is not None}
    return {c.name for c in choices if c.kind == "edge" and (c.place, c.target) in targets}


def table(
    architecture: Architecture,
    choices: Sequence[Choice],
    probabilities: Probabilities | None = None,
) -> list[Row]:
    """(cell, target, source, operation, probability) of kept edges; without cells, all choices."""
    rows: list[Row] = [
        (cell.place.name or "cell", edge.target, edge.source, edge.operation, edge.probability)
        for cell in cells(architecture, choices, probabilities)
        for edge in cell.edges
    ]
    return rows or [
        (choice, "", "", summary(kept, (probabilities or {}).get(choice)), None)
        for choice, kept in sorted(architecture.options.items(), key=lambda pair: order(pair[0]))
    ]


def summary(kept: Iterable[str], candidates: Mapping[str, float] | None = None) -> str:
    """Kept options in one line; many are counted."""
    names = list(kept)
    if len(candidates or names) <= 8:
        return ", ".join(map(operation, names)) or "nothing"
    total = f" of {len(candidates)}" if candidates else ""
    shown = ", ".join(map(operation, names[:8])) + (", …" if len(names) > 8 else "")
    return f"{len(names)}{total}: {shown}" if names else f"0{total}"


def order(name: str) -> tuple[object, ...]:
    """A sort key that puts "normal2" before "normal10", and cells by their number."""
    parts = re.split(r"(\d+)", name)
    return ([int(part) for part in parts[1::2]], parts[::2])


def leads_to(choices: Iterable[Choice]) -> dict[tuple[str, str], int]:
    """The node that an option with choices inside it leads to: the first one that these read."""
    found: dict[tuple[str, str], int] = {}
    for choice in choices:
        if choice.inside is not None and choice.source is not None:
            found[choice.inside] = min(choice.source, found.get(choice.inside, choice.source))
    return found


def _cell(
    place: Place,
    choices: Sequence[Choice],
    architecture: Architecture,
    known: Probabilities,
    fell_with: FellWith,
) -> Cell:
    """A place with its nodes and edges; nodes that no choice leads to are inputs."""
    kept, inner = architecture.options, leads_to(choices)
    there = [choice for choice in choices if choice.is_reached(kept)]
    links = [c for c in there if c.source is not None and c.target is not None]
    edges = [edge for choice in links for edge in _edges(choice, kept, inner, known)]
    edges.sort(key=lambda edge: (int(edge.target), int(edge.source)))
    targets = {choice.target for choice in there if choice.target is not None}
    targets |= {int(edge.target) for edge in edges}
    inputs = {choice.source for choice in links if choice.source is not None} - targets
    read, states = (tuple(map(str, sorted(nodes))) for nodes in (inputs, targets))
    fallen = [
        Fallen(c.name, str(c.source), str(c.target), fell_with[c.name])
        for c in sorted(links, key=lambda c: (c.target or 0, c.source or 0))
        if fell_with.get(c.name)
    ]
    return Cell(place, read, states, tuple(edges), tuple(fallen))


def _edges(
    choice: Choice, kept: Options, inner: Mapping[tuple[str, str], int], known: Probabilities
) -> Iterator[Edge]:
    """The edges of what is kept of a choice."""
    name, options = choice.name, kept.get(choice.name, ())
    every = {str(option): float(p) for option, p in known.get(name, {}).items()}
    for option in options:
        target, family = inner.get((name, option), choice.target), choice.family(option)
        yield Edge(name, str(choice.source), str(target), option, options, every, family)
