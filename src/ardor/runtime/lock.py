"""A folder is used by one process at a time, also on a disk that several machines share.

A process that wants the folder puts a lock file of its own there, and then looks for those of
others. A name is never used twice, so that the file of a process that has ended can be removed by
anyone, at any time.
"""

import functools
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from platform import node

from ardor.errors import ArdorError

STAMP = re.compile(r"\.(?:lock-)?([0-9a-f]{8})-(\d+)-(\d+)\b")
BEAT, SILENT = 30.0, 300.0  # seconds between signs of life; without one for so long: it ended
TURN = 2.0  # seconds in which one of two that came at the same time gives up
_held: dict[Path, Path] = {}  # lock file of this process -> the folder it is for


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """The folder is for this thread alone, which may nest; an ArdorError names who else uses it."""
    folder = folder.absolute()
    own = folder / f".lock-{stamp()}-{threading.get_ident()}"
    if own in _held:
        yield
        return
    end = threading.Event()
    try:
        _put(own)
        _wait_for_turn(own)
        _held[own] = folder
        threading.Thread(target=_beat, args=(own, end), daemon=True).start()
        yield
    finally:
        end.set()
        _held.pop(own, None)
        with suppress(OSError):
            own.unlink()


def check_held(path: Path) -> None:
    """An ArdorError if `path` is in a folder that this process held and has lost."""
    inside = path.absolute()
    for own, folder in list(_held.items()):
        if inside.is_relative_to(folder) and not own.exists():
            raise ArdorError(
                f"'{folder}' was deleted, renamed or taken over while it was in use",
                "put it back, and go on with 'ardor resume': all up to the last epoch is in it",
            )


@functools.cache
def _machine() -> str:
    """A key for this machine or container: within it, the number of a process is unique."""
    facts = [node()]
    with suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        facts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(" ".join(facts).encode()).hexdigest()[:8]


def stamp() -> str:
    """A name that only this process ever has: of its machine, number and start."""
    return f"{_machine()}-{os.getpid()}-{_started(os.getpid()) or 0}"


def ended(name: str) -> bool:
    """Whether the process whose stamp is in a file's name has ended; False if it is not known."""
    found = STAMP.match(name)
    if not found or found[1] != _machine():
        return False
    number, began = int(found[2]), int(found[3])
    try:
        os.kill(number, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return _started(number) not in (began, None)  # the number may be another process's by now


def _started(process: int) -> int | None:
    """When a process was started, in ticks of its machine; 0 if it has ended, None if unknown."""
    try:
        state, *rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return 0 if state in "ZX" else int(rest[18])


def _put(own: Path) -> None:
    """Writes the lock file: who uses the folder, and since when."""
    owner = {
        "host": node(),
        "process": os.getpid(),
        "since": datetime.now().astimezone().isoformat(" ", "seconds"),
    }
    part = own.with_name(f".{stamp()}.{threading.get_ident()}.part")
    try:
        part.write_text(json.dumps(owner) + "\n")
        part.replace(own)  # whole, for those who read it at once
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise ArdorError(
            f"cannot write '{own}': {error.strerror}",
            "free some space, or choose a folder you may write to",
        ) from error


def _wait_for_turn(own: Path) -> None:
    """Waits for others that came at the same time to give up; an ArdorError if one stays."""
    latest = time.monotonic() + TURN
    while others := _others(own):
        if min(others) < own or time.monotonic() > latest:
            raise _in_use(min(others))
        time.sleep(0.02)


def _others(own: Path) -> list[Path]:
    """The lock files of others that still run; those of processes that have ended are removed."""
    living = []
    for path in set(own.parent.glob(".lock-*")) - {own}:
        with suppress(FileNotFoundError):
            # By the clock of the disk alone, as the clocks of two machines may differ.
            silent = own.stat().st_mtime - path.stat().st_mtime
            if ended(path.name) or (silent > SILENT and _machine() not in path.name):
                path.unlink()
            else:
                living.append(path)
    return living


def _in_use(path: Path) -> ArdorError:
    try:
        owner = json.loads(path.read_text())
        who = f"process {owner['process']} on '{owner['host']}', since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return ArdorError(
        f"'{path.parent}' is in use by {who}",
        f"wait until it has ended, or stop it; if it no longer runs, delete '{path}'",
    )


def _beat(own: Path, end: threading.Event) -> None:
    """Signs of life for other machines, until the end."""
    while not end.wait(BEAT):
        with suppress(OSError):
            os.utime(own)
