"""A space with choices of every kind inside the options of others, and two copies of them all."""

from torch import Tensor, nn

import ardor


def build(image: tuple[int, int, int], classes: int, *, channels: int = 4) -> nn.Module:
    layers = [conv(image[0], channels, 3), *(Around(outer(channels)) for _ in range(2))]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return nn.Sequential(*layers, after(channels), *head)


class Around(nn.Module):
    """Layers around which the input goes."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


def outer(channels: int) -> ardor.LayerChoice:
    """Nothing, a convolution, or two choices in a row with channels between that may leave."""
    deep = nn.Sequential(
        conv(channels, channels, 1),
        ardor.LayerChoice(
            {"pool": nn.MaxPool2d(3, 1, 1), "deeper": Deeper(channels)}, name="inner"
        ),
        ardor.WidthChoice(channels, name="width"),
        last(channels),
    )
    plain = conv(channels, channels, 3)
    return ardor.LayerChoice({"none": None, "plain": plain, "deep": deep}, name="outer")


def last(channels: int) -> ardor.LayerChoice:
    convs = {"conv": conv(channels, channels, 3), "point": conv(channels, channels, 1)}
    return ardor.LayerChoice({"none": None, **convs}, name="last")


class Deeper(nn.Module):
    """One of two inputs, neither of which is the image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.ways = nn.ModuleList(conv(channels, channels, size) for size in (1, 3))
        self.join = ardor.InputChoice(2, name="join")

    def forward(self, x: Tensor) -> Tensor:
        return self.join(*(way(x) for way in self.ways))


def after(channels: int) -> ardor.LayerChoice:
    return ardor.LayerChoice(
        {"skip": nn.Identity(), "conv": conv(channels, channels, 3)}, name="after"
    )


def conv(inputs: int, outputs: int, size: int) -> nn.Module:
    layer = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())
