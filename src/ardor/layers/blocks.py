"""Blocks, something and its normalisation, and chains of blocks: what candidates are made of."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.layers.variational import Variational, samples_weights
from ardor.native import kernels
from ardor.native.kernels import NO_VARIANCE

Pool = nn.MaxPool2d | nn.AvgPool2d


class Block(nn.Module, ABC):
    """Part of a candidate that kernels.py knows."""

    @abstractmethod
    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        """What kernels.py must know of it at its place in a chain."""

    @abstractmethod
    def native(self) -> bool:
        """Whether kernels.py computes the same."""

    def weights(self) -> list[Tensor]:
        """What `kernels.Shape.slots` names."""
        return []


class Normalised(Block):
    """Something, normalised; rectified before (DARTS) or after (VINNAS)."""

    def __init__(self, norm: nn.BatchNorm2d, *, relu_last: bool) -> None:
        super().__init__()
        self.norm, self.relu_last = norm, relu_last

    def weights(self) -> list[Tensor]:
        return [self.norm.weight, self.norm.bias] if self.norm.affine else []

    def native(self) -> bool:
        """It does so by the statistics of the batch."""
        return self.norm.training or self.norm.running_mean is None

    @property
    def remembers(self) -> bool:
        """Whether a batch moves its running statistics."""
        return self.norm.training and self.norm.running_mean is not None

    @torch.no_grad()
    def remember_(self, mean: Tensor, spread: Tensor, count: int) -> None:
        """Moves the running statistics as BatchNorm does."""
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        share = 0.1 if norm.momentum is None else norm.momentum
        variance = (
            (spread.square().reciprocal() - norm.eps).clamp_min(0) * count / max(count - 1, 1)
        )
        norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), share)
        norm.running_var.lerp_(variance.to(norm.running_var.dtype), share)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked += 1


class SeparableBlock(Normalised):
    """Depthwise, pointwise, normalised."""

    def __init__(
        self, depthwise: nn.Conv2d, pointwise: nn.Conv2d, norm: nn.BatchNorm2d, *, relu_last: bool
    ) -> None:
        super().__init__(norm, relu_last=relu_last)
        self.depthwise, self.pointwise = depthwise, pointwise

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.relu_last else F.relu(x)
        x = self.norm(self.pointwise(self.depthwise(x)))
        return F.relu(x) if self.relu_last else x

    def native(self) -> bool:
        # A pruned one may be narrower in between, which the native code does not know.
        return super().native() and self.pointwise.in_channels == self.pointwise.out_channels

    def weights(self) -> list[Tensor]:
        pairs = zip(convolution(self.depthwise), convolution(self.pointwise), strict=True)
        return [*(weight for pair in pairs for weight in pair), *super().weights()]

    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        return kernels.Shape(
            self.depthwise.kernel_size[0],
            self.depthwise.stride[0],
            self.depthwise.dilation[0],
            relu=not (first and self.relu_last),
            relu_last=last and self.relu_last,
            samples_weights=samples_weights(self.depthwise),
            affine=self.norm.affine,
            eps=self.norm.eps,
        )


class PointwiseBlock(Normalised):
    """Rectified, mixed across channels, normalised."""

    def __init__(self, pointwise: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__(norm, relu_last=False)
        self.pointwise = pointwise

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.pointwise(F.relu(x)))  # type: ignore[no-any-return]

    def weights(self) -> list[Tensor]:
        return [*convolution(self.pointwise), *super().weights()]

    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        return mixing_shape(self.pointwise, self.norm)


class WholeBlock(Normalised):
    """Rectified, convolved across pixels and channels at once, normalised."""

    def __init__(self, conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__(norm, relu_last=False)
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(F.relu(x)))  # type: ignore[no-any-return]

    def native(self) -> bool:
        alike = self.conv.in_channels == self.conv.out_channels
        return super().native() and alike and not samples_weights(self.conv)

    def weights(self) -> list[Tensor]:
        return [*convolution(self.conv), *super().weights()]

    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        return mixing_shape(self.conv, self.norm)


class FactorizedReduce(Normalised):
    """Halves the image without dropping pixels: two strided 1x1 convolutions, one shifted."""

    def __init__(self, even: nn.Conv2d, odd: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__(norm, relu_last=False)
        self.even, self.odd = even, odd

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        # An odd side is padded, so that both halves have the size of any other strided operation.
        shifted = F.pad(x, (-1, x.shape[3] % 2, -1, x.shape[2] % 2))
        joined: Tensor = self.norm(torch.cat([self.even(x), self.odd(shifted)], 1))
        return joined

    def weights(self) -> list[Tensor]:
        """Those of one pointwise convolution of paired pixels: each half reads its own pixel."""
        halves = zip(convolution(self.even), convolution(self.odd), strict=True)
        width = self.even.in_channels
        found = [
            torch.cat(
                [
                    F.pad(even, (0, 0, 0, 0, 0, width), value=nothing),
                    F.pad(odd, (0, 0, 0, 0, width, 0), value=nothing),
                ]
            )
            for (even, odd), nothing in zip(halves, (0.0, NO_VARIANCE), strict=False)
        ]
        return [*found, *super().weights()]

    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        return mixing_shape(self.even, self.norm)


def convolution(conv: nn.Conv2d) -> list[Tensor]:
    """Its weights, and their log-variances where its activations are drawn."""
    if not isinstance(conv, Variational):
        return [conv.weight]
    if not conv.training:
        return [conv.pruned()]
    return [conv.weight, conv.log_var] if samples_weights(conv) else [conv.weight]


def mixing_shape(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> kernels.Shape:
    """What kernels.py must know of a convolution across channels; a strided 1x1 pairs pixels."""
    return kernels.Shape(
        conv.kernel_size[0],
        conv.stride[0],
        kind="pointwise" if conv.kernel_size[0] == 1 else "whole",
        channels=(conv.in_channels, norm.num_features),
        relu=True,
        samples_weights=samples_weights(conv),
        affine=norm.affine,
        eps=norm.eps,
    )


class PoolBlock(Normalised):
    """A pool, normalised."""

    def __init__(self, pool: Pool, norm: nn.BatchNorm2d, *, relu_last: bool) -> None:
        super().__init__(norm, relu_last=relu_last)
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.pool(x))
        return F.relu(x) if self.relu_last else x

    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        return replace(
            pool_shape(self.pool),
            relu_last=last and self.relu_last,
            affine=self.norm.affine,
            eps=self.norm.eps,
        )


class BarePool(Block):
    """A pool as it is."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        pooled: Tensor = self.pool(x)
        return pooled

    def native(self) -> bool:
        """Not in evaluation, where a network is traced and exported layer by layer."""
        return self.training

    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        return replace(pool_shape(self.pool), bare=True)


def pool_shape(pool: Pool) -> kernels.Shape:
    """What kernels.py must know of a 3x3 pool."""
    stride = pool.stride if isinstance(pool.stride, int) else pool.stride[0]
    kind: Literal["maximum", "average"] = "average" if isinstance(pool, nn.AvgPool2d) else "maximum"
    return kernels.Shape(3, stride, kind=kind)


class Chain(nn.Sequential):
    """Blocks, one after another."""

    def __init__(self, *blocks: Block) -> None:
        super().__init__(*blocks)
        self._shapes: dict[bool, tuple[kernels.Shape, ...]] = {}  # while training, and otherwise

    def blocks(self) -> list[Block]:
        """Its blocks."""
        return [block for block in self if isinstance(block, Block)]

    def shapes(self) -> tuple[kernels.Shape, ...]:
        """What kernels.py must know of them."""
        if self.training not in self._shapes:
            blocks = self.blocks()
            self._shapes[self.training] = tuple(
                b.shape(first=b is blocks[0], last=b is blocks[-1]) for b in blocks
            )
        return self._shapes[self.training]

    def forget_shapes(self) -> None:
        """To be asked for anew, after a change in its blocks."""
        self._shapes.clear()

    def native(self, x: Tensor) -> bool:
        """Whether kernels.py can take it on this input."""
        return all(block.native() for block in self.blocks()) and kernels.ready(x, self.shapes())
