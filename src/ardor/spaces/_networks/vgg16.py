"""VGG-16 for small images: thirteen 3x3 convolutions with BatchNorm (Simonyan & Zisserman 2015).

One linear layer reads what the last pool leaves, in place of the paper's three. An odd side is
halved upwards by a pool, so that images may have any size.
"""

from math import ceil
from typing import Annotated

from pydantic import Field
from torch import nn

STAGES = ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))  # times the first channels; convolutions


def build(
    image: tuple[int, int, int],
    classes: int,
    *,
    channels: Annotated[int, Field(ge=1, le=4096)] = 64,  # of the first stage
) -> nn.Module:
    """Five stages of convolutions, a max pool behind each; a linear layer."""
    before, height, width = image
    layers: list[nn.Module] = []
    for times, count in STAGES:
        for _ in range(count):
            conv = nn.Conv2d(before, channels * times, 3, 1, 1, bias=False)
            layers += [conv, nn.BatchNorm2d(channels * times), nn.ReLU()]
            before = channels * times
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
        height, width = ceil(height / 2), ceil(width / 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * height * width, classes))
