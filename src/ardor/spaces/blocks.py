"""What people write by hand, made a choice: stages of blocks, how each halves the image, widths.

Each stage halves the image, by a max pool after or before a convolution or by its stride, and then
has a few blocks, each of which may be left out: so depth is decided too. Any channels may leave.
"""

from collections.abc import Mapping
from typing import Annotated, cast

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ardor.errors import ArdorError
from ardor.layers.blocks import Chain
from ardor.layers.choices import LayerChoice, WidthChoice
from ardor.layers.convolutions import SeparableBlock
from ardor.layers.mixed import Terms, add_up

Widths = tuple[Annotated[int, Field(ge=2, le=4096)], ...]
Depth = Annotated[int, Field(ge=0, le=32)]

USUAL = (16, 32, 48, 64)
SMALL, LARGE = 16, 40  # pixels of a side


def build(
    image: tuple[int, int, int],
    classes: int,
    *,
    widths: Widths = (),  # channels of each stage, before any leave; (): by the size of the images
    depth: Depth = 1,  # most blocks of a stage after the one that halves the image
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,  # before the last layer
) -> nn.Module:
    """Stages of blocks, the mean over pixels, and a linear layer."""
    widths = widths or usual(image)
    check(image, widths)
    layers: list[nn.Module] = []
    before = image[0]
    for at, width in enumerate(widths, 1):
        layers.append(beginning(at, before, width, small=min(image[1:]) < SMALL))
        layers += [LayerChoice(blocks(width), name=f"stage{at}-block{n + 1}") for n in range(depth)]
        layers.append(WidthChoice(width, name=f"stage{at}-width"))
        before = width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(before, classes)]
    return nn.Sequential(*layers, *head)


def beginning(stage: int, inputs: int, outputs: int, *, small: bool) -> nn.Module:
    """What halves the image; a small one is not halved at once, as little would be left of it."""
    if small and stage == 1:
        return nn.Sequential(conv(inputs, outputs, 3), nn.ReLU())
    return LayerChoice(halving(inputs, outputs), name=f"stage{stage}-half")


def usual(image: tuple[int, int, int]) -> tuple[int, ...]:
    """A stage more from 40 pixels a side on."""
    return USUAL[: min(stages(image), 3 if min(image[1:]) < LARGE else 4)]


def check(image: tuple[int, int, int], widths: tuple[int, ...]) -> None:
    """An ArdorError unless the image can be halved in every stage."""
    most = stages(image)
    if not 1 <= len(widths) <= most:
        raise ArdorError(
            f"space.widths = {widths} has {len(widths)} stages; must be from 1 to {most} for "
            f"images of {image[1]}x{image[2]}",
            "each stage halves the image",
        )


def stages(image: tuple[int, int, int]) -> int:
    """How often an image can be halved."""
    return max(1, (min(image[1:]) - 1).bit_length())


def halving(inputs: int, outputs: int) -> Mapping[str, nn.Module]:
    """The ways to halve an image and to bring it to so many channels."""
    return {
        "3x3-pool": nn.Sequential(conv(inputs, outputs, 3), nn.ReLU(), pool()),
        "pool-3x3": nn.Sequential(pool(), conv(inputs, outputs, 3), nn.ReLU()),
        "pool-sep-3x3": nn.Sequential(
            pool(), depthwise(inputs), conv(inputs, outputs, 1), nn.ReLU()
        ),
        "stride-3x3": nn.Sequential(conv(inputs, outputs, 3, 2), nn.ReLU()),
        "stride-pair": Pair(inputs, outputs, 2),
    }


def blocks(width: int) -> Mapping[str, nn.Module]:
    """What may stand at a place of a stage; "skip" is nothing at all."""
    return {
        "skip": nn.Identity(),
        "3x3": nn.Sequential(conv(width, width, 3), nn.ReLU()),
        "5x5": nn.Sequential(conv(width, width, 5), nn.ReLU()),
        "sep-3x3": Around(separable(width, 3)),
        "sep-5x5": Around(separable(width, 5)),
        "added-3x3": Around(conv(width, width, 3), nn.ReLU()),
        "expand-3": Around(*bottleneck(width, 3)),
        "expand-6": Around(*bottleneck(width, 6)),
        "pair": Pair(width, width, 1),
    }


def conv(inputs: int, outputs: int, size: int, stride: int = 1, *, groups: int = 1) -> nn.Module:
    """A convolution and its BatchNorm."""
    made = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(made, nn.BatchNorm2d(outputs))


def depthwise(width: int) -> nn.Conv2d:
    """A 3x3 convolution of each channel by itself."""
    return nn.Conv2d(width, width, 3, 1, 1, groups=width, bias=False)


def pool() -> nn.Module:
    """The largest of two by two pixels; an odd side gives the size that a stride of two gives."""
    return nn.MaxPool2d(2, ceil_mode=True)


def separable(width: int, size: int) -> Chain:
    """Each channel by itself, then all of them mixed pixel by pixel: in native code."""
    depthwise = nn.Conv2d(width, width, size, 1, size // 2, groups=width, bias=False)
    pointwise, norm = nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width)
    return Chain(SeparableBlock(depthwise, pointwise, norm, relu_last=True))


def bottleneck(width: int, times: int) -> list[nn.Module]:
    """An inverted bottleneck (Sandler et al. 2018): wide where each channel is by itself."""
    wide = times * width
    return [
        conv(width, wide, 1),
        nn.ReLU(),
        conv(wide, wide, 3, groups=wide),
        nn.ReLU(),
        conv(wide, width, 1),
    ]


class Around(nn.Module):
    """Layers around which the input goes, and is added to what they give."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers[0] if len(layers) == 1 else nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.layers, Chain):  # native code adds it up at once
            return cast(Tensor, add_up([Terms([(x, self.layers), (x, None)])]))
        return x + self.layers(x)  # type: ignore[no-any-return]


class Pair(nn.Module):
    """Two 3x3 convolutions around which the input goes (He et al. 2016)."""

    family = "conv"

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            conv(inputs, outputs, 3, stride), nn.ReLU(), conv(outputs, outputs, 3)
        )
        same = (inputs, stride) == (outputs, 1)
        self.around = nn.Identity() if same else conv(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.layers(x) + self.around(x))
