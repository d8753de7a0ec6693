"""MNIST and its kin: a folder of idx files (train-images-idx3-ubyte, ..., plain or .gz)."""

import gzip
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ardor.data.readers import Found, Labelled, Wanted, found_in
from ardor.errors import ArdorError

AXES = {"images": 3, "labels": 1}
UBYTE = 0x0800  # the magic number is this plus the number of axes
AGAIN = "download the file again"


def recognises(path: Path) -> bool:
    """Whether the folder holds any of the four files."""
    parts = ("train", "t10k")
    return any(_spellings(path, part, what) for part in parts for what in AXES)


def read(path: Path, wanted: Wanted) -> Found:
    """The training images and the set's own test images."""
    return found_in(path, _part(path, "train"), _part(path, "t10k"))


def _spellings(folder: Path, part: str, what: str) -> list[Path]:
    """The file in each of its spellings that exists."""
    stems = [f"{part}-{what}{mark}idx{AXES[what]}-ubyte" for mark in "-."]
    candidates = [folder / f"{stem}{suffix}" for stem in stems for suffix in ("", ".gz")]
    return [file for file in candidates if file.is_file()]


def _part(folder: Path, part: str) -> Labelled:
    """Images and labels of one part, equal in number."""
    images, labels = (_array(_file(folder, part, what), AXES[what]) for what in AXES)
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


def _array(path: Path, axes: int) -> NDArray[Any]:
    """The array in an idx file, after checking its header and its length."""
    raw = _bytes(path)
    header = 4 + 4 * axes
    numbers = np.frombuffer(raw[:header], ">u4", count=min(len(raw), header) // 4).tolist()
    if numbers and numbers[0] != UBYTE + axes:
        raise ArdorError(
            f"{path} starts with the number {numbers[0]}; must be {UBYTE + axes}, "
            f"the mark of an idx file with {axes} axes",
            AGAIN,
        )
    expected = header + prod(numbers[1:]) if len(raw) >= header else header
    if len(raw) != expected:
        fault = "cut short" if len(raw) < expected else "too long"
        raise ArdorError(f"{path} is {fault}: expected {expected} bytes, found {len(raw)}", AGAIN)
    return np.frombuffer(raw, np.uint8, offset=header).reshape(numbers[1:]).copy()


def _bytes(path: Path) -> bytes:
    """The content of the file, unpacked if it is a .gz."""
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        fault = "cut short" if isinstance(error, EOFError) else "damaged"
        raise ArdorError(f"{path} is {fault}: {error}", AGAIN) from error
