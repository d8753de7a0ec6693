"""Arrays out of .npz files, without ever unpickling an object."""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.lib.format import (
    MAGIC_PREFIX,
    read_array,
    read_array_header_1_0,
    read_array_header_2_0,
    read_magic,
)
from numpy.typing import NDArray

from ardor.data.limit import Limit
from ardor.errors import ArdorError


def read_arrays(path: Path, names: Sequence[str], limit: Limit) -> dict[str, NDArray[Any]]:
    """Those of the named arrays that the file holds."""
    try:
        with path.open("rb") as file:
            if file.peek(6).startswith(MAGIC_PREFIX):
                raise ValueError("it holds a single array without a name")
            if not file.peek(2).startswith(b"PK"):
                raise ValueError("it is not an .npz file")
            with ZipFile(file) as archive:
                members = {name: f"{name}.npy" for name in names}
                held = set(archive.namelist())
                return {n: _array(archive, m, path, limit) for n, m in members.items() if m in held}
    except (ArdorError, MemoryError):
        raise
    # A broken zip fails in every way: BadZipFile, zlib.error, EOFError, ValueError, KeyError.
    except Exception as error:
        raise ArdorError(
            f"cannot read {path}: {' '.join(str(error).split()) or 'it is cut short'}",
            "write it with numpy.savez(path, x=images, y=labels), arrays of uint8 and integers",
        ) from error


def _array(archive: ZipFile, member: str, path: Path, limit: Limit) -> NDArray[Any]:
    """One array, after checking that its header, its length and the memory fit."""
    entry = archive.getinfo(member)
    with archive.open(entry) as file:
        shape, kind = _header(file, member)
        count = prod(shape) * kind.itemsize
        if min(shape, default=0) < 0 or (
            file.tell() + count != entry.file_size and not kind.hasobject
        ):
            raise ValueError(f"{member} is not as long as its shape {shape} says")
    limit.unpack(path, count, entry.compress_size)
    limit.take(path, count)
    with archive.open(entry) as file:
        array: NDArray[Any] = read_array(file, allow_pickle=False)
    return array


def _header(file: IO[bytes], member: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and kind of an array, from its header."""
    try:
        version = read_magic(file)
        read = read_array_header_1_0 if version == (1, 0) else read_array_header_2_0
        shape, _, kind = read(file)
    # The header is text that numpy parses: deep brackets end in a TokenError or MemoryError.
    except Exception as error:
        raise ValueError(f"{member} is no array") from error
    return shape, kind


def need(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
    """The named array, or an error that says what the file must hold."""
    if name not in arrays:
        raise ArdorError(
            f"{path} holds no array '{name}'; must hold images and their labels",
            "write it with numpy.savez(path, x=images, y=labels)",
        )
    return arrays[name]


def check_labels(labels: NDArray[Any], count: int, path: Path) -> NDArray[Any]:
    """The labels as one row, or an error where they are not one integer or name per image."""
    if labels.dtype.kind not in "iuU" or labels.size != count or labels.shape[:1] != (count,):
        raise ArdorError(
            f"labels in {path} are {labels.dtype} {labels.shape}; "
            f"must be integers or names ({count},), one for each of {count} images",
            "write one class number for each image",
        )
    return labels.reshape(-1)
