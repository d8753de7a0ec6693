"""DenseNet, in which every layer decides what it reads of each layer before it.

This is the space of SupNet-D-121 of PGNAS (Zhou et al. 2020). A layer of DenseNet (Huang et al.
2017) reads what all layers of its block before it have given, and what the block was given: BN,
ReLU and a 1x1 convolution, then BN, ReLU and a 3x3 convolution to a few new channels, the growth.
Between blocks a 1x1 convolution reads all of a block, gives half the channels, and a pool halves
the image.

A 1x1 convolution over tensors side by side is the sum of one for each of them, and so it is written
here: every source has BN, ReLU and a convolution of its own, with a choice of the channels that it
reads. A source of which nothing is read is gone, a link less. So are those of the layers between
blocks; a 3x3 convolution has one choice. The first convolution and the last layer read everything.
The choices are the groups of PGNAS.

DenseNet-121 is channels = 64, growth = 32, blocks = (6, 12, 24, 16), stem = "large": 7,978,856
weights for a thousand classes, and 638 choices. The released code has three 3x3 convolutions for a
stem; the paper's 7x7 is here.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from ardor.layers.mixed import Mixed
from ardor.spaces._reading import Stem, plain_stem, reads

Channels = Annotated[int, Field(ge=2, le=4096)]


def build(
    image: tuple[int, int, int],
    classes: int,
    *,
    channels: Channels = 16,  # of the first convolution; 64 in DenseNet-121
    growth: Channels = 8,  # channels that a layer adds; 32 in DenseNet-121
    blocks: tuple[Annotated[int, Field(ge=1, le=64)], ...] = (2, 2, 2),  # layers; (6, 12, 24, 16)
    times: Annotated[int, Field(ge=1, le=64)] = 4,  # the growth, between both convolutions
    stem: Stem = "small",  # "large": 7x7 and a max pool, for large images
) -> nn.Module:
    """Blocks of layers, a mean over pixels, a linear layer."""
    layers, before = plain_stem(image[0], channels, stem), channels
    for at, count in enumerate(blocks):
        name = f"block{at + 1}"
        layers.append(Block(name, before, count, growth, times))
        sources = [before, *[growth] * count]
        before = sum(sources)
        if at < len(blocks) - 1:
            layers.append(Links(f"{name}-end", sources, before // 2))
            layers.append(nn.AvgPool2d(2, ceil_mode=True))  # an odd side as with a stride
            before //= 2
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes)]
    return nn.Sequential(*layers, Joined(), nn.BatchNorm2d(before), nn.ReLU(), *head)


class Block(nn.Module):
    """Layers that each read the block's input and all layers before them; gives all of these."""

    def __init__(self, name: str, inputs: int, count: int, growth: int, times: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for at in range(count):
            place, inner = f"{name}-layer{at + 1}", times * growth
            links = Links(place, [inputs, *[growth] * at], inner)
            choice = reads(f"{place}-3x3", inner)
            conv = nn.Conv2d(inner, growth, 3, padding=1, bias=False)
            norm = nn.BatchNorm2d(inner)
            self.layers.append(nn.Sequential(links, norm, nn.ReLU(), choice, conv))

    def forward(self, x: Tensor) -> list[Tensor]:
        given = [x]
        for layer in self.layers:
            given.append(layer(given))
        return given


class Links(nn.Module):
    """A 1x1 convolution over several tensors, as the sum of one for each; some may be left out."""

    def __init__(self, name: str, sources: Sequence[int], outputs: int) -> None:
        super().__init__()
        made: dict[str, nn.Module] = {}
        for at, width in enumerate(sources):
            choice = reads(f"{name}-from{at}", width, none=True)
            conv = nn.Conv2d(width, outputs, 1, bias=False)
            made[f"from{at}"] = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), choice, conv)
        self.links = Mixed(tuple(made), made)

    def forward(self, given: Sequence[Tensor]) -> Tensor:
        there = self.links.candidates.items()
        parts = [link(given[int(name.removeprefix("from"))]) for name, link in there]
        return sum(parts[1:], parts[0])  # type: ignore[no-any-return]


class Joined(nn.Module):
    """Tensors side by side."""

    def forward(self, given: Sequence[Tensor]) -> Tensor:
        return torch.cat([*given], 1)
