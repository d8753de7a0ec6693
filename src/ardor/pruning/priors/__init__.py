"""Priors over groups of weights, by which a network is compressed; found by name."""

import sys

from ardor import discover
from ardor.errors import unknown
from ardor.pruning.priors._base import Prior

__all__ = ["Prior", "find", "names"]


def find(name: str) -> type[Prior]:
    """The prior of that name, or of a user's own dotted module."""
    if not discover.is_dotted(name) and name not in names():
        raise unknown("prior", name, names())
    module = name.replace("-", "_")
    return discover.find(sys.modules[__name__], module, Prior)  # type: ignore[type-abstract]


def names() -> list[str]:
    """The priors that come with Ardor."""
    return [name.replace("_", "-") for name in discover.names(sys.modules[__name__])]
