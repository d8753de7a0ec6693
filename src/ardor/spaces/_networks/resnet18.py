"""ResNet-18 for small images: four stages of 64 to 512 channels (He et al. 2016).

The stem is a 3x3 convolution of stride 1 without a pool, in place of a 7x7 one of stride 2 with
one, as is usual for images such as CIFAR's.
"""

from typing import Annotated

from pydantic import Field
from torch import nn

from ardor.spaces._networks._residual import residual

STAGES, BLOCKS = 4, 2


def build(
    image: tuple[int, int, int],
    classes: int,
    *,
    channels: Annotated[int, Field(ge=1, le=4096)] = 64,  # of the first stage
) -> nn.Module:
    """A 3x3 convolution, four stages of two blocks, a mean over pixels, a linear layer."""
    return residual(image[0], classes, channels, [BLOCKS] * STAGES)
