"""The cells of an architecture, read from the names of its choices: "normal/0>2", "reduce/>3"."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ardor.architecture import Architecture, Probabilities, cell_name, parse
from ardor.reporting.format import operation

Row = tuple[str, str, str, str, float | None]

_INPUTS = {"0": ("c−2", "cell before last"), "1": ("c−1", "last cell")}


@dataclass(frozen=True)
class Edge:
    """One kept operation between two nodes, and what else could have stood there."""

    choice: str
    source: str
    target: str
    operation: str
    kept: tuple[str, ...]  # every operation kept between the two, this one included
    candidates: Mapping[str, float]  # all of them with their probabilities; empty if unknown

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
        """In words, if the decision could easily have gone the other way."""
        chance, other = self.probability, self.runner_up
        if chance is None:
            return ""
        if other and other[1] > chance:
            return f"against the odds: {operation(other[0])} is likelier"
        close = chance < 0.5 or (other is not None and chance < 1.5 * other[1])
        return "close call" if close else ""


@dataclass(frozen=True)
class Cell:
    """The nodes and kept edges of one place: "normal", "reduce", "normal3", "" for the only one."""

    place: str
    inputs: tuple[str, ...]
    states: tuple[str, ...]
    edges: tuple[Edge, ...]

    @property
    def title(self) -> str:
        """What stands above the drawing."""
        name = cell_name(self.place)
        return name[:1].upper() + name[1:]

    @property
    def out(self) -> str:
        """The node that leaves the cell: all states, or with one input the last of them."""
        return "out" if len(self.inputs) > 1 else self.states[-1]

    def word(self, node: str) -> str:
        """A node's short name."""
        if len(self.inputs) > 1:
            return _INPUTS.get(node, (node,))[0]
        return "in" if node in self.inputs else "out" if node == self.out else node

    def caption(self, node: str) -> str:
        """What stands below the short name; often nothing."""
        if len(self.inputs) > 1:
            return "all states" if node == "out" else _INPUTS.get(node, ("", ""))[1]
        return "cell input" if node in self.inputs else "cell output" if node == self.out else ""


def cells(architecture: Architecture, probabilities: Probabilities | None = None) -> list[Cell]:
    """Every cell with its kept edges, in the order of the network."""
    known = probabilities or {}
    links: dict[str, list[tuple[str, str, str]]] = {}
    for choice in dict.fromkeys([*architecture.options, *known]):
        parsed = parse(choice)
        if parsed and parsed[1]:
            links.setdefault(parsed[0], []).append((choice, *parsed[1:]))
    return [_cell(place, links[place], architecture, known) for place in sorted(links, key=order)]


def table(architecture: Architecture, probabilities: Probabilities | None = None) -> list[Row]:
    """(cell, target, source, operation, probability) of kept edges; without cells, all choices."""
    rows: list[Row] = [
        (cell.place or "cell", edge.target, edge.source, edge.operation, edge.probability)
        for cell in cells(architecture, probabilities)
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


def _cell(
    place: str, links: list[tuple[str, str, str]], architecture: Architecture, known: Probabilities
) -> Cell:
    links = sorted(links, key=lambda link: (int(link[2]), int(link[1])))
    targets = {target for _, _, target in links}
    inputs = ("0",) if "1" in targets else ("0", "1")
    states = targets | {source for _, source, _ in links} - set(inputs)
    edges = []
    for choice, source, target in links:
        kept = architecture.options.get(choice, ())
        every = {str(name): float(p) for name, p in known.get(choice, {}).items()}
        edges += [Edge(choice, source, target, name, kept, every) for name in kept]
    return Cell(place, inputs, tuple(sorted(states, key=int)), tuple(edges))
