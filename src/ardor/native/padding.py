"""Channels of zeros, added until their number is one that the native code takes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import torch.nn.functional as F
from torch import Tensor

from ardor.native import kernels
from ardor.native.shapes import LANES, NO_VARIANCE, Shape, Term, channels_of


def padded_sum(
    sources: Sequence[Tensor], terms: Sequence[Term], gates: Tensor, weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """The same as `kernels.native_sum`, for any numbers of channels."""
    shapes = [shape for term in terms for shape in term.chain]
    counts = {x.shape[1] for x in sources} | {n for s in shapes for n in s.channels or ()}
    if not any(map(missing, counts)):
        return kernels.native_sum(sources, terms, gates, weights)
    channels, left = channels_of(sources, shapes), iter(weights)
    total, statistics = kernels.native_sum(
        [F.pad(x, (0, 0, 0, 0, 0, missing(x.shape[1]))) for x in sources],
        padded_terms(tuple(terms)),
        gates,
        [padded(next(left), slot, shape) for shape in shapes for slot in shape.slots],
    )
    return total[:, :channels], statistics[:, :, :channels]


def missing(channels: int) -> int:
    """How many channels must be added."""
    return -channels % LANES


def padded(weight: Tensor, slot: str, shape: Shape) -> Tensor:
    """A weight with zeros for the added channels; their variances are next to none."""
    absent = NO_VARIANCE if slot.endswith("log_var") else 0.0
    outputs = missing(len(weight))
    if not slot.startswith("pointwise"):
        return F.pad(weight, (0, 0) * (weight.ndim - 1) + (0, outputs), value=absent)
    # Where pixels are paired, each of them has channels of its own.
    pixels = shape.stride if shape.kind == "pointwise" else 1
    apart = weight.view(len(weight), pixels, -1, *weight.shape[2:])
    around = (0, 0, 0, 0, 0, missing(apart.shape[2]), 0, 0, 0, outputs)
    return F.pad(apart, around, value=absent).flatten(1, 2)


@lru_cache(1024)
def padded_terms(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The same terms with the added channels."""
    return tuple(Term(t.source, tuple(padded_shape(s) for s in t.chain)) for t in terms)


def padded_shape(shape: Shape) -> Shape:
    """The same block with the added channels."""
    if shape.channels is None:
        return shape
    inputs, outputs = (count + missing(count) for count in shape.channels)
    return replace(shape, channels=(inputs, outputs))
