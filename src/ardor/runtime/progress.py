"""Reports of how far a stage is, and the seconds that they count."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_now: ContextVar[Callable[[], float]] = ContextVar("now", default=time.perf_counter)


@dataclass(frozen=True)
class Progress:
    """How far a stage is, for a terminal or any other observer."""

    stage: str
    epoch: int  # 0 where there are none: a teacher looks at images
    epochs: int  # 0 while it is not known how many fit into the time
    done: float  # of the stage, in [0, 1]
    seconds_left: float
    terms: Mapping[str, float]  # means of this epoch so far
    note: str = ""  # what has just happened, if it is worth a line
    run_seconds_left: float | None = None  # of the whole run, where its time is limited
    held_out_accuracy: float | None = None  # after the last epoch, on images not learned from


def unwatched(progress: Progress) -> None:
    """Ignores the report."""


def clock_from_now() -> Callable[[], float]:
    """A clock that tells the seconds since it was made."""
    now = _now.get()
    begin = now()
    return lambda: now() - begin


@contextmanager
def processor_seconds() -> Iterator[None]:
    """Clocks made inside count seconds of the processor: a bench's, on a machine that is shared."""
    token = _now.set(time.process_time)
    try:
        yield
    finally:
        _now.reset(token)
