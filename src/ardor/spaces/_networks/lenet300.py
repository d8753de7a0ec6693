"""LeNet-300-100: two hidden layers of 300 and 100 units (LeCun et al. 1998)."""

from math import prod
from typing import Annotated

from pydantic import Field
from torch import nn

Units = Annotated[int, Field(ge=1, le=100_000)]


def build(
    image: tuple[int, int, int],
    classes: int,
    *,
    hidden: tuple[Units, ...] = (300, 100),  # units of the hidden layers
) -> nn.Module:
    """Linear layers over all pixels, with ReLU between them."""
    layers: list[nn.Module] = [nn.Flatten()]
    before = prod(image)
    for units in hidden:
        layers += [nn.Linear(before, units), nn.ReLU()]
        before = units
    return nn.Sequential(*layers, nn.Linear(before, classes))
