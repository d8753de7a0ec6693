"""Steps and rankings against a plain DARTS supernet: time, memory, and how both grow."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ardor.bench.speed.contenders import CONTENDERS, Size, Work
from ardor.errors import ArdorError
from ardor.native.build import library
from ardor.runtime.cost import measured
from ardor.runtime.files import read_json, write_json
from ardor.runtime.origin import about

ROUNDS = 5  # in which every contender is timed in turn
FINEST_MB = 0.1  # memory is measured no finer than this
REPEATS = 3  # timings of a contender that has a process of its own

SIZE = Size()
SMALL = Size(batch=2, channels=8, cells=3, pixels=8)

# Size -> what it is tried at, and the steps that are taken there.
Growth = Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]]
GROWTH: Growth = {
    "batch": ((16, 32, 64, 128, 256), ("darts step", "vinnas step")),
    "channels": ((8, 16, 32), ("darts step",)),
    "cells": ((4, 8, 12, 20), ("darts step",)),
    "candidates": ((2, 4, 8), ("darts step",)),
}

Measured = dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """Two contenders, and which way their CPU times are divided."""

    name: str
    ours: str
    other: str
    speedup: bool  # other / ours, how many times faster; otherwise ours / other, what it costs

    def ratio(self, ours: float, other: float) -> float:
        """How many times faster, or how many times the cost."""
        return other / ours if self.speedup else ours / other


COMPARISONS = (
    Comparison("darts step", "darts step", "plain step", speedup=True),
    Comparison("vinnas step", "vinnas step", "plain step", speedup=True),
    Comparison("ranking", "ranking", "plain ranking", speedup=True),
    Comparison(
        "local reparametrisation", "vinnas step", "vinnas step, plain weights", speedup=False
    ),
    Comparison("data preparation", "preparation", "darts step", speedup=False),
)


def speed(
    folder: Path,
    rounds: int = ROUNDS,
    *,
    command: str,
    say: Callable[[str], None],
    size: Size = SIZE,
    growth: Growth = GROWTH,
) -> Measured:
    """Measures all that is missing; returns every ratio, and a row for each size."""
    kept = SavedTimings(folder / f"measured-on-{torch.get_num_threads()}-threads.json", say)
    times = alternated(size, rounds, kept)
    names = dict.fromkeys(name for c in COMPARISONS for name in (c.ours, c.other))
    costs = {name: cost(name, size, times, kept) for name in names}
    grown = [
        {"step": name, "along": along, "size": getattr(tried, along), **kept.alone(name, tried)}
        for along, name, tried in sizes(size, growth)
    ]
    result = {
        **about(command),
        "bench": "speed",
        "threads": torch.get_num_threads(),
        "native": library() is not None,
        "size": asdict(size),
        "settings": {"rounds": rounds, **asdict(size)},
        "peak_gflops": rate("matrix product", size, times) / 1e9,
        "table": [compared(comparison, times, costs) for comparison in COMPARISONS],
        "costs": costs,
        "growth": grown,
        "lines": lines(grown),
        "runs": [{"seed": seed, "times": each} for seed, each in enumerate(times)],
    }
    write_json(folder / "results.json", result)
    return result


class SavedTimings:
    """The measurements so far, in a file: a bench that was stopped goes on from there."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path, self.say = path, say
        self.content: dict[str, Measured] = read_json(path) if path.exists() else {}

    def of(self, name: str, measure: Callable[[], Measured]) -> Measured:
        """The measurement of that name, made if it is not in the file."""
        if name not in self.content:
            self.say(f"{name} ...")
            self.content[name] = measure()
            write_json(self.path, self.content)
        return self.content[name]

    def alone(self, name: str, size: Size) -> Measured:
        """Measures a contender in a process of its own."""
        words = ", ".join(f"{key} {value}" for key, value in asdict(size).items())
        return self.of(f"{name}: {words}", partial(in_own_process, name, size))


def timed(work: Work, calls: int) -> Measured:
    """Seconds of one call: of the processor, over all threads, and of the clock on the wall."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        work()
    return {
        "cpu_seconds": (time.process_time() - cpu) / calls,
        "seconds": (time.perf_counter() - wall) / calls,
    }


def alternated(size: Size, rounds: int, kept: SavedTimings) -> list[Measured]:
    """Contender -> times, for each round: if the machine is slower for a while, all of them are."""

    @cache
    def ready() -> dict[str, Work]:
        found = {name: contender.ready(size) for name, contender in CONTENDERS.items()}
        for work in found.values():
            work()  # the first call allocates, compiles, and fills caches
        return found

    def measure(seed: int) -> Measured:
        torch.manual_seed(seed)
        return {name: timed(work, CONTENDERS[name].calls) for name, work in ready().items()}

    return [kept.of(f"round {seed + 1}", partial(measure, seed)) for seed in range(rounds)]


def in_own_process(name: str, size: Size) -> Measured:
    """The result of `alone` in a new process: the memory of one contender would hide another's."""
    request = json.dumps({"name": name, **asdict(size)})
    done = subprocess.run(
        [sys.executable, "-m", "ardor.bench.speed.speed", request],
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        message = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        raise ArdorError(f"cannot measure '{name}': {message}", "is there memory left for it?")
    return dict(json.loads(done.stdout))


def alone(name: str, size: Size) -> Measured:
    """The best time of a few calls, and their peak memory beyond that of Python and torch."""
    contender = CONTENDERS[name]
    contender.ready(SMALL)()  # torch loads parts of itself when they are first used
    with measured() as before:
        pass
    with measured() as after:
        work = contender.ready(size)
        work()
        times = [timed(work, contender.calls) for _ in range(REPEATS)]
    return {
        **{clock: best(times, clock) for clock in times[0]},
        "memory_mb": round(max(after.peak_memory_mb - before.peak_memory_mb, 0.0), 1),
        "multiply_adds": contender.multiply_adds(size),
    }


def best(times: Sequence[Measured], clock: str) -> float:
    """The least of several times: other work of the machine can only add to it."""
    return min(float(each[clock]) for each in times)


def rate(name: str, size: Size, times: Sequence[Measured]) -> float:
    """Floating-point operations a second, two for each multiply-add."""
    seconds = best([each[name] for each in times], "seconds")
    return 2 * CONTENDERS[name].multiply_adds(size) / seconds


def cost(name: str, size: Size, times: Sequence[Measured], kept: SavedTimings) -> Measured:
    """The best time of one call of a contender."""
    mine = [each[name] for each in times]
    return {
        "cpu_seconds": best(mine, "cpu_seconds"),
        "seconds": best(mine, "seconds"),
        "images_per_second": size.batch / best(mine, "seconds"),
        "memory_mb": kept.alone(name, size)["memory_mb"],
        "of_peak": rate(name, size, times) / rate("matrix product", size, times),
    }


def compared(
    comparison: Comparison, times: Sequence[Measured], costs: Mapping[str, Measured]
) -> Measured:
    """The ratio of two contenders at their best, and its least and largest of a round."""
    pair = comparison.ours, comparison.other
    ours, other = (costs[name] for name in pair)
    rounds = [comparison.ratio(*(each[name]["cpu_seconds"] for name in pair)) for each in times]
    return {
        "name": comparison.name,
        "ours": comparison.ours,
        "other": comparison.other,
        "ratio": comparison.ratio(ours["cpu_seconds"], other["cpu_seconds"]),
        "ratio_low": min(rounds),
        "ratio_high": max(rounds),
        "memory_ratio": ours["memory_mb"] / max(other["memory_mb"], FINEST_MB),
    }


def sizes(size: Size, growth: Growth) -> Iterator[tuple[str, str, Size]]:
    """The quantity that grows, the step, and its size; all others as in `size`."""
    for along, (values, names) in growth.items():
        for name in names:
            for value in values:
                yield along, name, replace(size, **{along: value})


def lines(grown: Sequence[Measured]) -> list[Measured]:
    """A straight line through the times of each step against its batch."""
    found = []
    for name in dict.fromkeys(row["step"] for row in grown if row["along"] == "batch"):
        rows = [row for row in grown if (row["step"], row["along"]) == (name, "batch")]
        fit = line([row["size"] for row in rows], [row["cpu_seconds"] for row in rows])
        found.append({"step": name, "along": "batch", **fit})
    return found


def line(sizes: Sequence[float], costs: Sequence[float]) -> dict[str, float]:
    """The line that is nearest in relative terms, and the largest share it is off by."""
    x, y = np.asarray(sizes, dtype=float), np.asarray(costs, dtype=float)
    slope, level = np.polyfit(x, y, 1, w=1 / y)
    off = np.abs(level + slope * x - y) / y
    return {"level": float(level), "slope": float(slope), "largest_deviation": float(off.max())}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(alone(given.pop("name"), Size(**given))))
