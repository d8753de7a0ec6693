"""Who uses a folder: one process at a time, also on a disk that several machines share.

Whoever wants it puts a file of its own there, and then looks for those of others. A name is never
used twice, so that the file of a process that has ended can be removed by anyone, at any time.
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
BEAT, SILENT = 30.0, 300.0  # seconds: signs of life, and how long without any is a sign of death
TURN = 2.0  # seconds in which one of two that came at once steps back
_held: dict[Path, Path] = {}  # file of this process -> the folder it is for


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Has the folder to oneself; an ArdorError names who has it. Nests within a thread."""
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
    """An ArdorError where a folder in use, in which `path` is, is no longer where it was."""
    inside = path.absolute()
    for own, folder in list(_held.items()):
        if inside.is_relative_to(folder) and not own.exists():
            raise ArdorError(
                f"'{folder}' was deleted, renamed or taken over while it was in use",
                "put it back, and go on with 'ardor resume': all up to the last epoch is in it",
            )


@functools.cache
def _machine() -> str:
    """What tells apart the machines, and the containers, in which a process can have a number."""
    facts = [node()]
    with suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        facts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(" ".join(facts).encode()).hexdigest()[:8]


def stamp() -> str:
    """A name that only this process ever has: its machine, its number, when it was started."""
    return f"{_machine()}-{os.getpid()}-{_started(os.getpid()) or 0}"


def ended(name: str) -> bool:
    """Whether the process whose stamp a file's name holds has ended; False where none can tell."""
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
    """When a process was started, in ticks of its machine; 0 if it is dead, None if unknown."""
    try:
        state, *rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return 0 if state in "ZX" else int(rest[18])


def _put(own: Path) -> None:
    """The file that says who is here, and since when."""
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
    """Waits for those that came at the same time to step back; an ArdorError if one is there."""
    latest = time.monotonic() + TURN
    while others := _others(own):
        if min(others) < own or time.monotonic() > latest:
            raise _in_use(min(others))
        time.sleep(0.02)


def _others(own: Path) -> list[Path]:
    """The files of others that are still there; those of the dead are removed."""
    living = []
    for path in set(own.parent.glob(".lock-*")) - {own}:
        with suppress(FileNotFoundError):
            # By the clock of the disk alone: those of two machines may differ.
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
        f"wait until it has ended, or stop it; if it is no more, delete '{path}'",
    )


def _beat(own: Path, end: threading.Event) -> None:
    """Signs of life for other machines, until the end."""
    while not end.wait(BEAT):
        with suppress(OSError):
            os.utime(own)
