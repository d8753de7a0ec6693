"""Parts of the super-networks of PGNAS: layers that decide which channels they read."""

from typing import Literal

import torch
from torch import Tensor, nn

from ardor.errors import ArdorError
from ardor.layers.choices import WidthChoice
from ardor.layers.mixed import Terms, add_up

Stem = Literal["small", "large"]


def check_kernels(kernels: tuple[int, ...], hint: str) -> None:
    """An ArdorError unless the sizes are odd, and each is there once."""
    if not kernels or len(set(kernels)) < len(kernels) or not all(size % 2 for size in kernels):
        raise ArdorError(
            f"space.kernels = {kernels} must be different odd numbers, at least one", hint
        )


def reads(name: str, channels: int, *, none: bool = False) -> WidthChoice:
    """Which channels the layer behind it reads; `none` if it may do without any."""
    return WidthChoice(channels, name=name, of="input", may_be_empty=none)


def chosen_stem(inputs: int, outputs: int) -> list[nn.Module]:
    """A 3x3 convolution and BN; where the image has one channel, there is nothing to choose."""
    conv = nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False)
    return [*([reads("stem-3x3", inputs)] if inputs > 1 else []), conv, nn.BatchNorm2d(outputs)]


def plain_stem(inputs: int, outputs: int, kind: Stem) -> list[nn.Module]:
    """A convolution, BN and ReLU; a large one, with a max pool, leaves a quarter of each side."""
    size, stride = (7, 2) if kind == "large" else (3, 1)
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    pool = [nn.MaxPool2d(3, 2, 1)] if kind == "large" else []
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU(), *pool]


class TwoPaths(nn.Module):
    """Two 1x1 convolutions side by side, of which the second sees the next pixel, and a BN."""

    def __init__(self, name: str, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        convs = [nn.Conv2d(inputs, n, 1, stride, bias=False) for n in (half, outputs - half)]
        self.first = nn.Sequential(reads(f"{name}1-1x1", inputs), convs[0])
        moved = nn.ZeroPad2d((-1, 1, -1, 1))  # by one pixel to the left and up
        self.second = nn.Sequential(moved, reads(f"{name}2-1x1", inputs), convs[1])
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(torch.cat([self.first(x), self.second(x)], 1))  # type: ignore[no-any-return]


def added(terms: Terms) -> Tensor:
    """The sum of what is always there."""
    total = add_up([terms])
    assert total is not None
    return total
