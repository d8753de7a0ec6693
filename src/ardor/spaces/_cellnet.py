"""The nets of the cell space: one class for the supernet and for every network in it."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice
from ardor.bayes import Gates
from ardor.layers import linear_for
from ardor.ops import OPS, ZERO, Style, halve, squeeze
from ardor.spaces import Net
from ardor.states import Mixed, Terms, output, shut, state

if TYPE_CHECKING:
    from ardor.spaces.cells import Cells


class CellNet(Net):
    """Stem, cells, classifier; and, while training a network, an auxiliary head."""

    def __init__(self, space: "Cells", architecture: Architecture | None, style: Style) -> None:
        super().__init__()
        width = space.stem * space.channels
        self.stem = nn.Sequential(
            style.conv(space.image[0], width, 3, padding=1, bias=False), style.stem_norm(width)
        )
        before = last = width
        channels, halved = space.channels, False
        cells: list[Cell] = []
        for index, kind in enumerate(space.cells):
            channels *= 2 if kind == "R" else 1
            cells.append(Cell(space, architecture, style, index, (before, last, channels), halved))
            before, last, halved = last, space.states * channels, kind == "R"
        self.cells = nn.ModuleList(cells)
        self.auxiliary: nn.Module | None = None
        self.auxiliary_after = space.cells.rfind("R")
        if space.auxiliary and not style.searching and "R" in space.cells:
            width = space.states * cells[self.auxiliary_after].channels
            self.auxiliary = AuxiliaryHead(width, space.classes)
        self.classify = linear_for(style.conv)(last, space.classes)

    def heads(self, images: Tensor, gates: Gates | None = None) -> tuple[Tensor, ...]:
        before = last = self.stem(images)
        auxiliary = []
        for index, cell in enumerate(self.cells):
            before, last = last, cell(before, last, gates)
            if self.auxiliary and self.training and index == self.auxiliary_after:
                auxiliary.append(self.auxiliary(last))
        return self.classify(last.mean((2, 3))), *auxiliary

    def weight_norms(self, choice: Choice) -> Tensor:
        place, edge = choice.name.split("/")
        cells = [cell for cell in self.cells if isinstance(cell, Cell) and cell.place == place]
        return torch.stack(
            [
                torch.stack([squared_norm(cell.part(edge, option)) for option in choice.options])
                for cell in cells
            ]
        )

    def take_out(self, choice: Choice, option: str) -> None:
        place, edge = choice.name.split("/")
        for cell in self.cells:
            if isinstance(cell, Cell) and cell.place == place:
                cell.take_out(edge, option)

    def idle(self) -> list[tuple[nn.ModuleDict, str]]:
        return [found for cell in self.cells if isinstance(cell, Cell) for found in cell.idle()]


class Cell(nn.Module):
    """A small graph: two inputs, states that add up their edges, all states concatenated."""

    def __init__(
        self,
        space: "Cells",
        architecture: Architecture | None,
        style: Style,
        index: int,
        widths: tuple[int, int, int],
        halved: bool,
    ) -> None:
        super().__init__()
        self.place = space.places[index]
        self.copy = space.places[:index].count(self.place)
        self.stride = 2 if space.cells[index] == "R" else 1
        before, last, self.channels = widths
        self.inputs = nn.ModuleList(
            [
                # The cell before a reduction is twice as large as what the reduction gave.
                (halve if halved else squeeze)(before, self.channels, style),
                squeeze(last, self.channels, style),
            ]
        )
        self.sources = {node: range(node) for node in space.nodes()}
        self.edges = nn.ModuleDict()
        for node, sources in self.sources.items():
            for source in sources:
                name = f"{source}>{node}"
                kept = space.operations
                if architecture is not None:
                    kept = architecture.options[f"{self.place}/{name}"]
                stride = self.stride if source < 2 else 1
                ops = {op: OPS[op](self.channels, stride, style) for op in kept if op != ZERO}
                if ops:
                    self.edges[name] = Mixed(space.operations, ops)

    def forward(self, before: Tensor, last: Tensor, gates: Gates | None) -> Tensor:
        states = [output(self.inputs[0], before), output(self.inputs[1], last)]
        for node, sources in self.sources.items():
            edge_gates = self._gate(gates, f">{node}")
            closed = shut(edge_gates)
            edges = [
                self._edge(source, node, states[source], gates, edge_gates)
                for source in sources
                if source not in closed
            ]
            total = state(edges)
            states.append(self._nothing(states[1]) if total is None else total)
        return torch.cat(states[2:], 1)

    def _edge(
        self, source: int, node: int, x: Tensor, gates: Gates | None, edge_gates: Tensor | None
    ) -> Terms:
        """What the edge brings; nothing where it is absent."""
        name = f"{source}>{node}"
        if name not in self.edges:
            return Terms([])
        terms: Terms = self.edges[name](x, self._gate(gates, name))
        return terms if edge_gates is None else terms.under(edge_gates[:, source, None])

    def part(self, edge: str, option: str) -> nn.Module | None:
        """What an option stands for: a candidate on edge "0>2", or an edge into ">2"."""
        edges = dict(self.edges.items())
        if edge.startswith(">"):
            return edges.get(option + edge)
        mixed = edges.get(edge)
        return dict(mixed.candidates.items()).get(option) if isinstance(mixed, Mixed) else None

    def take_out(self, edge: str, option: str) -> None:
        """Removes what an option stands for, where it stands for anything."""
        mixed = dict(self.edges.items()).get(edge)
        if isinstance(mixed, Mixed) and option in mixed.candidates:
            del mixed.candidates[option]
        elif option + edge in self.edges:
            del self.edges[option + edge]

    def idle(self) -> list[tuple[nn.ModuleDict, str]]:
        """Candidates that bring only zeros; of a state that is all zeros, all but one."""
        zero = {node for node, chain in enumerate(self.inputs) if silent(chain)}
        found = []
        for node, sources in self.sources.items():
            there = [
                (mixed.candidates, name, silent(candidate, source in zero))
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
        """This copy's gates of a choice, (batch | 1, options); None where it is left open."""
        gate = None if gates is None else gates.get(f"{self.place}/{name}")
        return None if gate is None else gate[self.copy if len(gate) > 1 else 0]

    def _nothing(self, input: Tensor) -> Tensor:
        """A state that no edge reaches."""
        height, width = (-(-side // self.stride) for side in input.shape[2:])
        return input.new_zeros(input.shape[0], self.channels, height, width)


class AuxiliaryHead(nn.Module):
    """A classifier on the features after the last reduction (DARTS; Szegedy et al. 2015)."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 128, 1, bias=False),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.Conv2d(128, 768, 2, bias=False),
            nn.BatchNorm2d(768),
            nn.ReLU(),
        )
        self.classify = nn.Linear(768, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        # DARTS pools 8x8 to 2x2 by windows of 5 at stride 3; other sizes come as near as they can.
        fits = min(x.shape[2:]) >= 8
        x = F.avg_pool2d(x, 5, stride=3) if fits else F.adaptive_avg_pool2d(x, 2)
        return self.classify(self.features(x).mean((2, 3)))  # type: ignore[no-any-return]


def squared_norm(module: nn.Module | None) -> Tensor:
    """Sum of squared convolution weights; 0 for what has none."""
    modules = module.modules() if module is not None else []
    squares = [m.weight.square().sum() for m in modules if isinstance(m, nn.Conv2d)]
    return torch.stack(squares).sum() if squares else torch.zeros(())


def silent(module: nn.Module, given_zero: bool = False) -> bool:
    """Whether a candidate gives only zeros: by its last normalisation, or by what it is given."""
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    return given_zero if not norms else not (norms[-1].weight.any() or norms[-1].bias.any())
