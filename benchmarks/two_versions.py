"""Steps of two versions of Ardor, timed in turn in one run: has a change made anything slower?

git worktree add /tmp/before COMMIT
.venv/bin/python benchmarks/two_versions.py /tmp/before . docs/results/versions.json

Each version has a process of its own; in every round each step is timed in one and then in the
other, so that whatever else the machine does slows both alike. The ratio is of the least CPU times.
"""

import importlib
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROUNDS = 7
STEPS = ("darts step", "vinnas step", "vinnas step, plain weights", "ranking", "preparation")
SIZE = {"batch": 32, "channels": 16, "cells": 4}
HOMES = ("ardor.bench.speed.contenders", "ardor.benches.contenders")  # the latter before the rooms


def worker() -> None:
    """Times a step whenever it is named on stdin."""
    contenders = next(filter(None, map(imported, HOMES)))
    size, ready = contenders.Size(**SIZE), {}
    for line in sys.stdin:
        name = line.strip()
        contender = contenders.CONTENDERS[name]
        if name not in ready:
            ready[name] = contender.ready(size)
            ready[name]()  # the first call allocates, compiles, and fills caches
        begin = time.process_time()
        for _ in range(contender.calls):
            ready[name]()
        print(json.dumps((time.process_time() - begin) / contender.calls), flush=True)


def imported(name: str) -> Any:
    """A module, or None in a version that has it elsewhere."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def started(folder: Path) -> "subprocess.Popen[str]":
    """A worker that runs the source in a folder."""
    env = {**os.environ, "PYTHONPATH": str(folder.resolve() / "src"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, __file__]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, env=env, stdin=pipe, stdout=pipe, text=True)


def timed(process: "subprocess.Popen[str]", name: str) -> float:
    """CPU seconds of one call in a worker."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(name + "\n")
    process.stdin.flush()
    return float(json.loads(process.stdout.readline()))


def commit(folder: Path) -> str:
    """The commit of a folder."""
    words = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def row(name: str, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """How many times as long a step takes as before, with the spread over rounds."""
    before, after = ([each["times"][name][at] for each in rounds] for at in (0, 1))
    ratios = [now / then for then, now in zip(before, after, strict=True)]
    return {
        "step": name,
        "ratio": min(after) / min(before),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "before_seconds": min(before),
        "after_seconds": min(after),
    }


def main(before: Path, after: Path, to: Path) -> None:
    """Measures, prints, and writes the result."""
    from ardor.runtime.origin import about

    workers = [started(folder) for folder in (before, after)]
    for name in STEPS:
        for process in workers:
            timed(process, name)
    rounds: list[dict[str, Any]] = []
    for seed in range(ROUNDS):
        turn = 1 if seed % 2 == 0 else -1  # who goes first
        times = {name: [timed(w, name) for w in workers[::turn]][::turn] for name in STEPS}
        rounds.append({"seed": seed, "times": times})
    for process in workers:
        process.communicate()
    result = {
        **about("python benchmarks/two_versions.py BEFORE AFTER RESULT"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "bench": "two versions",
        "before": commit(before),
        "after": commit(after),
        "threads": 1,
        "settings": {"rounds": ROUNDS, **SIZE},
        "table": [row(name, rounds) for name in STEPS],
        "runs": rounds,
    }
    for one in result["table"]:
        spread = f"{one['ratio_low']:.3f} to {one['ratio_high']:.3f}"
        print(f"{one['step']:28} {one['ratio']:.3f}  ({spread})")
    to.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(*map(Path, sys.argv[1:4]))
    else:
        worker()
