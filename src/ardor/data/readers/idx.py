"""MNIST and sets like it: a folder of idx files (train-images-idx3-ubyte, ..., plain or .gz)."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ardor.data.limit import Limit
from ardor.data.readers import Labelled, ReadImages, Wanted, arrays_as_images
from ardor.errors import ArdorError

PARTS = ("train", "t10k")
AXES = {"images": 3, "labels": 1}
UBYTE = 0x0800  # the magic number is this plus the number of axes
AGAIN = "download the file again"
PIECE = 2**20  # bytes unpacked at a time


def recognises(path: Path) -> bool:
    """Whether the folder holds any of the four files."""
    return any(_spellings(path, part, what) for part in PARTS for what in AXES)


def read(path: Path, wanted: Wanted) -> ReadImages:
    """The training images and the set's own test images."""
    train, test = (_part(path, part, wanted.limit) for part in PARTS)
    return arrays_as_images(path, train, test)


def _spellings(folder: Path, part: str, what: str) -> list[Path]:
    """The file in each of its spellings that exists."""
    stems = [f"{part}-{what}{mark}idx{AXES[what]}-ubyte" for mark in "-."]
    candidates = [folder / f"{stem}{suffix}" for stem in stems for suffix in ("", ".gz")]
    return [file for file in candidates if file.is_file()]


def _part(folder: Path, part: str, limit: Limit) -> Labelled:
    """Images and labels of one part, equal in number."""
    images, labels = (_array(_file(folder, part, what), AXES[what], limit) for what in AXES)
    if len(images) != len(labels):
        raise ArdorError(
            f"{folder}: {part} has {len(images)} images, but {len(labels)} labels; must be equal",
            "the files are of different sets: " + AGAIN,
        )
    return images[:, None], labels


def _file(folder: Path, part: str, what: str) -> Path:
    """The file of one part, or an error that names it."""
    files = _spellings(folder, part, what)
    if not files:
        name = f"{part}-{what}-idx{AXES[what]}-ubyte"
        raise ArdorError(
            f"{folder} has no {name}; must hold images and labels of train and t10k",
            f"put {name} or {name}.gz into the folder",
        )
    return files[0]


def _array(path: Path, axes: int, limit: Limit) -> NDArray[Any]:
    """The array in an idx file, after checking its header and its length."""
    held = path.stat().st_size
    with _opened(path) as file:
        shape = _shape(path, file.read(4 + 4 * axes), axes)
        count, header = prod(shape), 4 + 4 * axes
        if path.suffix != ".gz":
            _check_length(path, header + count, held)
        limit.unpack(path, count, held)
        limit.take(path, count)
        raw = _content(file, count + 1)
    _check_length(path, header + count, header + len(raw))
    return np.frombuffer(raw, np.uint8).reshape(shape)


def _shape(path: Path, head: bytes, axes: int) -> list[int]:
    """The lengths of the axes, from the first bytes of the file."""
    numbers: list[int] = np.frombuffer(head, ">u4", count=len(head) // 4).tolist()
    if numbers and numbers[0] != UBYTE + axes:
        raise ArdorError(
            f"{path} starts with the number {numbers[0]}; must be {UBYTE + axes}, "
            f"the mark of an idx file with {axes} axes",
            AGAIN,
        )
    _check_length(path, max(len(head), 4 + 4 * axes), len(head))
    return numbers[1:]


def _check_length(path: Path, expected: int, found: int) -> None:
    if found != expected:
        fault = "cut short" if found < expected else "too long"
        raise ArdorError(f"{path} is {fault}: expected {expected} bytes, found {found}", AGAIN)


def _content(file: BinaryIO, most: int) -> bytearray:
    """The remaining bytes of the file, at most so many."""
    content = bytearray()
    while piece := file.read(min(PIECE, most - len(content))):
        content += piece
    return content


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file, unpacked as it is read if it is a .gz."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(BinaryIO, file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        fault = "cut short" if isinstance(error, EOFError) else "damaged"
        raise ArdorError(f"{path} is {fault}: {error}", AGAIN) from error
