"""Blocks as the native code needs to know them: kind, sizes, and the weights they take."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from torch import Tensor

LANES = 8  # channels that the native code takes at a time: padding.py adds those missing
NO_VARIANCE = -30.0  # the log-variance of a weight that is zero and has no noise
# The kernels that there is native code for, by kind of block, in the order of states.c.
KERNELS = {
    "separable": (3, 5, 7),
    "average": (3,),
    "maximum": (3,),
    "pointwise": (1,),
    "full": (3,),
}
KINDS = tuple(KERNELS)


@dataclass(frozen=True)
class Shape:
    """A block without its weights."""

    kernel: int
    stride: int
    dilation: int = 1
    kind: Literal["separable", "average", "maximum", "pointwise", "full"] = "separable"
    channels: tuple[int, int] | None = None  # of its input and output, where they may differ
    relu: bool = False  # applied to its input, after the normalisation of the block before
    relu_last: bool = False  # applied to its normalised output, at the end of a chain
    samples_weights: bool = False  # its weights have log-variances: activations are drawn
    bare: bool = False  # it has no normalisation
    affine: bool = False  # its normalisation has a scale and a shift of its own
    eps: float = 1e-5

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The weights it takes, in order."""
        mixing = ["pointwise"]
        convolutions = {"separable": ["depthwise", *mixing], "pointwise": mixing, "full": mixing}
        names = convolutions.get(self.kind, [])
        log_vars = [f"{name}_log_var" for name in names] if self.samples_weights else []
        return (*names, *log_vars, *["gamma", "beta"] * self.affine)


@dataclass(frozen=True)
class Term:
    """A chain of blocks on one of the sources of a state; without blocks, the source itself."""

    source: int
    chain: tuple[Shape, ...] = ()


def channels_of(sources: Sequence[Tensor], shapes: Sequence[Shape]) -> int:
    """The channels of a sum: those of its sources, unless a block changes them."""
    return next((s.channels[1] for s in shapes if s.channels), sources[0].shape[1])
