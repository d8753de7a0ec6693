"""Readers of images, one file for each kind of source: a new file here is a new kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray

from ardor.data.images import Images
from ardor.data.left_out import LeftOut
from ardor.data.limit import Limit
from ardor.errors import ArdorError

Labelled = tuple[NDArray[Any], NDArray[Any]]  # uint8 (n, channels, height, width); labels (n,)


@dataclass(frozen=True)
class Wanted:
    """The size and colour that images are read in: 0 leaves the choice to the reader."""

    size: int
    channels: int
    skip_broken: bool
    limit: Limit


@dataclass(frozen=True, eq=False)
class ReadImages:
    """The images of a source; without `test`, part of `train` is held out later."""

    train: Images
    test: Images | None
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class Reader(Protocol):
    """A module of this folder; its docstring is its description."""

    def recognises(self, path: Path) -> bool:
        """Whether the path, or a name that is no path, is for this reader."""

    def read(self, path: Path, wanted: Wanted) -> ReadImages:
        """The images at a path it recognises."""


def names() -> list[str]:
    """Names of all readers, in the order in which they are tried."""
    modules = (module.name for module in iter_modules(__path__))
    return sorted(name for name in modules if not name.startswith("_"))


def find(name: str) -> Reader:
    """The reader of that name."""
    return cast(Reader, import_module(f"{__name__}.{name}"))


def arrays_as_images(
    path: Path,
    train: Labelled,
    test: Labelled | None,
    *,
    classes: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> ReadImages:
    """Arrays as images with classes: the labels that occur in training, in order."""
    values, numbers = np.unique(train[1], return_inverse=True)
    kept = tuple(classes[value] if classes else str(value) for value in values)
    images = _images(train[0], numbers)
    if test is None:
        return ReadImages(images, None, kept, tuple(notes))
    strange = np.setdiff1d(test[1], values)
    if strange.size:
        raise ArdorError(
            f"label {strange[0]} occurs in the test images of {path}, but not in training",
            "remove these test images, or add training images of that class",
        )
    return ReadImages(
        images, _images(test[0], np.searchsorted(values, test[1])), kept, tuple(notes)
    )


def _images(pixels: NDArray[Any], labels: NDArray[Any]) -> Images:
    return Images(
        torch.from_numpy(np.ascontiguousarray(pixels)), torch.from_numpy(labels.astype(np.int64))
    )
