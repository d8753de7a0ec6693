"""Methods: posteriors over architectures, each a distribution over gates; found by name."""

import sys
from collections.abc import Mapping
from typing import Any

from ardor import discover
from ardor.errors import ArdorError
from ardor.methods._base import Curvature, Epochs, Method, never_zero
from ardor.settings.fields import complete
from ardor.spaces import Space

__all__ = ["Curvature", "Epochs", "Method", "find", "make", "names", "never_zero"]


def find(name: str) -> type[Method]:
    """The method of that name, or of a user's own dotted module."""
    return discover.find(sys.modules[__name__], name, Method)  # type: ignore[type-abstract]


def names() -> list[str]:
    """The methods that come with Ardor."""
    return discover.names(sys.modules[__name__])


def make(name: str, space: Space, settings: Mapping[str, Any]) -> Method:
    """The method `name` over a space, its settings checked against its signature."""
    cls = find(name)
    if not any(choice.kind in cls.decides for choice in space.choices):
        raise ArdorError(
            f"method '{name}' has nothing to decide: the space has choices of "
            f"{', '.join(sorted({choice.kind for choice in space.choices})) or 'nothing'} alone, "
            f"and it decides {', '.join(cls.decides)}",
            "use another space or its other settings, or a method for channels, such as pgnas",
        )
    return cls(space, **complete("method", cls, settings))
