"""A space that a function builds: every kind of choice, two of them under one name."""

from torch import Tensor, nn

import ardor


def build(
    image: tuple[int, int, int], classes: int, *, channels: int = 4, wide: bool = False
) -> nn.Module:
    return Built(image[0], classes, 2 * channels if wide else channels)


class Built(nn.Module):
    """Half the image, two residual layers that are decided as one, and a sum to be chosen."""

    def __init__(self, inputs: int, classes: int, channels: int) -> None:
        super().__init__()
        self.stem = conv(inputs, channels, 3)
        self.width = ardor.WidthChoice(channels, name="width")
        halves = {
            "conv": conv(channels, channels, 3, stride=2),
            "pool": nn.MaxPool2d(2, ceil_mode=True),
            "point": conv(channels, channels, 1, stride=2),
        }
        self.halve = ardor.LayerChoice(halves, name="halve")
        self.bodies = nn.ModuleList(body(channels) for _ in range(2))
        self.join = ardor.InputChoice(["before", "first", "second"], name="join", keep=2)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
        )

    def forward(self, images: Tensor) -> Tensor:
        x = self.halve(self.width(self.stem(images)))
        first = x + self.bodies[0](x)
        second = first + self.bodies[1](first)
        return self.head(self.join(x, first, second))


def body(channels: int) -> ardor.LayerChoice:
    candidates = {
        "none": None,
        "conv": conv(channels, channels, 3),
        "deep": nn.Sequential(conv(channels, 6, 1), conv(6, channels, 3)),
    }
    return ardor.LayerChoice(candidates, name="body")


def conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )
