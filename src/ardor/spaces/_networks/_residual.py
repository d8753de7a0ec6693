"""Residual networks of plain blocks, as the two that have names (He et al. 2016)."""

from collections.abc import Sequence

from torch import Tensor, nn


def residual(inputs: int, classes: int, channels: int, blocks: Sequence[int]) -> nn.Module:
    """A 3x3 convolution, stages of blocks, each of twice the channels, a mean and a linear layer.

    From the second stage on, the first block halves the image.
    """
    layers: list[nn.Module] = [*normalised(inputs, channels, 3), nn.ReLU()]
    before = channels
    for stage, count in enumerate(blocks):
        for at in range(count):
            width, stride = channels * 2**stage, 2 if stage and not at else 1
            layers.append(Block(before, width, stride))
            before = width
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *pool, nn.Linear(before, classes))


class Block(nn.Module):
    """Two 3x3 convolutions, added to the input: as it is, or through a 1x1 convolution.

    The latter, where the channels change, is option B of the paper.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        first = normalised(inputs, outputs, 3, stride)
        self.convs = nn.Sequential(*first, nn.ReLU(), *normalised(outputs, outputs, 3))
        same = (inputs, stride) == (outputs, 1)
        self.around = (
            nn.Identity() if same else nn.Sequential(*normalised(inputs, outputs, 1, stride))
        )
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.convs(x) + self.around(x))  # type: ignore[no-any-return]


def normalised(inputs: int, outputs: int, size: int, stride: int = 1) -> tuple[nn.Module, ...]:
    """A convolution, and the BatchNorm behind it."""
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return conv, nn.BatchNorm2d(outputs)
