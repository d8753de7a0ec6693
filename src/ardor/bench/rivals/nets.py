"""The networks that people write by hand, as they write them: plain torch, nothing of Ardor's."""

import torch.nn.functional as F
from torch import Tensor, nn

Shape = tuple[int, int, int]  # channels, height, width

SMALL = 40  # pixels of a side, below which three blocks are enough
DROPOUT = 0.2


def cnn(image: Shape, classes: int) -> nn.Module:
    """Blocks of 3x3 convolution, BatchNorm, ReLU and a pool by two; the mean; a linear map."""
    widths = (16, 32, 64) if min(image[1:]) < SMALL else (16, 32, 64, 64)
    layers: list[nn.Module] = []
    before = image[0]
    for width in widths:
        layers += [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
        before = width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(DROPOUT), nn.Linear(before, classes)]
    return nn.Sequential(*layers, *head)


def residual(image: Shape, classes: int) -> nn.Module:
    """A stem that halves the image and three residual pairs of 16, 24 and 32 channels."""
    # Images of digits' size are not halved at once: nothing would be left of them.
    stride = 2 if min(image[1:]) > 16 else 1
    layers: list[nn.Module] = [
        nn.Conv2d(image[0], 16, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
    ]
    for before, width, step in ((16, 16, 1), (16, 24, 2), (24, 32, 2)):
        layers.append(Pair(before, width, step))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes))


class Pair(nn.Module):
    """Two 3x3 convolutions around which the input goes (He et al. 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.pair = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.around: nn.Module = nn.Identity()
        if (inputs, stride) != (outputs, 1):
            widen = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.around = nn.Sequential(widen, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.pair(x) + self.around(x))
