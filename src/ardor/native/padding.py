"""Channels filled up, with zeros that change nothing, to as many as the native code takes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import torch.nn.functional as F
from torch import Tensor

from ardor.native import kernels
from ardor.native.kernels import LANES, NO_VARIANCE, Shape, Term


def padded_sum(
    sources: Sequence[Tensor], terms: Sequence[Term], gates: Tensor, weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """What `kernels.native_sum` gives, for any numbers of channels."""
    shapes = [shape for term in terms for shape in term.chain]
    counts = {x.shape[1] for x in sources} | {n for s in shapes for n in s.channels or ()}
    if not any(map(spare, counts)):
        return kernels.native_sum(sources, terms, gates, weights)
    channels, left = kernels.channels_of(sources, shapes), iter(weights)
    total, statistics = kernels.native_sum(
        [F.pad(x, (0, 0, 0, 0, 0, spare(x.shape[1]))) for x in sources],
        filled_terms(tuple(terms)),
        gates,
        [filled(next(left), slot, shape) for shape in shapes for slot in shape.slots],
    )
    return total[:, :channels], statistics[:, :, :channels]


def spare(channels: int) -> int:
    """How many channels are missing."""
    return -channels % LANES


def filled(weight: Tensor, slot: str, shape: Shape) -> Tensor:
    """A weight for filled channels; those of a variance are next to none."""
    nothing = NO_VARIANCE if slot.endswith("log_var") else 0.0
    outputs = spare(len(weight))
    if not slot.startswith("pointwise"):
        return F.pad(weight, (0, 0) * (weight.ndim - 1) + (0, outputs), value=nothing)
    # Where pixels are paired, each of them has channels of its own.
    pixels = shape.stride if shape.kind == "pointwise" else 1
    apart = weight.view(len(weight), pixels, -1, *weight.shape[2:])
    around = (0, 0, 0, 0, 0, spare(apart.shape[2]), 0, 0, 0, outputs)
    return F.pad(apart, around, value=nothing).flatten(1, 2)


@lru_cache(1024)
def filled_terms(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The same terms of filled channels."""
    return tuple(Term(t.source, tuple(filled_shape(s) for s in t.chain)) for t in terms)


def filled_shape(shape: Shape) -> Shape:
    """The same block of filled channels."""
    if shape.channels is None:
        return shape
    inputs, outputs = (count + spare(count) for count in shape.channels)
    return replace(shape, channels=(inputs, outputs))
