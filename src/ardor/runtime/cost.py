"""The cost of a stage: wall time, time of all cores, and peak memory."""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

from ardor.runtime.progress import clock_from_now

TIMED = 3  # calls, after a first one that is slow
LONG = 20.0  # seconds: where the first call takes longer, it is the only one


@dataclass
class Cost:
    """The cost of a stage."""

    seconds: float = 0.0
    core_seconds: float = 0.0
    peak_memory_mb: float = 0.0


@contextmanager
def measured() -> Iterator[Cost]:
    """Wall time, time of all cores together, and peak memory of the code inside."""
    cost, begin, worked = Cost(), time.perf_counter(), time.process_time()
    _reset_peak()
    yield cost
    cost.seconds = round(time.perf_counter() - begin, 3)
    cost.core_seconds = round(time.process_time() - worked, 3)
    cost.peak_memory_mb = round(_peak(), 1)


def _reset_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the largest size so far


def _peak() -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(work: Callable[[], object]) -> float:
    """Seconds of a call; the first, which is slow, counts only where calls are long."""
    first = once(work)
    return first if first > LONG else median_low(once(work) for _ in range(TIMED))


def once(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    clock = clock_from_now()
    work()
    return clock()
