"""Arrays out of .npz files, without ever unpickling an object."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from ardor.errors import ArdorError


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Those of the named arrays that the file holds."""
    try:
        with path.open("rb") as file:
            # What is neither, numpy takes for a pickle, and advises to trust it.
            if not file.peek(6).startswith((b"PK", b"\x93NUMPY")):
                raise ValueError("it is not an .npz file")
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, NpzFile):
                raise ValueError("it holds a single array without a name")
            return {name: content[name] for name in names if name in content.files}
    # A broken zip fails in every way: BadZipFile, zlib.error, EOFError, ValueError, KeyError.
    except Exception as error:
        raise ArdorError(
            f"cannot read {path}: {' '.join(str(error).split()) or 'it is cut short'}",
            "write it with numpy.savez(path, x=images, y=labels), arrays of uint8 and integers",
        ) from error


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
