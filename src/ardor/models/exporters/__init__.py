"""Exporters: files that compute what a network does, without Ardor; found by name."""

import sys

from torch import Tensor

from ardor import discover
from ardor.errors import unknown
from ardor.models.exporters._base import Export, Exporter, Files, checked
from ardor.models.model import Model

__all__ = ["Export", "Exporter", "Files", "export", "find", "names"]


def find(name: str) -> Exporter:
    """The exporter of that name, or of a user's own dotted module."""
    if not discover.is_dotted(name) and name not in names():
        raise unknown("export format", name, names())
    cls = discover.find(sys.modules[__name__], name, Exporter)  # type: ignore[type-abstract]
    return cls()


def names() -> list[str]:
    """The exporters that come with Ardor."""
    return discover.names(sys.modules[__name__])


def export(name: str, model: Model, pixels: Tensor) -> Export:
    """The network in a format, checked on these images; nothing is written to disk yet."""
    return checked(name, find(name), model, pixels)
