"""ResNet with bottlenecks whose 3x3 convolutions are parted into several kernel sizes.

This is the space of SupNet-R-50 of PGNAS (Zhou et al. 2020): ResNet-50 (He et al. 2016) in which
four convolutions stand in place of every 3x3 one, 1x1, 3x3, 5x5 and 9x9. Each gives a quarter of
the channels, and these stand side by side. 5x5 and 9x9 are convolutions of 3x3 and 5x5 that leave
out every second pixel. A block is 1x1 convolution, BN, ReLU, the parallel ones, BN, ReLU, 1x1
convolution to four times the channels, BN, added to its input; where a stage begins, that goes
through a 1x1 convolution and BN. The stride is that of the parallel ones.

Before each of the parallel convolutions stands a choice of the channels that it reads, and it may
read none: as in the authors' count of weights, only these have drop probabilities, 64 in all.

ResNet-50 is channels = 64, inner = 64, blocks = (3, 4, 6, 3), kernels = (3,), stem = "large":
25,557,032 weights for a thousand classes, the paper's 25.6M. With kernels = (1, 3, 5, 9) and no
other change it has 28,071,976. The paper prints 44.0M and does not say what is wider. Twice the
channels behind the parallel convolutions alone would give 46.9M; here all between both 1x1
convolutions are wider: inner = 88, the multiple of four that comes nearest, has 43,906,696.
"""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from ardor.errors import ArdorError
from ardor.spaces._reading import Stem, check_kernels, plain_stem, reads

TIMES = 4  # as many channels between blocks as in the first stage's stem
# Kernel size -> that of the convolution that imitates it, leaving out every second pixel.
DILATED = {5: 3, 9: 5}

Channels = Annotated[int, Field(ge=2, le=4096)]


def build(
    image: tuple[int, int, int],
    classes: int,
    *,
    channels: Channels = 16,  # of the first convolution; 64 in ResNet-50
    inner: Channels = 16,  # between the 1x1 convolutions of the first stage; 64, or 88 if parted
    blocks: tuple[Annotated[int, Field(ge=1, le=64)], ...] = (1, 1, 1),  # (3, 4, 6, 3) in ResNet-50
    kernels: tuple[Annotated[int, Field(ge=1, le=31)], ...] = (1, 3, 5, 9),  # (3,) in ResNet-50
    stem: Stem = "small",  # "large": 7x7 and a max pool, for large images
) -> nn.Module:
    """Stages of blocks, each of twice the channels, a mean over pixels, a linear layer."""
    check(inner, kernels)
    layers, before = plain_stem(image[0], channels, stem), channels
    for stage, count in enumerate(blocks):
        for at in range(count):
            stride, name = 2 if stage and not at else 1, f"stage{stage + 1}-block{at + 1}"
            outputs = TIMES * channels * 2**stage
            layers.append(Block(name, (before, inner * 2**stage, outputs), kernels, stride))
            before = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def check(inner: int, kernels: tuple[int, ...]) -> None:
    """An ArdorError unless the sizes are odd, each is there once, and each has a channel."""
    check_kernels(kernels, "(3,) is ResNet, (1, 3, 5, 9) is PGNAS's")
    if inner < len(kernels):
        raise ArdorError(
            f"space.inner = {inner} must be at least {len(kernels)}, as many as kernels",
            "each has a channel then; ResNet-50 has 64",
        )


class Block(nn.Module):
    """Parallel convolutions between 1x1 convolutions, added to what comes in."""

    def __init__(
        self, name: str, widths: tuple[int, int, int], kernels: tuple[int, ...], stride: int
    ) -> None:
        super().__init__()
        inputs, inner, outputs = widths
        self.deep = nn.Sequential(
            *pointwise(inputs, inner),
            nn.ReLU(),
            Parallel(name, inner, kernels, stride),
            nn.BatchNorm2d(inner),
            nn.ReLU(),
            *pointwise(inner, outputs),
        )
        same = (inputs, 1) == (outputs, stride)
        self.around = nn.Identity() if same else nn.Sequential(*pointwise(inputs, outputs, stride))

    def forward(self, x: Tensor) -> Tensor:
        return (self.around(x) + self.deep(x)).relu()  # type: ignore[no-any-return]


def pointwise(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    """A 1x1 convolution and BN."""
    return [nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)]


class Parallel(nn.Module):
    """Convolutions side by side, which share out the channels and read some of them each."""

    def __init__(self, name: str, channels: int, kernels: tuple[int, ...], stride: int) -> None:
        super().__init__()
        ends = [channels * at // len(kernels) for at in range(len(kernels) + 1)]
        self.convs = nn.ModuleList(
            nn.Sequential(
                reads(f"{name}-{size}x{size}", channels, none=True),
                conv(channels, end - start, size, stride),
            )
            for size, start, end in zip(kernels, ends, ends[1:], strict=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([conv(x) for conv in self.convs], 1)


def conv(inputs: int, outputs: int, size: int, stride: int) -> nn.Conv2d:
    """A convolution that sees as far as one of this size."""
    kernel = DILATED.get(size, size)
    step = 2 if size in DILATED else 1
    pad = size // 2
    return nn.Conv2d(inputs, outputs, kernel, stride, pad, dilation=step, bias=False)
