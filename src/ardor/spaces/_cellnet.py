"""The nets of the cell space: one class for the supernet and for every network in it."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.bayes import Gates
from ardor.layers import linear_for
from ardor.ops import Style, halve, squeeze
from ardor.spaces._graph import Graph, GraphNet
from ardor.states import output

if TYPE_CHECKING:
    from ardor.spaces.cells import Cells


class CellNet(GraphNet):
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


class Cell(Graph):
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
        before, last, channels = widths
        inputs = [
            # The cell before a reduction is twice as large as what the reduction gave.
            (halve if halved else squeeze)(before, channels, style),
            squeeze(last, channels, style),
        ]
        place = space.places[index]
        super().__init__(place, space.places[:index].count(place), space.nodes(), inputs)
        self.stride, self.channels = 2 if space.cells[index] == "R" else 1, channels
        for node, sources in self.sources.items():
            for source in sources:
                name = f"{source}>{node}"
                options = kept = space.operations_of(f"{place}/{name}")
                if architecture is not None:
                    kept = architecture.options[f"{place}/{name}"]
                stride = self.stride if source < 2 else 1
                self.connect(name, options, kept, (channels, stride), style)

    def forward(self, before: Tensor, last: Tensor, gates: Gates | None) -> Tensor:
        states = [output(self.inputs[0], before), output(self.inputs[1], last)]
        for node in self.sources:
            total = self.node(node, states, gates)
            states.append(self._nothing(states[1]) if total is None else total)
        return torch.cat(states[2:], 1)

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
