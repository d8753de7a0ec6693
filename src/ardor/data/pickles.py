"""Pickles of plain containers and byte arrays, read without running anything.

The official CIFAR files are pickles, and a pickle may call any function. This reader looks nothing
up: the four names that an array needs stand for functions of this file, any other is refused.
"""

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ardor.errors import ArdorError


class Bytes:
    """Stands in for a numpy array while it is unpickled: shape, kind and raw bytes."""

    def __init__(self) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> NDArray[np.uint8]:
        """The uint8 array that was pickled."""
        _, shape, kind, fortran, raw = self.state
        if not isinstance(kind, Kind) or kind.code not in ("u1", "uint8"):
            raise ValueError("its array must be of kind uint8")
        flat: NDArray[np.uint8] = np.frombuffer(raw, np.uint8).copy()
        return flat.reshape(tuple(shape), order="F" if fortran else "C")


class Kind:
    """Stands in for a numpy dtype while it is unpickled."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.code = code.decode() if isinstance(code, bytes) else code

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment say nothing about single bytes."""


def _encoded(text: str, _: str) -> bytes:
    return text.encode("latin1")


ADMITTED: Mapping[tuple[str, str], Callable[..., object]] = {
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: Bytes(),
    ("numpy._core.multiarray", "_reconstruct"): lambda *_: Bytes(),
    ("numpy", "ndarray"): lambda *_: None,
    ("numpy", "dtype"): Kind,
    ("_codecs", "encode"): _encoded,
}


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., object]:
        """The stand-in for an admitted name."""
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not plain data")
        # A new function each time: a pickle can set attributes on what it is given.
        return lambda *arguments: ADMITTED[module, name](*arguments)


def read_plain_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in the pickle, its keys as text and its arrays as numpy arrays."""
    try:
        with path.open("rb") as file:
            content = _Plain(file, encoding="bytes").load()
        if not isinstance(content, dict):
            raise ValueError("it must hold a dictionary")
        return {_text(key): _value(value) for key, value in content.items()}
    # Broken bytes fail in every way: EOFError, KeyError, TypeError, UnicodeDecodeError.
    except Exception as error:
        raise ArdorError(
            f"refused to read the pickle {path}: {' '.join(str(error).split())}",
            "only the official CIFAR files are read as pickles: download the set again",
        ) from error


def _value(value: object) -> object:
    return value.array() if isinstance(value, Bytes) else value


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
