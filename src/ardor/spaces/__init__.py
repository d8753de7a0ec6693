"""Spaces: lists of choices, and the nets that are built from them; found by name."""

import sys
from typing import Any

from torch import nn

from ardor import discover
from ardor.architecture import Architecture
from ardor.layers.norms import complete_, norms_of
from ardor.settings.fields import complete
from ardor.spaces._base import Net, Space, foreign, mean_score

__all__ = ["Net", "Space", "find", "foreign", "make", "mean_score", "names", "network", "of"]


def find(name: str) -> type[Space]:
    """The space of that name, or of a user's own dotted module."""
    return discover.find(sys.modules[__name__], name, Space)  # type: ignore[type-abstract]


def names() -> list[str]:
    """The spaces that come with Ardor."""
    return discover.names(sys.modules[__name__])


def make(name: str, settings: dict[str, Any]) -> Space:
    """The space `name` with these settings, each checked against its fields."""
    cls = find(name)
    return cls(**complete("space", cls, settings))


def of(architecture: Architecture) -> Space:
    """The space an architecture was found in."""
    space = make(architecture.space, dict(architecture.settings))
    space.check(architecture)
    return space


def network(
    architecture: Architecture, *, conv: type[nn.Conv2d] = nn.Conv2d, as_searched: bool = False
) -> Net:
    """The network of an architecture; `as_searched` in the form that has the supernet's weights.

    In that form, too, its BatchNorms have a scale, and statistics by which each image stands alone.
    """
    net = of(architecture).build(architecture, conv=conv, as_searched=as_searched)
    if as_searched:
        for norm in norms_of(net):
            complete_(norm)
        net.forget_shapes_()
        net.as_searched = True
    return net
