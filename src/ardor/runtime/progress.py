"""Reports of how far a stage is."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far a stage is, for a terminal or any other observer."""

    stage: str
    epoch: int
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
    begin = time.perf_counter()
    return lambda: time.perf_counter() - begin
