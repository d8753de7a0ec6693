"""Blocks, and chains of them: the candidates that the native code can compute."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.native import kernels
from ardor.native.shapes import Shape

Pool = nn.MaxPool2d | nn.AvgPool2d
# What normalises: statistics of each batch; these too, but they are kept; those that were kept.
Statistics = Literal["batch", "measured", "frozen"]


class Block(nn.Module, ABC):
    """Part of a candidate, for which there is native code."""

    statistics: Statistics = "batch"

    @abstractmethod
    def shape(self, *, first: bool, last: bool) -> Shape:
        """Kind and sizes for the native code, which depend on its place in a chain."""

    @abstractmethod
    def native(self) -> bool:
        """Whether the native code computes the same in its present state."""

    def weights(self) -> list[Tensor]:
        """Its weights, in the order of `Shape.slots`."""
        return []


class Normalised(Block):
    """A block that ends in a BatchNorm, with a ReLU before it all (DARTS) or after it (VINNAS)."""

    def __init__(self, norm: nn.BatchNorm2d, *, relu_last: bool) -> None:
        super().__init__()
        self.norm, self.relu_last = norm, relu_last

    def weights(self) -> list[Tensor]:
        if self.statistics == "frozen":
            return scale_and_shift(self.norm)
        return [self.norm.weight, self.norm.bias] if self.norm.affine else []

    def native(self) -> bool:
        """Native code normalises by the statistics of the batch, or by those that are frozen."""
        by_batch = self.norm.training or self.norm.running_mean is None
        return by_batch or self.statistics != "batch"

    @property
    def remembers(self) -> bool:
        """Whether a batch moves its running statistics."""
        moving = self.norm.training or self.statistics == "measured"
        return moving and self.norm.running_mean is not None

    @torch.no_grad()
    def remember_(self, mean: Tensor, spread: Tensor, count: int) -> None:
        """Moves the running statistics as BatchNorm does, to just the batch's while measured."""
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        variance = (spread.square().reciprocal() - norm.eps).clamp_min(0)
        share = 1.0
        if self.statistics == "batch":
            share = 0.1 if norm.momentum is None else norm.momentum
            variance = variance * count / max(count - 1, 1)
        norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), share)
        norm.running_var.lerp_(variance.to(norm.running_var.dtype), share)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked += 1


def scale_and_shift(norm: nn.BatchNorm2d) -> list[Tensor]:
    """What a BatchNorm multiplies by and adds in evaluation."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = (norm.running_var + norm.eps).rsqrt()
    scale = norm.weight * scale if norm.affine else scale
    shift = -norm.running_mean * scale
    return [scale, norm.bias + shift if norm.affine else shift]


def frozen(block: Block, shape: Shape) -> Shape:
    """The shape of a block, with a scale and a shift alone where its statistics are frozen."""
    if isinstance(block, Normalised) and block.statistics == "frozen":
        return replace(shape, bare=True, affine=True)
    return shape


class PoolBlock(Normalised):
    """A pool, normalised."""

    def __init__(self, pool: Pool, norm: nn.BatchNorm2d, *, relu_last: bool) -> None:
        super().__init__(norm, relu_last=relu_last)
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.pool(x))
        return F.relu(x) if self.relu_last else x

    def shape(self, *, first: bool, last: bool) -> Shape:
        return replace(
            pool_shape(self.pool),
            relu_last=last and self.relu_last,
            affine=self.norm.affine,
            eps=self.norm.eps,
        )


class BarePool(Block):
    """A pool without normalisation."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        pooled: Tensor = self.pool(x)
        return pooled

    def native(self) -> bool:
        """Not in evaluation, where a network is traced and exported layer by layer."""
        return self.training or self.statistics != "batch"

    def shape(self, *, first: bool, last: bool) -> Shape:
        return replace(pool_shape(self.pool), bare=True)


def pool_shape(pool: Pool) -> Shape:
    """Kind and sizes of a 3x3 pool for the native code."""
    stride = pool.stride if isinstance(pool.stride, int) else pool.stride[0]
    kind: Literal["maximum", "average"] = "average" if isinstance(pool, nn.AvgPool2d) else "maximum"
    return Shape(3, stride, kind=kind)


class Chain(nn.Sequential):
    """Blocks, one after another."""

    def __init__(self, *blocks: Block) -> None:
        super().__init__(*blocks)
        self._shapes: dict[bool, tuple[Shape, ...]] = {}  # by whether it is training

    def blocks(self) -> list[Block]:
        """Its blocks."""
        return [block for block in self if isinstance(block, Block)]

    def shapes(self) -> tuple[Shape, ...]:
        """Kinds and sizes of its blocks for the native code."""
        if self.training not in self._shapes:
            blocks = self.blocks()
            self._shapes[self.training] = tuple(
                frozen(b, b.shape(first=b is blocks[0], last=b is blocks[-1])) for b in blocks
            )
        return self._shapes[self.training]

    def forget_shapes(self) -> None:
        """Must be called after a change in its blocks: shapes are worked out anew."""
        self._shapes.clear()

    def native(self, x: Tensor) -> bool:
        """Whether the native code can compute it on this input."""
        return all(block.native() for block in self.blocks()) and kernels.ready(x, self.shapes())
