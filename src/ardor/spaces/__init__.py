"""Spaces: lists of choices, and the nets that are built from them; found by name."""

import sys
from typing import Any

from ardor import discover
from ardor.architecture import Architecture
from ardor.settings.fields import complete
from ardor.spaces._base import Net, Space, foreign, mean_score

__all__ = ["Net", "Space", "find", "foreign", "make", "mean_score", "names", "of"]


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
