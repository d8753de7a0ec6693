"""The memory that the machine still has for this process."""

import re
from collections.abc import Iterator
from pathlib import Path

PAGE = 4096  # bytes, the unit in which the kernel counts the memory of a process


def available_memory(root: Path = Path("/")) -> float:
    """Bytes that may still be taken; infinite where that is not known."""
    lines = _read(root / "proc/meminfo").splitlines()
    known = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return float(min([*known, *_groups(root), *_addresses(root)], default=float("inf")))


def size(count: float) -> str:
    """A number of bytes in MB or GB."""
    return f"{count / 2**30:,.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def _groups(root: Path) -> Iterator[int]:
    """The bytes that the control groups of this process leave it, of both versions."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        first = root / "sys/fs/cgroup"
        limit, used = "memory.max", "memory.current"
        if "memory" in controllers.split(","):
            first, limit, used = first / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        elif controllers:
            continue
        own = first / path.strip("/")
        for folder in (own, *own.parents)[: len(own.parts) - len(first.parts) + 1]:
            numbers = [_read(folder / name).strip() for name in (limit, used)]
            if all(number.isdigit() for number in numbers):
                yield max(0, int(numbers[0]) - int(numbers[1]) + _cached(folder))


def _cached(folder: Path) -> int:
    """Bytes of cached files in a group's memory, which are freed when needed."""
    stat = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
    return int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))


def _addresses(root: Path) -> Iterator[int]:
    """The bytes that 'ulimit -v' leaves this process."""
    for limit in re.findall(r"^Max address space +(\d+)", _read(root / "proc/self/limits"), re.M):
        used = _read(root / "proc/self/statm").split()
        yield max(0, int(limit) - PAGE * int(used[0] if used else 0))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
