"""The nets of the cell space: one class for the supernet and for every network in it."""

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.bayes import Gates
from ardor.layers.mixed import output
from ardor.layers.operations import halve, squeeze
from ardor.layers.style import Style
from ardor.layers.variational import linear_for
from ardor.spaces._graph import Graph, GraphNet

if TYPE_CHECKING:
    from ardor.spaces.cells import Cells


class CellNet(GraphNet):
    """Stem, cells, classifier; and, while training a network, an auxiliary head.

    In BayesNAS's order what reads a sum normalises it: so does the classifier, and no stem ends in
    a norm.
    """

    def __init__(self, space: "Cells", architecture: Architecture | None, style: Style) -> None:
        super().__init__()
        width = space.stem * space.channels
        self.stem, self.second_stem = stems(space.image[0], width, space.halvings, style)
        halved = self.second_stem is not None
        cells: list[Cell] = []
        for index, kind in enumerate(space.cells):
            cells.append(Cell(space, architecture, style, index, space.widths[index], halved))
            halved = kind == "R"
        self.cells = nn.ModuleList(cells)
        self.auxiliary: nn.Module | None = None
        self.auxiliary_after = space.cells.rfind("R")
        if space.auxiliary and architecture is not None and "R" in space.cells:
            width = space.states * cells[self.auxiliary_after].channels
            self.auxiliary = AuxiliaryHead(width, space.classes, halved=space.halvings > 0)
        width = space.states * cells[-1].channels
        self.norm: nn.Module = style.norm(width) if style.norm_first else nn.Identity()
        self.classify = linear_for(style.conv)(width, space.classes)

    def heads(self, images: Tensor, gates: Gates | None = None) -> tuple[Tensor, ...]:
        before = last = self.stem(images)
        if self.second_stem is not None:
            last = self.second_stem(before)
        auxiliary = []
        for index, cell in enumerate(self.cells):
            before, last = last, cell(before, last, gates)
            if self.auxiliary and self.training and index == self.auxiliary_after:
                auxiliary.append(self.auxiliary(last))
        return self.classify(self.norm(last).mean((2, 3))), *auxiliary


def stems(
    inputs: int, width: int, halvings: int, style: Style
) -> tuple[nn.Sequential, nn.Sequential | None]:
    """The stems: one for both inputs of the first cell, or two if they halve the image.

    As in DARTS on ImageNet, where three convolutions halve the image: the first stem has two, with
    half of the channels and with all; the second stem continues from it with the third.
    """

    def conv(inputs: int, outputs: int, stride: int, *, last: bool = False) -> list[nn.Module]:
        strided = style.conv(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        return [strided] if last and style.norm_first else [strided, style.stem_norm(outputs)]

    if not halvings:
        return nn.Sequential(*conv(inputs, width, 1, last=True)), None
    # A single halving is done by the second stem.
    widths = [max(1, width >> left) for left in reversed(range(max(1, halvings - 1)))]
    first = [*conv(inputs, widths[0], 2 if halvings > 1 else 1)]
    for before, after in pairwise(widths):
        first += [nn.ReLU(), *conv(before, after, 2)]
    return nn.Sequential(*first), nn.Sequential(nn.ReLU(), *conv(width, width, 2, last=True))


class Cell(Graph):
    """A small graph: two inputs, states that add up their edges; its output is all states."""

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
            # After a reduction, the cell before the last is twice as large as the last one.
            (halve if halved else squeeze)(before, channels, style),
            squeeze(last, channels, style),
        ]
        place = space.places[index]
        copy = space.places[:index].count(place)
        super().__init__(place.name, copy, space.nodes(), inputs)
        self.stride, self.channels = 2 if space.cells[index] == "R" else 1, channels
        for node, sources in self.sources.items():
            for source in sources:
                name = f"{source}>{node}"
                options = kept = space.operations_of(f"{place.name}/{name}")
                if architecture is not None:
                    kept = architecture.options[f"{place.name}/{name}"]
                stride = self.stride if source < 2 else 1
                self.connect(name, options, kept, (channels, stride), style)

    def forward(self, before: Tensor, last: Tensor, gates: Gates | None) -> Tensor:
        states = [output(self.inputs[0], before), output(self.inputs[1], last)]
        for node in self.sources:
            total = self.node(node, states, gates)
            states.append(self._nothing(states[1]) if total is None else total)
        return torch.cat(states[2:], 1)

    def _nothing(self, input: Tensor) -> Tensor:
        """The zeros of a state that no edge reaches."""
        height, width = (-(-side // self.stride) for side in input.shape[2:])
        return input.new_zeros(input.shape[0], self.channels, height, width)


class AuxiliaryHead(nn.Module):
    """A classifier on the features after the last reduction (DARTS; Szegedy et al. 2015).

    After a stem that halves the image it is that for ImageNet: a smaller stride, one norm less.
    """

    def __init__(self, channels: int, classes: int, *, halved: bool) -> None:
        super().__init__()
        self.stride = 2 if halved else 3
        self.features = nn.Sequential(
            nn.Conv2d(channels, 128, 1, bias=False),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.Conv2d(128, 768, 2, bias=False),
            *(() if halved else (nn.BatchNorm2d(768),)),
            nn.ReLU(),
        )
        self.classify = nn.Linear(768, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        # DARTS pools 8x8 to 2x2 by windows of 5 at stride 3, and 7x7 at stride 2; other sizes come
        # as near as they can.
        fits = min(x.shape[2:]) >= 5 + self.stride
        x = F.avg_pool2d(x, 5, stride=self.stride) if fits else F.adaptive_avg_pool2d(x, 2)
        return self.classify(self.features(x).mean((2, 3)))  # type: ignore[no-any-return]
