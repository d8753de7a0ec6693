"""A block as of a DenseNet: each layer reads all that was there before, joined side by side."""

import torch
from torch import Tensor, nn


def build(
    image: tuple[int, int, int], classes: int, *, channels: int = 8, growth: int = 4, depth: int = 3
) -> nn.Module:
    return Joined(image[0], classes, channels, growth, depth)


class Joined(nn.Module):
    """A stem, layers of BN, ReLU and convolution, a BN and a linear layer behind tanh."""

    def __init__(self, inputs: int, classes: int, channels: int, growth: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(inputs, channels, 3, padding=1)
        widths = [channels + growth * at for at in range(depth)]
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths)
        self.convs = nn.ModuleList(nn.Conv2d(width, growth, 3, padding=1) for width in widths)
        self.hidden = nn.Linear(channels + growth * depth, 12)
        self.norm = nn.BatchNorm1d(12)
        self.classify = nn.Linear(12, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = torch.cat([x, conv(norm(x).relu())], 1)
        return self.classify(self.norm(self.hidden(x.mean((2, 3)))).tanh())  # type: ignore[no-any-return]
