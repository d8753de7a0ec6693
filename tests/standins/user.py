"""The command as a user gives it, and what a hand can do to files."""

import contextlib
import io
import json
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ardor.__main__ import main

RNG = np.random.default_rng(0)
SET = {
    "space.layout": "R",
    "space.states": "1",
    "space.channels": "2",
    "space.ops": "skip_connect,max_pool_3x3",
}
TINY = [*(word for name in SET for word in ("--set", f"{name}={SET[name]}")), "--epochs", "1"]
Edit = Callable[[Any], Any]


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def line(self, word: str) -> str:
        """The one line on stderr that begins so."""
        (line,) = (line for line in self.err.splitlines() if line.startswith(f"{word}: "))
        return line


def ardor(*arguments: object) -> Said:
    """The command in this process, as the shell would see it."""
    out, err = io.StringIO(), io.StringIO()
    argv, hook, aside = sys.argv, sys.unraisablehook, threading.excepthook
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    sys.argv = ["ardor", *map(str, arguments)]
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            # What torch, onnx or tensorboard deprecate is no failure of the command.
            warnings.catch_warnings(action="ignore"),
            pytest.raises(SystemExit) as end,
        ):
            main()
    finally:
        sys.argv, sys.unraisablehook, threading.excepthook = argv, hook, aside
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Said(int(end.value.code or 0), out.getvalue(), err.getvalue())


def refused(*arguments: object, error: str, hint: str = "", code: int = 1) -> Said:
    """The command failed as it should: both lines at the end, no traceback, nothing on stdout."""
    said = ardor(*arguments)
    assert said.code == code, said
    assert error in said.line("error"), said
    assert hint in said.line("hint"), said
    assert len(said.line("hint")) > len("hint: "), said
    assert said.err.splitlines()[-2:] == [said.line("error"), said.line("hint")]
    assert "Traceback" not in said.err
    assert said.out == ""
    return said


def done(*arguments: object) -> Said:
    said = ardor(*arguments)
    assert said.code == 0, said
    return said


def png(path: Path, *shape: int, image: Image.Image | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = RNG.integers(0, 256, shape or (8, 8, 3), dtype=np.uint8)
    (image or Image.fromarray(noise)).save(path)
    return path


def pictures(folder: Path, *classes: str, count: int = 6) -> Path:
    for name in classes:
        for number in range(count):
            png(folder / name / f"{number}.png")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, to see that it stays."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def edit(path: Path, change: Edit) -> None:
    """Changes a JSON file as a hand would; `change` gives what is to be in it."""
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def put(*keys: str, value: Any) -> Edit:
    """The edit that sets one entry, however deep."""

    def change(content: Any) -> Any:
        below = content
        for key in keys[:-1]:
            below = below[key]
        below[keys[-1]] = value
        return content

    return change


def without(*keys: str) -> Edit:
    """The edit that drops one entry, however deep."""

    def change(content: Any) -> Any:
        below = content
        for key in keys[:-1]:
            below = below[key]
        del below[keys[-1]]
        return content

    return change


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
