"""Files that are written completely or not at all, and checked as they are read."""

import errno
import json
import math
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ardor.errors import ArdorError, reason
from ardor.runtime.lock import STAMP, check_held, ended, stamp

UNFINISHED = re.compile(
    STAMP.pattern + r"\.\w+\.part"
)  # names of files and folders that are still being written

LARGEST = 64 * 2**20  # bytes of a JSON file, which takes some twenty times as many in memory
DEEPEST = 20  # levels of lists or objects in one another


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns errors of the disk into an ArdorError that says so."""
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
    """Puts a file in place in one move: a reader sees the old one or the new one."""
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
    except FileExistsError as error:  # a clearer message: what exists is not a folder
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


@contextmanager
def opened(path: Path, most: int = LARGEST) -> Iterator[BinaryIO]:
    """A regular file of at most so many bytes, to read; an OSError if it is anything else.

    It never waits, as a pipe or a device in the place of a file might never end.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if found.st_size > most:
            raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes; must be at most {most:,}")
        yield file


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """The content of a regular file of at most so many bytes; an OSError if it is another."""
    with opened(path, most) as file:
        return file.read(min(most, os.fstat(file.fileno()).st_size))


def parse_json(text: str | bytes, *, finite: bool = False) -> Any:
    """The content of a JSON text; a ValueError if it is not JSON, or not `plain`."""
    try:
        return plain(json.loads(text), finite=finite)
    except RecursionError as error:
        raise too_deep() from error


def plain(content: Any, *, finite: bool = False) -> Any:
    """The content; a ValueError if it is deeper or has larger numbers than any file of Ardor's.

    Lists a thousand deep or numbers of hundreds of digits would fail wherever they are used.
    """
    level = [content]
    for _ in range(DEEPEST):
        for one in level:
            if isinstance(one, int) and abs(one) >= 2**63:
                raise ValueError(f"a whole number of {one.bit_length()} bits is too large")
            if finite and isinstance(one, float) and not math.isfinite(one):
                raise ValueError(f"{one} is not a finite number")
        level = [below for one in level for below in _below(one)]
        if not level:
            return content
    raise too_deep()


def _below(content: Any) -> Iterable[Any]:
    if isinstance(content, dict):
        return content.values()
    return content if isinstance(content, list) else ()


def too_deep() -> ValueError:
    """The error for lists or objects that are nested too deeply."""
    return ValueError(f"lists or objects are in one another more than {DEEPEST} times")


def read_json(path: Path, *, finite: bool = True) -> Any:
    """The content of a JSON file, or an ArdorError that names the file."""
    try:
        return parse_json(read_bytes(path), finite=finite)
    except FileNotFoundError as error:
        raise ArdorError(f"no file '{path}'", "is this the folder of a run?") from error
    except (OSError, ValueError) as error:
        raise ArdorError(
            f"cannot read '{path}': {reason(error)}", "it must be a JSON file"
        ) from error


def read_log(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines of a log, each with its content; without one that a killed run has cut off."""
    if not path.exists():
        return
    try:
        with opened(path, most=16 * LARGEST) as file:
            while line := file.readline(LARGEST):
                if entry := _entry(line):
                    yield line.decode().rstrip("\n"), entry
    except OSError as error:
        raise ArdorError(
            f"cannot read '{path}': {reason(error)}", "put back the log that Ardor wrote"
        ) from error


def _entry(line: bytes) -> dict[str, Any] | None:
    """The content of a line, if it is about an epoch of a stage."""
    try:
        entry = parse_json(line)
    except ValueError:
        return None
    known = isinstance(entry, dict) and isinstance(entry.get("stage"), str)
    return entry if known and type(entry.get("epoch")) is int else None


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
    """A folder to fill that becomes `path` when complete; never over one with files."""
    with _hidden_folder(path) as filling:
        # Only of processes that have ended: others may be writing theirs now.
        _remove(place for place in path.parent.glob(".*.part") if ended(place.name))
        yield filling
        with writing(path):
            filling.rename(path)


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """A folder to fill that takes the place of `path` when complete."""
    with _hidden_folder(path) as filling, _hidden_folder(path) as before:
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
def _hidden_folder(path: Path) -> Iterator[Path]:
    """An empty hidden folder next to `path`; removed at the end if it is still there."""
    with writing(path):
        _make_parent(path)
        folder = Path(tempfile.mkdtemp(".part", f".{stamp()}.", path.parent))
        folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_links(folder: Path) -> None:
    """An ArdorError where a link in a folder leads out of it, so that nothing outside changes."""
    inside = Path(os.path.realpath(folder))
    for place, folders, names in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *names)):
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside):
                raise ArdorError(
                    f"'{path}' is a link that leads out of '{folder}', and is not followed",
                    "put what it leads to in its place, or delete it",
                )


def clean(folder: Path) -> None:
    """Removes the unfinished files of killed processes in a folder that nobody else uses."""
    for place in (folder, *folder.iterdir()):
        if place.is_dir() and not place.is_symlink():
            _remove(place.glob(".*.part"))


def _remove(unfinished: Iterable[Path]) -> None:
    for path in unfinished:
        if not UNFINISHED.fullmatch(path.name):
            continue  # not written by Ardor
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
