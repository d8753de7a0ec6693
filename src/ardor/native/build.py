"""The C code in this folder: compiled when first needed, kept for the next time."""

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path

from ardor.errors import reason
from ardor.runtime.files import write

SOURCES = ("rows.h", "blocks.h", "pools.h", "chains.h", "states.h", "states.c")
FUNCTIONS = tuple(
    f"state_{way}_{kind}"
    for way in ("forward", "backward")
    for kind in ("float8", "float16", "double")
)
PATIENCE = 60.0  # seconds that a compiler has
LOG = logging.getLogger("ardor")


@cache
def library() -> ctypes.CDLL | None:
    """The native code, compiled when first needed and kept; None where it cannot be."""
    if os.environ.get("ARDOR_NATIVE") == "0":
        return None
    try:
        return _found()
    except Exception as error:  # without the fast path everything still runs
        message = "no native code, so that a search takes about three times as long: %s"
        LOG.warning(message, reason(error))
        return None


@cache
def processor() -> str:
    """The features of this processor, which -march=native uses."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith("flags")), "")


def _found() -> ctypes.CDLL:
    """The code compiled before, or else now; warns where the earlier file cannot be used."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        raise FileNotFoundError("there is no C compiler; install gcc, or set ARDOR_NATIVE=0")
    path, why = _place(compiler), None
    try:
        if path is not None:
            return _kept(path)
    except Exception as error:
        why = error if path is not None and os.path.lexists(path) else None
    with tempfile.TemporaryDirectory() as folder:
        made = _compiled(compiler, Path(folder) / "states.so")
        try:
            found = _checked(made) if path is None else _kept(_keep(path, made.read_bytes()))
        except Exception as error:  # it could not be kept, but it can be used
            why, found = why or error, _checked(made)
    if why is not None:
        LOG.warning("native code is compiled anew, as '%s' is of no use: %s", path, reason(why))
    return found


def _place(compiler: str) -> Path | None:
    """Where compiled code is kept; None where no variable names a folder for it."""
    folder = resources.files("ardor") / "native"
    text = "".join((folder / name).read_text() for name in SOURCES)
    key = hashlib.sha256(f"{text}{compiler}{platform.machine()}{processor()}".encode()).hexdigest()
    homes = (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache"))
    if homes[0] and not os.path.isabs(homes[0]):
        LOG.warning("XDG_CACHE_HOME '%s' is ignored, as it is not a full path", homes[0])
    for home in filter(os.path.isabs, homes):
        return Path(home) / "ardor" / f"states-{key[:16]}.so"
    LOG.warning("native code is compiled each time: neither XDG_CACHE_HOME nor HOME is a full path")
    return None


def _kept(path: Path) -> ctypes.CDLL:
    """Code compiled before, checked: no other user can have changed it, and it is complete."""
    with (
        _opened(path.parent) as folder,
        _opened(path, folder) as code,
        _opened(_hash_file(path), folder) as hashed,
    ):
        with open(code, "rb", closefd=False) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if os.read(hashed, 100) != digest.encode():
            raise ValueError("it is not what was written, but cut or changed")
        # The very file that was checked, even if the path leads to another one by now.
        same = Path(f"/proc/self/fd/{code}")
        return _checked(same if same.exists() else path)


@contextmanager
def _opened(path: Path, folder: int | None = None) -> Iterator[int]:
    """A file of `folder`, or a folder, for reading; refused where others can write to it."""
    name = path if folder is None else path.name
    # Does not follow a link, and does not wait for ever where it is a pipe.
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        found = os.fstat(handle)
        what = "its folder" if folder is None else "the file or its hash"
        if not (stat.S_ISDIR if folder is None else stat.S_ISREG)(found.st_mode):
            raise OSError(f"{what} is something else")
        if found.st_uid != os.geteuid():
            raise PermissionError(f"{what} belongs to another user")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"others can write to {what}")
        yield handle
    finally:
        os.close(handle)


def _hash_file(path: Path) -> Path:
    """The file with the hash of compiled code."""
    return path.with_suffix(".sha256")


def _keep(path: Path, code: bytes) -> Path:
    """Writes compiled code and its hash into a folder that no other user can write to."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with _opened(path.parent):
        write(path, code)
        write(_hash_file(path), hashlib.sha256(code).hexdigest())
    return path


def _checked(path: Path) -> ctypes.CDLL:
    """The library, or an error if one of its functions is missing."""
    found = ctypes.CDLL(str(path))
    missing = [name for name in FUNCTIONS if not hasattr(found, name)]
    if missing:
        raise AttributeError(f"it has no {missing[0]}")
    return found


def _compiled(compiler: str, made: Path) -> Path:
    """The shared library; on one thread where the compiler knows no OpenMP."""
    command = [compiler, "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math"]
    with resources.as_file(resources.files("ardor") / "native") as source:
        command += ["-shared", "-fPIC", str(source / "states.c"), "-lm", "-o", str(made)]
        if _ended([*command, "-fopenmp"]) and (code := _ended(command)):
            raise OSError(f"the compiler '{compiler}' ended with {code}")
    return made


def _ended(command: list[str]) -> int:
    """The exit code of a command; killed with all that it started if it takes too long."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"'{command[0]}' did not end within {PATIENCE:.0f} seconds") from error
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
