"""Files that are written whole or not at all."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ardor.errors import ArdorError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what a disk can refuse into an error that says so."""
    try:
        yield
    except OSError as error:
        raise ArdorError(
            f"cannot write '{path}': {error.strerror or error}",
            "free some space, or choose a folder you may write to with --run",
        ) from error


def write(path: Path, content: bytes | str) -> None:
    """Puts a file in place in one move; a reader sees the old one or the new one."""
    data = content.encode() if isinstance(content, str) else content
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
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


def write_json(path: Path, content: Any) -> None:
    """Puts readable JSON in place."""
    write(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """The content of a JSON file, or an ArdorError that names the file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise ArdorError(f"no file '{path}'", "is this the folder of a run?") from error
    except (OSError, ValueError) as error:
        raise ArdorError(f"cannot read '{path}': {error}", "it must be a JSON file") from error


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill that takes the place of `path` when all is written."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        filling = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield filling
        with writing(path):
            os.chmod(filling, 0o755)
            if path.exists():
                path.rename(filling / ".replaced")
            filling.rename(path)
            shutil.rmtree(path / ".replaced", ignore_errors=True)
    finally:
        shutil.rmtree(filling, ignore_errors=True)
