"""Files that are written whole or not at all."""

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ardor.errors import ArdorError, reason
from ardor.lock import STAMP, check_held, ended, stamp

UNFINISHED = re.compile(STAMP.pattern + r"\.\w+\.part")  # what a file or folder is called till then


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what a disk can refuse into an error that says so."""
    check_held(path)
    try:
        yield
    except OSError as error:
        check_held(path)
        raise ArdorError(
            f"cannot write '{path}': {reason(error)}",
            "free some space, or choose a folder you may write to",
        ) from error


def write(path: Path, content: bytes | str) -> None:
    """Puts a file in place in one move; a reader sees the old one or the new one."""
    data = content.encode() if isinstance(content, str) else content
    with writing(path):
        _make_parent(path)
        handle, name = tempfile.mkstemp(".part", f".{stamp()}.", path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _make_parent(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # which says nothing: what exists is not a folder
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error


def write_json(path: Path, content: Any) -> None:
    """Puts readable JSON in place; every number in it must be finite."""
    try:
        text = json.dumps(content, indent=2, allow_nan=False)
    except ValueError as error:
        raise ArdorError(
            f"'{path}' would hold a number that is not finite: the run has diverged",
            "begin a new one with a lower search.rate or train.rate",
        ) from error
    write(path, text + "\n")


def read_json(path: Path) -> Any:
    """The content of a JSON file, or an ArdorError that names the file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise ArdorError(f"no file '{path}'", "is this the folder of a run?") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ArdorError(
            f"cannot read '{path}': {reason(error)}", "it must be a JSON file"
        ) from error


def read_object(path: Path, form: int) -> dict[str, Any]:
    """The object in a JSON file of that format, or an ArdorError that names the file."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise ArdorError(f"'{path}' must hold a JSON object", "put back what Ardor wrote there")
    if content.get("format") != form:
        raise ArdorError(
            f"'{path}' has format {content.get('format')!r}; this version reads {form}",
            "use the version of Ardor that wrote it",
        )
    return content


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill that appears as `path` when all is written; never over one with files."""
    with _beside(path) as filling:
        # Others may be making theirs just now.
        _remove(left for left in path.parent.glob(".*.part") if ended(left.name))
        yield filling
        with writing(path):
            filling.rename(path)


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """A folder to fill that takes the place of `path` when all is written."""
    with _beside(path) as filling, _beside(path) as before:
        yield filling
        with writing(path):
            try:
                if path.exists():
                    path.rename(before)
                filling.rename(path)
            except BaseException:
                if not path.exists() and any(before.iterdir()):
                    before.rename(path)
                raise


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """An empty hidden folder next to `path`; what is left of it goes at the end."""
    with writing(path):
        _make_parent(path)
        folder = Path(tempfile.mkdtemp(".part", f".{stamp()}.", path.parent))
        folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clean(folder: Path) -> None:
    """Removes what killed processes have left unfinished in a folder that nobody else uses."""
    for place in (folder, *folder.iterdir()):
        if place.is_dir() and not place.is_symlink():
            _remove(place.glob(".*.part"))


def _remove(unfinished: Iterable[Path]) -> None:
    for left in unfinished:
        if not UNFINISHED.fullmatch(left.name):
            continue  # someone else's
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
