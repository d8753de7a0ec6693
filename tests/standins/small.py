"""A module without choices, as a person has it: a residual block, a depthwise layer, an answer."""

from torch import Tensor, nn


def build(image: tuple[int, int, int], classes: int, *, channels: int = 6) -> nn.Module:
    return Small(image[0], classes, channels)


class Small(nn.Module):
    """Three convolutions, one of them within a block that another path passes by."""

    def __init__(self, inputs: int, classes: int, channels: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(inputs, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.inner = nn.Conv2d(channels, channels, 3, padding=1)
        self.outer = nn.Conv2d(channels, channels, 1)
        self.deep = nn.Conv2d(channels, channels, 3, groups=channels)
        self.wide = nn.Linear(channels, 2 * channels)
        self.head = nn.Linear(2 * channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.norm(self.stem(images)).relu()
        x = self.deep(x + self.outer(self.inner(x).relu()))
        return self.head(self.wide(x.mean((2, 3))).relu())
