"""Cells as graphs, and nets made of them: each node adds up the outputs of its edges."""

from collections.abc import Iterable, Sequence
from functools import cache

import torch
from torch import Tensor, nn

from ardor.architecture import Choice
from ardor.bayes import Gates
from ardor.errors import ArdorError
from ardor.layers.mixed import Mixed, Terms, add_up, shut, squared_norm
from ardor.layers.operations import OPS, ZERO, Noise
from ardor.layers.style import DARTS, Order, Style
from ardor.spaces._base import Net

MOST_CANDIDATES = 10_000  # in all cells: the largest published supernets have some 5,000
MOST_WEIGHTS = 2**30  # 4 GB, as much again for gradients, and twice that for Adam


class Graph(nn.Module):
    """A cell: edges "0>2" with candidates, under the gates of "place/0>2" and "place/>2"."""

    def __init__(
        self, place: str, copy: int, nodes: range, inputs: Sequence[nn.Module] = ()
    ) -> None:
        super().__init__()
        self.place, self.copy = place, copy
        self.sources = {node: range(node) for node in nodes}
        self.inputs = nn.ModuleList(inputs)  # applied to the inputs first, if there are any
        self.edges = nn.ModuleDict()
        self.hard = False  # whether edges under a gate of zero are skipped even while it learns

    def connect(
        self,
        edge: str,
        options: tuple[str, ...],
        kept: tuple[str, ...],
        size: tuple[int, int],
        style: Style,
    ) -> None:
        """Creates an edge with the kept operations; `size` is its channels and stride."""
        channels, stride = size
        seen = channels // style.share
        ops = {op: OPS[op](seen, stride, style) for op in kept if op != ZERO}
        if ops:
            self.edges[edge] = Mixed(options, ops, partial=style.share, stride=stride)

    def node(self, node: int, states: Sequence[Tensor], gates: Gates | None) -> Tensor | None:
        """The sum of a node's edges, from the states before it; None if no edge reaches it."""
        edge_gates = self._gate(gates, f">{node}")
        closed = shut(edge_gates, hard=self.hard)
        return add_up(
            [
                self._edge(source, node, states[source], gates, edge_gates)
                for source in self.sources[node]
                if source not in closed
            ]
        )

    def _edge(
        self, source: int, node: int, x: Tensor, gates: Gates | None, edge_gates: Tensor | None
    ) -> Terms:
        """The terms of an edge under its gates; none if there is no such edge."""
        name = f"{source}>{node}"
        if name not in self.edges:
            return Terms([])
        terms: Terms = self.edges[name](x, self._gate(gates, name))
        return terms if edge_gates is None else terms.under(edge_gates[:, source, None])

    def part(self, edge: str, option: str) -> nn.Module | None:
        """The module of an option: a candidate on edge "0>2", or an edge into ">2"."""
        edges = dict(self.edges.items())
        if edge.startswith(">"):
            return edges.get(option + edge)
        mixed = edges.get(edge)
        return dict(mixed.candidates.items()).get(option) if isinstance(mixed, Mixed) else None

    def take_out(self, edge: str, option: str) -> None:
        """Removes the module of an option, if it has one."""
        mixed = dict(self.edges.items()).get(edge)
        if isinstance(mixed, Mixed) and option in mixed.candidates:
            del mixed.candidates[option]
        elif option + edge in self.edges:
            del self.edges[option + edge]

    def idle(self) -> list[tuple[nn.ModuleDict, str]]:
        """Candidates that give only zeros; of a state that is all zeros, all but one."""
        zero = {node for node, module in enumerate(self.inputs) if silent(module)}
        found = []
        for node, sources in self.sources.items():
            there = [
                # With partial channels the others bypass the candidate, and need it to do so.
                (mixed.candidates, name, mixed.partial == 1 and silent(candidate, source in zero))
                for source in sources
                if isinstance(mixed := dict(self.edges.items()).get(f"{source}>{node}"), Mixed)
                for name, candidate in mixed.candidates.items()
            ]
            idle = [(candidates, name) for candidates, name, quiet in there if quiet]
            if len(idle) == len(there):
                zero.add(node)
            found += idle[1:] if node in zero else idle
        return found

    def _gate(self, gates: Gates | None, name: str) -> Tensor | None:
        """This copy's gates of a choice, (batch | 1, options); None if it has none."""
        name = f"{self.place}/{name}" if self.place else name
        gate = None if gates is None else gates.get(name)
        return None if gate is None else gate[self.copy if len(gate) > 1 else 0]


class GraphNet(Net):
    """A net of such cells; a choice is made for all cells of its place."""

    cells: nn.ModuleList

    def weight_norms(self, choice: Choice) -> Tensor:
        return torch.stack(
            [
                torch.stack([squared_norm(cell.part(edge, option)) for option in choice.options])
                for cell, edge in self._of(choice)
            ]
        )

    def take_out(self, choice: Choice, option: str) -> None:
        for cell, edge in self._of(choice):
            cell.take_out(edge, option)

    def hard_gates_(self, hard: bool) -> None:
        super().hard_gates_(hard)
        for cell in self._graphs():
            cell.hard = hard

    def idle(self) -> list[tuple[nn.ModuleDict, str]]:
        return [found for cell in self._graphs() for found in cell.idle()]

    def _of(self, choice: Choice) -> list[tuple[Graph, str]]:
        """The cells that a choice is made for, each with its edge "0>2", or node ">2"."""
        edge = f"{'' if choice.source is None else choice.source}>{choice.target}"
        return [(cell, edge) for cell in self._graphs() if cell.place == choice.place.name]

    def _graphs(self) -> list[Graph]:
        return [cell for cell in self.cells if isinstance(cell, Graph)]


def check_candidates(product: str, count: int, hint: str) -> None:
    """An ArdorError if a supernet would have too many candidates."""
    if count > MOST_CANDIDATES:
        raise ArdorError(
            f"the space has {product} = {count:,} candidates; must be at most {MOST_CANDIDATES:,}",
            hint,
        )


def check_weights(
    cells: Iterable[tuple[int, Iterable[str]]], others: int = 0, order: Order = DARTS
) -> None:
    """An ArdorError if cells of (channels, operations), and other weights, are too large."""
    widths = [(channels, list(operations)) for channels, operations in cells]
    count = others + sum(weights_of(op, channels, order) for channels, ops in widths for op in ops)
    if count > MOST_WEIGHTS:
        widest = max(channels for channels, _ in widths)
        raise ArdorError(
            f"the space has {count:,} weights, with up to {widest:,} channels; "
            f"must be at most {MOST_WEIGHTS:,}",
            "use fewer channels or cells: DARTS searches 16 channels in 8 cells, and trains 36 "
            "in 20",
        )


@cache
def weights_of(operation: str, channels: int, order: Order) -> int:
    """How many weights an operation has."""
    if operation == ZERO:
        return 0
    with torch.device("meta"):  # allocates nothing
        made = OPS[operation](channels, 1, Style(order=order))
    return sum(weight.numel() for weight in made.parameters())


def check_partial(partial: int, channels: int) -> None:
    """An ArdorError unless `partial` divides the channels."""
    if channels % partial:
        raise ArdorError(
            f"space.partial = {partial} must divide the channels, of which there are {channels}",
            "use a divisor of space.channels; a final network is whole: network.partial=1 will do",
        )


def silent(module: nn.Module, given_zero: bool = False) -> bool:
    """Whether a candidate gives only zeros: its last normalisation or its input is zero."""
    if isinstance(module, Noise):
        return False
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    return given_zero if not norms else not (norms[-1].weight.any() or norms[-1].bias.any())
