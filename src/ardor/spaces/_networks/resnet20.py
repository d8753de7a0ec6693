"""ResNet-20 for small images: three stages of 16, 32 and 64 channels (He et al. 2016, 4.2).

Where the channels change, the input goes around through a 1x1 convolution (the paper's option B):
272,474 weights for CIFAR-10, of which 2,752 are there.
"""

from typing import Annotated

from pydantic import Field
from torch import nn

from ardor.spaces._networks._residual import residual

STAGES = 3


def build(
    image: tuple[int, int, int],
    classes: int,
    *,
    channels: Annotated[int, Field(ge=1, le=4096)] = 16,  # of the first stage
    depth: Annotated[int, Field(ge=1, le=200)] = 3,  # blocks of each stage: 9 in ResNet-56
) -> nn.Module:
    """A 3x3 convolution, three stages of blocks, a mean over pixels, a linear layer."""
    return residual(image[0], classes, channels, [depth] * STAGES)
