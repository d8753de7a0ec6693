"""The cells that ENAS found, in which every layer decides which channels it reads.

This is the space of SupNet-E and SupNet-EI of PGNAS (Zhou et al. 2020): the micro cells of ENAS
(Pham et al. 2018) in the form of their code. A 3x3 convolution gives three times the channels of a
cell; three stages of normal cells follow, with a reduction cell before the second and the third,
which doubles the channels and halves the image. A cell reads the two cells before it through
ReLU, 1x1 convolution, BN: the nearer one twice. Each of its five nodes adds up two operations; the
nodes that no other one reads stand side by side in its output. A separable convolution is ReLU,
depthwise, 1x1, BN, twice; a skip to half the size is two 1x1 convolutions side by side, the second
one pixel further on, and a BN.

Before every 1x1 convolution, the first one and the last layer stands a choice of channels: those
that this layer reads. A depthwise convolution has none of its own, but computes only what the 1x1
convolution behind it reads. The choices are the groups of PGNAS, 263 with five normal cells a
stage. There the pools and skips of a node cannot leave: branches = "whole". With "chosen", every
operation of a node may.

SupNet-E is channels = 36, EI channels = 72, with depth = 5, branches = "whole": 3,894,382 and
14,784,562 weights for ten classes. The paper prints 4.6M and 15.3M. Its script counts convolutions
and the last layer, with ENAS's auxiliary head and without BN: so EI has 15,279,912, and E has
4,342,500, of which 0.7 are the 3.0M of its row "random". 4.6M is what ENAS itself prints. That head
is left out here: it helps only to train, and a search has none.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ardor.layers.choices import LayerChoice
from ardor.layers.mixed import Mixed
from ardor.layers.operations import ZERO
from ardor.spaces._reading import TwoPaths, added, chosen_stem, reads

STAGES = 3
STEM = 3  # times the channels of a cell

Branch = tuple[int, str]  # the state that it reads, and its operation
Arc = tuple[tuple[Branch, Branch], ...]  # the nodes of a cell; states 0 and 1 are its inputs

NORMAL: Arc = (
    ((0, "avg"), (0, "sep3")),
    ((0, "skip"), (0, "sep5")),
    ((0, "skip"), (1, "sep5")),
    ((1, "sep3"), (0, "sep5")),
    ((0, "avg"), (1, "sep5")),
)
REDUCTION: Arc = (
    ((1, "sep3"), (1, "sep3")),
    ((0, "max"), (0, "avg")),
    ((1, "sep5"), (3, "sep5")),
    ((1, "sep3"), (0, "skip")),
    ((0, "max"), (1, "sep5")),
)

Channels = Annotated[int, Field(ge=2, le=4096)]


def build(
    image: tuple[int, int, int],
    classes: int,
    *,
    channels: Channels = 8,  # of the first cells; 36 in SupNet-E, 72 in SupNet-EI
    depth: Annotated[int, Field(ge=0, le=64)] = 1,  # normal cells of each stage; 5 in both
    branches: Literal["chosen", "whole"] = "chosen",  # if operations may leave; "whole" in both
) -> nn.Module:
    """Cells of two inputs, a mean over pixels, a linear layer."""
    stem = nn.Sequential(*chosen_stem(image[0], STEM * channels))
    widths = [STEM * channels] * 2  # of what the two cells before give
    layout, cells = ([*([False] * depth), True] * STAGES)[:-1], []
    for at, reduces in enumerate(layout):
        channels *= 2 if reduces else 1
        readers = inputs(f"cell{at + 1}", widths, channels, halved=at > 0 and layout[at - 1])
        cells.append(Cell(f"cell{at + 1}", readers, channels, reduces, branches == "whole"))
        widths = [widths[1], cells[-1].width]
    pool = [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    head = [reads("head", widths[1]), nn.Linear(widths[1], classes)]
    return nn.Sequential(stem, Row(cells), *pool, *head)


class Row(nn.Module):
    """Cells in a row, each of which reads the two before it."""

    def __init__(self, cells: Sequence[nn.Module]) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)

    def forward(self, x: Tensor) -> Tensor:
        before = last = x
        for cell in self.cells:
            before, last = last, cell(before, last)
        return last


def inputs(name: str, widths: Sequence[int], channels: int, *, halved: bool) -> nn.ModuleList:
    """How a cell reads the two before it; of `halved` ones the first is twice as large."""
    before, last = widths
    if halved:
        first = nn.Sequential(nn.ReLU(), TwoPaths(f"{name}-before", before, channels, 2))
    else:
        first = squeeze(f"{name}-before-1x1", before, channels)
    second = squeeze(f"{name}-last-1x1", last, channels)
    base = squeeze(f"{name}-base-1x1", channels, channels)
    return nn.ModuleList([first, nn.Sequential(second, base)])


class Cell(nn.Module):
    """Nodes of two operations each; those that no other one reads are what it gives."""

    def __init__(
        self, name: str, inputs: nn.ModuleList, channels: int, reduces: bool, whole: bool
    ) -> None:
        super().__init__()
        arc = REDUCTION if reduces else NORMAL
        self.inputs = inputs
        self.nodes = nn.ModuleList(
            Node(f"{name}-node{at + 1}", pair, channels, reduces, whole)
            for at, pair in enumerate(arc)
        )
        read = {source for pair in arc for source, _ in pair}
        self.loose = [state for state in range(2, 2 + len(arc)) if state not in read]
        self.width = channels * len(self.loose)

    def forward(self, *before: Tensor) -> Tensor:
        states = [read(x) for read, x in zip(self.inputs, before, strict=True)]
        for node in self.nodes:
            states.append(node(states))
        return torch.cat([states[at] for at in self.loose], 1)


class Node(nn.Module):
    """The sum of two operations; where the cell reduces, those on its inputs have the stride."""

    def __init__(
        self, name: str, pair: Sequence[Branch], channels: int, reduces: bool, whole: bool
    ) -> None:
        super().__init__()
        self.sources = [source for source, _ in pair]
        self.branches = nn.ModuleList()
        for at, (source, kind) in enumerate(pair):
            place = f"{name}-branch{at + 1}"
            made = operation(kind, place, channels, 2 if reduces and source < 2 else 1)
            choice = LayerChoice({kind: made, ZERO: None}, name=place)
            self.branches.append(Whole(kind, made) if whole else choice)

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        pairs = zip(self.branches, self.sources, strict=True)
        one, other = (branch(states[source]) for branch, source in pairs)
        return one + other  # type: ignore[no-any-return]


class Whole(nn.Module):
    """An operation that stays; in training its path may be dropped for some images."""

    def __init__(self, kind: str, made: nn.Module) -> None:
        super().__init__()
        self.mixed = Mixed((kind,), {kind: made})

    def forward(self, x: Tensor) -> Tensor:
        return added(self.mixed(x))


def operation(kind: str, name: str, channels: int, stride: int) -> nn.Module:
    """An operation of a node, by its name in the arc."""
    if kind == "skip":
        return nn.Identity() if stride == 1 else TwoPaths(f"{name}-path", channels, channels, 2)
    if kind == "max":
        return nn.MaxPool2d(3, stride, padding=1)
    if kind == "avg":
        return nn.AvgPool2d(3, stride, padding=1, count_include_pad=False)
    size = int(kind.removeprefix("sep"))
    first = separable(f"{name}-first-1x1", channels, size, stride)
    return nn.Sequential(*first, *separable(f"{name}-second-1x1", channels, size, 1))


def separable(name: str, channels: int, size: int, stride: int) -> list[nn.Module]:
    """ReLU, depthwise, 1x1, BN.

    What the 1x1 convolution does not read need not be filtered: the choice stands before both.
    """
    pad, conv = size // 2, partial(nn.Conv2d, channels, channels, bias=False)
    filters = conv(size, stride, pad, groups=channels)
    return [nn.ReLU(), reads(name, channels), filters, conv(1), nn.BatchNorm2d(channels)]


def squeeze(name: str, inputs: int, outputs: int) -> nn.Sequential:
    """ReLU, 1x1 convolution, BN."""
    conv = nn.Conv2d(inputs, outputs, 1, bias=False)
    return nn.Sequential(nn.ReLU(), reads(name, inputs), conv, nn.BatchNorm2d(outputs))
