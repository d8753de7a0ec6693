"""The DARTS supernet as people write it: eager, contiguous, one candidate after another.

The yardstick of `ardor bench speed`. It is held to be faithful by a test that copies the weights of
Ardor's supernet into it, in order, and compares logits, gradients and the number of parameters.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer


def norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, affine=False, track_running_stats=False)


class FactorizedReduce(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs // 2, 1, stride=2, bias=False)
        self.second = nn.Conv2d(inputs, outputs // 2, 1, stride=2, bias=False)
        self.norm = norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        halves = [self.first(x), self.second(x[:, :, 1:, 1:])]
        return self.norm(torch.cat(halves, 1))  # type: ignore[no-any-return]


def relu_conv_norm(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.ReLU(), nn.Conv2d(inputs, outputs, 1, bias=False), norm(outputs))


def depthwise(c: int, size: int, stride: int, dilation: int) -> list[nn.Module]:
    padding = dilation * (size // 2)
    return [
        nn.ReLU(),
        nn.Conv2d(c, c, size, stride, padding, dilation, groups=c, bias=False),
        nn.Conv2d(c, c, 1, bias=False),
        norm(c),
    ]


class Zero(nn.Module):
    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, :: self.stride, :: self.stride] * 0.0


def candidates(c: int, stride: int) -> nn.ModuleList:
    """DARTS's eight operations in its order."""
    average = nn.AvgPool2d(3, stride, padding=1, count_include_pad=False)
    return nn.ModuleList(
        [
            Zero(stride),
            nn.Sequential(nn.MaxPool2d(3, stride, padding=1), norm(c)),
            nn.Sequential(average, norm(c)),
            nn.Identity() if stride == 1 else FactorizedReduce(c, c),
            nn.Sequential(*depthwise(c, 3, stride, 1), *depthwise(c, 3, 1, 1)),
            nn.Sequential(*depthwise(c, 5, stride, 1), *depthwise(c, 5, 1, 1)),
            nn.Sequential(*depthwise(c, 3, stride, 2)),
            nn.Sequential(*depthwise(c, 5, stride, 2)),
        ]
    )


def mixed(candidates: nn.Module, x: Tensor, weights: Tensor) -> Tensor:
    ops = zip(weights, candidates.children(), strict=True)
    return sum(weight * op(x) for weight, op in ops)  # type: ignore[no-any-return]


class Cell(nn.Module):
    def __init__(self, before: int, last: int, c: int, *, reduce: bool, halved: bool) -> None:
        super().__init__()
        self.inputs = nn.ModuleList(
            [
                FactorizedReduce(before, c) if halved else relu_conv_norm(before, c),
                relu_conv_norm(last, c),
            ]
        )
        self.edges = nn.ModuleList(
            candidates(c, 2 if reduce and source < 2 else 1)
            for node in range(4)
            for source in range(2 + node)
        )

    def forward(self, before: Tensor, last: Tensor, weights: Tensor) -> Tensor:
        states = [self.inputs[0](before), self.inputs[1](last)]
        edge = 0
        for node in range(4):
            incoming = range(2 + node)
            states.append(
                sum(mixed(self.edges[edge + i], states[i], weights[edge + i]) for i in incoming)
            )
            edge += 2 + node
        return torch.cat(states[2:], 1)


class PlainDarts(nn.Module):
    """The supernet, by default of eight cells of sixteen channels."""

    def __init__(self, *, channels: int = 16, layout: str = "NNRNNRNN", classes: int = 10) -> None:
        super().__init__()
        width = 3 * channels
        stem_norm = nn.BatchNorm2d(width, track_running_stats=False)
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), stem_norm)
        before = last = width
        halved, cells = False, []
        for kind in layout:
            reduce = kind == "R"
            channels *= 2 if reduce else 1
            cells.append(Cell(before, last, channels, reduce=reduce, halved=halved))
            before, last, halved = last, 4 * channels, reduce
        self.cells, self.layout = nn.ModuleList(cells), layout
        self.classify = nn.Linear(last, classes)

    def forward(self, images: Tensor, normal: Tensor, reduce: Tensor) -> Tensor:
        """`normal` and `reduce` are (14, 8): softmax weights of every edge."""
        before = last = self.stem(images)
        for kind, cell in zip(self.layout, self.cells, strict=True):
            before, last = last, cell(before, last, reduce if kind == "R" else normal)
        features = F.adaptive_avg_pool2d(last, 1).flatten(1)
        return self.classify(features)  # type: ignore[no-any-return]


def weight_step(
    net: PlainDarts, optimiser: Optimizer, batch: tuple[Tensor, Tensor], logits: list[Tensor]
) -> None:
    """A step of the weights; it also computes the gates' gradients, as DARTS's own code does."""
    images, labels = batch
    optimiser.zero_grad()
    normal, reduce = (each.softmax(-1) for each in logits)
    F.cross_entropy(net(images, normal, reduce), labels).backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    optimiser.step()
