"""LeNet-5 as in Caffe: 20 and 50 maps, 500 units (after LeCun et al. 1998).

Convolutions are without padding, and each has a ReLU, as where it is pruned in the literature
(Louizos et al. 2017 and 2018); Caffe itself has only the ReLU behind the 500 units.
"""

from typing import Annotated

from pydantic import Field
from torch import nn

from ardor.errors import ArdorError

SMALLEST = 16  # pixels of a side of which the second pool leaves one

Width = Annotated[int, Field(ge=1, le=100_000)]


def build(
    image: tuple[int, int, int],
    classes: int,
    *,
    maps: tuple[Width, Width] = (20, 50),  # of the two convolutions
    units: Width = 500,  # of the hidden layer
) -> nn.Module:
    """Two 5x5 convolutions, each with ReLU and a max pool; a hidden layer, a linear layer."""
    channels, *sides = image
    if min(sides) < SMALLEST:
        raise ArdorError(
            f"images for lenet5 have {sides[0]}x{sides[1]} pixels; "
            f"must have at least {SMALLEST}x{SMALLEST}",
            f"enlarge them: --set data.size={SMALLEST}, or take a network such as resnet20",
        )
    height, width = (((side - 4) // 2 - 4) // 2 for side in sides)
    return nn.Sequential(
        nn.Conv2d(channels, maps[0], 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(maps[0], maps[1], 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(maps[1] * height * width, units),
        nn.ReLU(),
        nn.Linear(units, classes),
    )
