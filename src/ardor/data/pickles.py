"""Pickles of plain containers and byte arrays, read without running anything.

The official CIFAR files are pickles, and a pickle may call any function. This reader imports
nothing: the four names that an array needs stand for functions of this file, others are refused.
"""

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

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
        if not isinstance(kind, Kind) or kind.code not in ("u1", b"u1", "uint8", b"uint8"):
            raise ValueError("its array must be of kind uint8")
        flat: NDArray[np.uint8] = np.frombuffer(raw, np.uint8).copy()
        return flat.reshape(tuple(shape), order="F" if fortran else "C")


class Kind:
    """Stands in for a numpy dtype while it is unpickled."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment say nothing about single bytes."""


ADMITTED: Mapping[tuple[str, str], Callable[..., object]] = {
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: Bytes(),
    ("numpy._core.multiarray", "_reconstruct"): lambda *_: Bytes(),
    ("numpy", "ndarray"): lambda *_: None,
    ("numpy", "dtype"): Kind,
    ("_codecs", "encode"): lambda text, _: text.encode("latin1"),
}
# Instructions that plain data do not need, and that can take any time or memory with a few bytes:
# sets of nested tuples, buffers of any length, objects, and names defined elsewhere.
REFUSED = (
    *(pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET, pickle.BYTEARRAY8, pickle.NEXT_BUFFER),
    *(pickle.READONLY_BUFFER, pickle.OBJ, pickle.INST, pickle.NEWOBJ, pickle.NEWOBJ_EX),
    *(pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.PERSID, pickle.BINPERSID),
)


# The unpickler in Python: that in C cannot restrict the keys of dictionaries.
class _Plain(pickle._Unpickler):
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self.spare = len(content)  # bytes that encoded strings may still take

    def find_class(self, module: str, name: str) -> Callable[..., object]:
        """The stand-in for an admitted name."""
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not plain data")

        # A new function each time: a pickle can set attributes on what it is given.
        def made(*arguments: Any) -> object:
            # One string may be encoded again and again, each time into memory of its own.
            self.spare -= len(arguments[0]) if name == "encode" else 0
            if self.spare < 0:
                raise pickle.UnpicklingError("it unpacks to more than it holds")
            return ADMITTED[module, name](*arguments)

        return made

    def refuse(self) -> None:
        """Takes the place of an instruction that plain data do not need."""
        raise pickle.UnpicklingError("it holds more than dictionaries, lists, text and numbers")

    def put(self, target: Any, items: Sequence[Any]) -> None:
        """Fills a dictionary; keys must be text, as nested tuples can take unlimited time."""
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, bytes)) or not isinstance(target, dict):
                raise pickle.UnpicklingError("the keys of a dictionary must be text")
            target[key] = value

    def load_dict(self) -> None:
        """Instruction: a dictionary of all items since the mark."""
        items = self.pop_mark()
        self.stack.append({})
        self.put(self.stack[-1], items)

    def load_setitem(self) -> None:
        """Instruction: one more item."""
        value, key = self.stack.pop(), self.stack.pop()
        self.put(self.stack[-1], (key, value))

    def load_setitems(self) -> None:
        """Instruction: all items since the mark."""
        items = self.pop_mark()
        self.put(self.stack[-1], items)

    dispatch: ClassVar[Any] = {
        **pickle._Unpickler.dispatch,
        **dict.fromkeys((code[0] for code in REFUSED), refuse),
        pickle.DICT[0]: load_dict,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
    }


def read_plain_pickle(path: Path, *names: str) -> dict[str, Any]:
    """Those entries of the dictionary in the pickle, its arrays as numpy arrays."""
    try:
        content = _Plain(path.read_bytes()).load()
        if not isinstance(content, dict):
            raise ValueError("it must hold a dictionary")
        keys = {_text(key): key for key in content}
        return {name: _value(content[keys[name]]) for name in names if name in keys}
    except MemoryError:
        raise
    # Broken bytes fail in every way: EOFError, KeyError, TypeError, UnicodeDecodeError.
    except Exception as error:
        raise ArdorError(
            f"refused to read the pickle {path}: {' '.join(str(error).split())}",
            "only the official CIFAR files are read as pickles: download the set again",
        ) from error


def _value(value: object) -> object:
    return value.array() if isinstance(value, Bytes) else value


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
