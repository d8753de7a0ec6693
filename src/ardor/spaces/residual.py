"""Residual blocks of two branches, in which every layer decides which channels it reads.

This is the space of SupNet-M and SupNet-MI of PGNAS (Zhou et al. 2020): Shake-Shake (Gastaldi 2017)
in the form of PGNAS's code. A 3x3 convolution gives 16 channels; three stages of blocks follow,
each of twice the channels, and of half the pixels from the second on. A block adds to its input the
mean of two branches, each twice ReLU, 3x3 convolution, BN. Where a block changes the channels, its
input goes through two 1x1 convolutions side by side, the second one pixel further on, and a BN.

Before every convolution, and before the last layer, stands a choice of channels: those that this
layer reads. With one probability for each choice, these are the groups of PGNAS, a group for each
layer and kernel size: 56 with four blocks a stage. A layer of several kernel sizes adds up their
convolutions, each of which reads channels of its own; one that reads none is gone.

SupNet-M is channels = 96, MI channels = 160, with depth = 4, branches = "whole", shake = true:
26,192,922 and 72,695,194 weights for ten classes. The paper says that MI has twice the channels of
M; its 72.7M are those of 160.
"""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ardor.layers.choices import LayerChoice
from ardor.layers.mixed import Mixed, Terms
from ardor.layers.operations import ZERO
from ardor.spaces._reading import TwoPaths, added, check_kernels, chosen_stem, reads

STEM = 16  # channels before the first block
STAGES = 3
BRANCHES = 2

Channels = Annotated[int, Field(ge=2, le=4096)]
Kernels = tuple[Annotated[int, Field(ge=1, le=31)], ...]


def build(
    image: tuple[int, int, int],
    classes: int,
    *,
    channels: Channels = 16,  # of the first stage; 96 in SupNet-M, 160 in SupNet-MI
    depth: Annotated[int, Field(ge=1, le=64)] = 1,  # blocks of each stage; 4 in both
    kernels: Kernels = (3,),  # sizes of the convolutions that a layer of a branch adds up
    branches: Literal["chosen", "whole"] = "chosen",  # whether a branch may leave; "whole" in both
    shake: bool = False,  # random shares of the branches in training; true in both
) -> nn.Module:
    """Blocks of two branches, a mean over pixels, a linear layer."""
    check_kernels(
        kernels, "an even size would move the image by half a pixel; the paper has 3 alone"
    )
    layers: list[nn.Module] = chosen_stem(image[0], STEM)
    before = STEM
    for at in range(STAGES * depth):
        width, stride = channels * 2 ** (at // depth), 2 if at and at % depth == 0 else 1
        name = f"block{at + 1}"
        made = {
            f"branch{n}": branch(f"{name}-branch{n}", before, width, kernels, stride)
            for n in range(1, BRANCHES + 1)
        }
        mean = ChosenMean(made, name, shake) if branches == "chosen" else Mean(made, shake)
        same = (before, stride) == (width, 1)
        around = nn.Identity() if same else TwoPaths(f"{name}-skip", before, width, stride)
        layers.append(Block(mean, around))
        before = width
    pool = [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *pool, reads("head", before), nn.Linear(before, classes))


def branch(name: str, inputs: int, outputs: int, kernels: Kernels, stride: int) -> nn.Module:
    """ReLU, convolutions and BN, twice; the first convolutions have the stride."""
    return nn.Sequential(
        nn.ReLU(),
        Convolutions(f"{name}-first", inputs, outputs, kernels, stride),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        Convolutions(f"{name}-second", outputs, outputs, kernels, 1),
        nn.BatchNorm2d(outputs),
    )


class Convolutions(nn.Module):
    """The sum of convolutions of several kernel sizes, each with its own channels to read."""

    def __init__(self, name: str, inputs: int, outputs: int, kernels: Kernels, stride: int) -> None:
        super().__init__()
        made: dict[str, nn.Module] = {}
        for size in kernels:
            conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
            key = f"{size}x{size}"
            made[key] = nn.Sequential(reads(f"{name}-{key}", inputs, none=True), conv)
        self.sizes = Mixed(tuple(made), made)

    def forward(self, x: Tensor) -> Tensor:
        return added(self.sizes(x))


class Block(nn.Module):
    """What the branches give, added to what goes around them."""

    def __init__(self, mean: nn.Module, around: nn.Module) -> None:
        super().__init__()
        self.mean, self.around = mean, around

    def forward(self, x: Tensor) -> Tensor:
        return self.around(x) + self.mean(x)  # type: ignore[no-any-return]


class Mean(nn.Module):
    """The mean of all branches."""

    def __init__(self, branches: dict[str, nn.Module], shake: bool) -> None:
        super().__init__()
        self.mixed, self.shake = Mixed(tuple(branches), branches), shake

    def forward(self, x: Tensor) -> Tensor:
        return averaged(self.mixed(x), shaken=self.shake and self.training)


class ChosenMean(LayerChoice):
    """The mean of the branches that stay, and of zeros for the others."""

    def __init__(self, branches: dict[str, nn.Module], name: str, shake: bool) -> None:
        super().__init__({**branches, ZERO: None}, name=name)
        self.shake = shake

    def total(self, terms: Terms) -> Tensor | None:
        shaken = self.shake and self.training
        return averaged(terms, shaken=shaken) if terms.parts else None


def averaged(branches: Terms, *, shaken: bool) -> Tensor:
    """Half of each branch; in training perhaps random shares of every image instead.

    Other shares lead back than forward (Gastaldi 2017, "Shake-Shake-Image").
    """
    if not shaken:
        return added(branches) / BRANCHES
    x, count = branches.parts[0][0], len(branches.parts)
    forward, backward = (shares(x)[:, :count] for _ in range(2))
    learned = added(branches.each_under(backward))
    return learned + (added(branches.each_under(forward)) - learned).detach()


def shares(x: Tensor) -> Tensor:
    """Uniform numbers divided by their sum, (batch, branches)."""
    drawn = torch.rand(x.shape[0], BRANCHES, dtype=x.dtype, device=x.device)
    return drawn / drawn.sum(1, keepdim=True)
