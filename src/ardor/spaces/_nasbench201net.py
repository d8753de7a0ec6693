"""The nets of NAS-Bench-201: one class for the supernet and for every network in it."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.bayes import Gates
from ardor.layers.operations import ZERO
from ardor.layers.style import Style
from ardor.layers.variational import linear_for
from ardor.spaces._graph import Graph, GraphNet

if TYPE_CHECKING:
    from ardor.spaces.nasbench201 import Nasbench201

OPERATIONS = (ZERO, "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
NODES, STAGES = 4, 3
LINKS = {f"{source}>{node}": (source, node) for node in range(1, NODES) for source in range(node)}
EDGES = tuple(LINKS)


class Nasbench201Net(GraphNet):
    """Stem, three stages of cells with reductions between them, classifier."""

    def __init__(
        self, space: "Nasbench201", architecture: Architecture | None, style: Style
    ) -> None:
        super().__init__()
        width = space.channels
        self.stem = nn.Sequential(
            style.conv(space.image[0], width, 3, padding=1, bias=False), style.stem_norm(width)
        )
        cells: list[nn.Module] = []
        reductions: list[nn.Module] = []
        for stage in range(STAGES):
            if stage:
                reductions.append(Reduction(width, 2 * width, style))
                width *= 2
            copies = range(stage * space.cells, (stage + 1) * space.cells)
            cells += [Cell(copy, width, architecture, style) for copy in copies]
        self.cells, self.reductions = nn.ModuleList(cells), nn.ModuleList(reductions)
        self.norm = style.norm(width)
        self.classify = linear_for(style.conv)(width, space.classes)

    def heads(self, images: Tensor, gates: Gates | None = None) -> tuple[Tensor, ...]:
        x = self.stem(images)
        stage = len(self.cells) // STAGES
        for index, cell in enumerate(self.cells):
            if index and index % stage == 0:
                x = self.reductions[index // stage - 1](x)
            x = cell(x, gates)
        return (self.classify(F.relu(self.norm(x)).mean((2, 3))),)


class Cell(Graph):
    """Node 0 is the input, and the last node the output."""

    def __init__(
        self, copy: int, channels: int, architecture: Architecture | None, style: Style
    ) -> None:
        super().__init__("", copy, range(1, NODES))
        for edge in EDGES:
            kept = OPERATIONS if architecture is None else architecture.options[edge]
            self.connect(edge, OPERATIONS, kept, (channels, 1), style)

    def forward(self, x: Tensor, gates: Gates | None) -> Tensor:
        states = [x]
        for node in self.sources:
            total = self.node(node, states, gates)
            states.append(torch.zeros_like(x) if total is None else total)
        return states[-1]


class Reduction(nn.Module):
    """A residual block at half the size (He et al. 2016): two convolutions plus a pool."""

    def __init__(self, inputs: int, outputs: int, style: Style) -> None:
        super().__init__()
        self.first, self.second = (
            style.block(outputs, style.conv(width, outputs, 3, stride, padding=1, bias=False))
            for width, stride in ((inputs, 2), (outputs, 1))
        )
        # Rounds odd sides up, as the strided convolution does.
        self.pool = nn.AvgPool2d(2, ceil_mode=True)
        self.widen = style.conv(inputs, outputs, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.second(self.first(x)) + self.widen(self.pool(x))
        return total
