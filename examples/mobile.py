"""A search space of one's own: inverted bottlenecks as in MobileNet, and which depths are read.

ardor run photos/ --space examples.mobile --set space.channels=24
"""

import torch
from torch import Tensor, nn

import ardor


def build(
    image: tuple[int, int, int], classes: int, *, channels: int = 16, depth: int = 4
) -> nn.Module:
    """A stem, layers that each are one of four blocks, and a head."""
    return Mobile(image[0], classes, channels, depth)


class Mobile(nn.Module):
    """Every layer reads the one before it; the head reads two of all depths, added up."""

    def __init__(self, inputs: int, classes: int, channels: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(*conv(inputs, channels, 3, stride=2), nn.ReLU())
        self.layers = nn.ModuleList(choice(channels, f"layer{i}") for i in range(depth))
        self.read = ardor.InputChoice(depth + 1, name="read", keep=2)
        self.head = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        depths = [self.stem(images)]
        for layer in self.layers:
            depths.append(layer(depths[-1]))
        return self.head(torch.relu(self.read(*depths)).mean((2, 3)))


def choice(channels: int, name: str) -> ardor.LayerChoice:
    """One of four: nothing to be learned, a plain convolution, a bottleneck of either window."""
    candidates = {
        "skip": nn.Identity(),
        "conv3": nn.Sequential(*conv(channels, channels, 3), nn.ReLU()),
        "mb3": bottleneck(channels, 3),
        "mb5": bottleneck(channels, 5),
    }
    return ardor.LayerChoice(candidates, name=name)


def bottleneck(channels: int, size: int, wider: int = 3) -> nn.Module:
    """Wider, every channel by itself, and back."""
    wide = wider * channels
    return nn.Sequential(
        *(*conv(channels, wide, 1), nn.ReLU()),
        *(*conv(wide, wide, size, groups=wide), nn.ReLU()),
        *conv(wide, channels, 1),
    )


def conv(inputs: int, outputs: int, size: int, **settings: int) -> tuple[nn.Module, nn.Module]:
    """A convolution and its BatchNorm."""
    layer = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False, **settings)
    return layer, nn.BatchNorm2d(outputs)
