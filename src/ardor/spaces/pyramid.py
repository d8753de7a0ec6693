"""Tree cells in a PyramidNet, each block with choices of its own.

This is the space of BayesNAS's proxyless search (Zhou et al. 2019, section 6.2). A block of
PyramidNet (Han, Kim and Kim 2017) is BN, 1x1 convolution, cell, BN, ReLU, 1x1 convolution to four
times the channels, BN. What goes around it is the identity, or the mean of 2x2 pixels where a stage
begins, and zeros for the channels that it lacks. The cell is TreeCell-A (Cai et al. 2018): a node
feeds its input to several branches, each an operation and perhaps a node below it, and adds up what
they give. Every node is a choice, and stands inside an option of the node above it: a path goes
with the first operation on it that is left out. A cell may keep nothing at all.

What the papers leave open is as in the code of Cai et al.: operations are BN, ReLU and convolution
in this order; depthwise and pointwise are one step, with nothing between; pools have no BN, and the
average does not count the padding; branches have no BN of their own, and are added up, not
averaged; where a stage begins, the two 3x3 convolutions of the root have the stride; channels are
rounded, and then down to a multiple of the groups. So 18 blocks a stage have 5,724,330 weights with
16 planes and alpha = 84, and 14,273,454 with alpha = 150: they publish 5.7M and 14.3M. That code
has a setting for averages, which has no weights and so does not show in these counts.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from ardor.errors import ArdorError
from ardor.layers.choices import LayerChoice, Zeros
from ardor.layers.operations import ZERO

STAGES = 3
TIMES = 4  # as many channels between blocks as in a cell

Node = tuple[tuple[str, "Node"], ...]  # its branches: an operation, and the node below it
LEAF: Node = ()


def leaves(*operations: str) -> Node:
    """A node with nothing below it."""
    return tuple((operation, LEAF) for operation in operations)


CELL: Node = (
    (
        "conv_3x3",
        (
            ("conv_1x1", leaves("avg_pool_3x3", "sep_conv_7x7")),
            ("max_pool_3x3", leaves("sep_conv_3x3", "sep_conv_5x5")),
        ),
    ),
    (
        "conv_3x3",
        (
            ("sep_conv_5x5", leaves("sep_conv_5x5", "avg_pool_3x3", "avg_pool_3x3")),
            ("sep_conv_3x3", leaves("avg_pool_3x3", "sep_conv_3x3")),
        ),
    ),
)
SPLIT = "11"  # the node whose branches have half of the channels each, side by side in the end

Channels = Annotated[int, Field(ge=2, le=4096)]


def build(
    image: tuple[int, int, int],
    classes: int,
    *,
    planes: Channels = 8,  # channels before the first block
    alpha: Annotated[
        int, Field(ge=0, le=4096)
    ] = 24,  # how many more the cell of the last block has
    blocks: Annotated[int, Field(ge=1, le=64)] = 1,  # of each of the three stages
    groups: Annotated[int, Field(ge=1, le=64)] = 2,  # of the 3x3 convolutions at the root of a tree
) -> nn.Module:
    """Blocks whose channels grow by the same number each, a mean over pixels, a linear layer."""
    check(planes, groups)
    layers: list[nn.Module] = [
        nn.Conv2d(image[0], planes, 3, padding=1, bias=False),
        nn.BatchNorm2d(planes),
    ]
    before = planes
    for at, channels in enumerate(widths(planes, alpha, STAGES * blocks, groups)):
        stride = 2 if at and at % blocks == 0 else 1
        cell = tree(f"block{at + 1}", CELL, channels, stride=stride, groups=groups)
        layers.append(Block(before, channels, cell, stride))
        before = TIMES * channels
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes)]
    return nn.Sequential(*layers, nn.BatchNorm2d(before), nn.ReLU(), *head)


def check(planes: int, groups: int) -> None:
    """An ArdorError if the groups have no channel each."""
    if groups > planes:
        raise ArdorError(
            f"space.groups = {groups} must be at most space.planes, which is {planes}",
            "PyramidNet begins with 16 channels, and tree cells have 2 groups",
        )


def widths(planes: int, alpha: int, count: int, groups: int) -> list[int]:
    """The channels in the cell of each block: `alpha` / `count` more from one to the next."""
    rounded = [round(planes + alpha * (at + 1) / count) for at in range(count)]
    return [width - width % groups for width in rounded]


class Block(nn.Module):
    """A cell between 1x1 convolutions, around which the input goes."""

    def __init__(self, inputs: int, channels: int, cell: nn.Module, stride: int) -> None:
        super().__init__()
        outputs = TIMES * channels
        self.first = nn.Sequential(nn.BatchNorm2d(inputs), conv(inputs, channels, 1))
        self.cell = cell
        self.last = nn.Sequential(
            activated(channels, conv(channels, outputs, 1)), nn.BatchNorm2d(outputs)
        )
        # An odd side gives the size that a stride of two gives.
        self.around = nn.Identity() if stride == 1 else nn.AvgPool2d(2, ceil_mode=True)
        self.lacking = Zeros(outputs - inputs, 2) if outputs > inputs else None

    def forward(self, x: Tensor) -> Tensor:
        around = self.around(x)
        if self.lacking is not None:
            around = torch.cat([around, self.lacking(around, around.shape[1:])], 1)
        return around + self.last(self.cell(self.first(x)))  # type: ignore[no-any-return]


def tree(
    block: str, node: Node, channels: int, *, place: str = "", stride: int = 1, groups: int = 1
) -> LayerChoice:
    """The choice at a node, with those of all nodes below it; `place` is the way to it: "21"."""
    options: dict[str, nn.Module | None] = {}
    for at, (name, (operation, below)) in enumerate(zip(names(node), node, strict=True)):
        seen = half(channels, at) if place == SPLIT else range(channels)
        layers: list[nn.Module] = [layer(operation, len(seen), stride, groups)]
        if below:
            layers.append(tree(block, below, channels, place=f"{place}{at + 1}"))
        branch = nn.Sequential(*layers)
        options[name] = Part(branch, seen, channels) if place == SPLIT else branch
    if not place:
        options[ZERO] = None
    return LayerChoice(options, name=f"{block}-b{place}" if place else f"{block}-root")


def names(node: Node) -> Sequence[str]:
    """The operations of a node as options, equal ones with a number."""
    operations = [operation for operation, _ in node]
    return [
        name if operations.count(name) == 1 else f"{name}-{operations[: at + 1].count(name)}"
        for at, name in enumerate(operations)
    ]


def half(channels: int, at: int) -> range:
    """The first or the second half of the channels; the first is larger if they are odd."""
    first = channels - channels // 2
    return range(channels)[:first] if at == 0 else range(channels)[first:]


class Part(nn.Module):
    """Layers that see one half of the channels, beside zeros: both halves add up to the whole."""

    def __init__(self, layers: nn.Module, seen: range, channels: int) -> None:
        super().__init__()
        self.layers, self.seen = layers, seen
        self.others = Zeros(channels - len(seen), 2)

    def forward(self, x: Tensor) -> Tensor:
        made = self.layers(x[:, self.seen.start : self.seen.stop])
        others = self.others(made, made.shape[1:])
        return torch.cat([others, made] if self.seen.start else [made, others], 1)


def layer(operation: str, channels: int, stride: int, groups: int) -> nn.Module:
    """An operation of the tree; only those of the root have a stride or groups."""
    if operation == "max_pool_3x3":
        return nn.MaxPool2d(3, stride, padding=1)
    if operation == "avg_pool_3x3":
        return nn.AvgPool2d(3, stride, padding=1, count_include_pad=False)
    size = int(operation[-1])
    if operation.startswith("sep"):
        depthwise = conv(channels, channels, size, stride, groups=channels)
        return activated(channels, depthwise, conv(channels, channels, 1))
    return activated(channels, conv(channels, channels, size, stride, groups=groups))


def activated(channels: int, *convs: nn.Module) -> nn.Sequential:
    """BN, ReLU, and convolutions."""
    return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(), *convs)


def conv(inputs: int, outputs: int, size: int, stride: int = 1, *, groups: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size of the image, but for its stride."""
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
