"""The curvature in all gates against a training step on the same batch: memory, and time.

    python benchmarks/curvature.py docs/results/curvature-memory.json

Peak memory is that of a process of its own for each, beyond what it had before net and batch were
made. Times are taken in turn in one process, of CPU seconds on one thread. The step is one of the
weights alone, the cheapest there is.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from ardor.bench.speed.contenders import Size
from ardor.data import Images
from ardor.methods.darts import Darts
from ardor.runtime.cost import measured
from ardor.runtime.device import Runtime
from ardor.runtime.origin import about
from ardor.searching.loop import SearchLoop
from ardor.settings.presets import preset
from ardor.settings.sections import SearchConfig
from ardor.spaces import Space, make

ROUNDS = 5
BATCH = 64
FEW = 4  # images of the first call: torch loads parts of itself then
DRAWS = {"exact": 0, "one drawn label": 1}  # labels that are drawn for each image
WORKS = ("training step", *DRAWS)
SPACES = ("cells", "nasbench201")
Work = Callable[[], object]


def space_of(name: str) -> Space:
    """Eight cells of sixteen channels for 32x32 images, or the space of the preset nasbench201."""
    if name == "cells":
        return Size().space
    given = preset(name)
    side = given["data"]["size"]
    own = {key: value for key, value in given["space"].items() if key != "name"}
    return make(name, {**own, "image": (3, side, side), "classes": 10})


def ready(name: str, work: str, batch: int) -> Work:
    """A call that does the work on a batch of noise."""
    space = space_of(name)
    pixels = torch.randint(256, (batch, *space.image), dtype=torch.uint8)
    images = Images(pixels, torch.arange(batch) % space.classes)
    config = SearchConfig(**{**Darts.search, "batch": batch})
    runtime = Runtime.start("cpu", 0)
    loop = SearchLoop(space, Darts(space), (images, images), config, Path(os.devnull), runtime)
    seen = loop.batch(loop.train, torch.arange(batch), 0)
    if work not in DRAWS:
        return lambda: loop.learner.step(seen, 0.0, joint=False)
    curvature = loop.learner.curvature(lambda: [seen])
    gates = {key: gate.detach() for key, gate in loop.method.sample(1, 0.0).items()}
    return lambda: curvature(gates, samples=DRAWS[work])


def alone(name: str, work: str, batch: int) -> float:
    """MB of peak memory beyond that of Python and torch; of this process, so once in each."""
    ready(name, work, FEW)()
    with measured() as before:
        pass
    with measured() as after:
        again = ready(name, work, batch)
        again()
        again()  # a second time: a step has its momenta only now
    return after.peak_memory_mb - before.peak_memory_mb


def memory(name: str, work: str, batch: int = BATCH) -> float:
    """The result of `alone` in a process of its own."""
    words = [sys.executable, __file__, name, work, str(batch)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout)


def turns(name: str) -> list[dict[str, float]]:
    """CPU seconds of every work, in each of some rounds."""
    works = {work: ready(name, work, BATCH) for work in WORKS}
    for work in works.values():
        work()  # the first call allocates, and fills caches
    return [{key: timed(work) for key, work in works.items()} for _ in range(ROUNDS)]


def timed(work: Work) -> float:
    """CPU seconds of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def rows(run: dict[str, Any]) -> list[dict[str, Any]]:
    """What each work takes, and how many times as much as a training step."""
    step, mb = WORKS[0], run["memory_mb"]
    found = []
    for work in WORKS:
        ratios = [one[work] / one[step] for one in run["cpu_seconds"]]
        best = {key: min(one[key] for one in run["cpu_seconds"]) for key in WORKS}
        found.append(
            {
                "space": run["space"],
                "work": work,
                "memory_mb": mb[work],
                "memory_ratio": mb[work] / mb[step],
                "cpu_seconds": best[work],
                "time_ratio": best[work] / best[step],
                "time_ratio_low": min(ratios),
                "time_ratio_high": max(ratios),
            }
        )
    return found


def main(to: Path) -> None:
    """Measures, prints, and writes the result."""
    torch.set_num_threads(1)
    runs = []
    for name in SPACES:
        mb = {work: round(memory(name, work), 1) for work in WORKS}
        runs.append({"seed": 0, "space": name, "memory_mb": mb, "cpu_seconds": turns(name)})
    result = {
        **about(f"python benchmarks/curvature.py {to}"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "bench": "curvature",
        "threads": 1,
        "settings": {"rounds": ROUNDS, "batch": BATCH},
        "table": [row for run in runs for row in rows(run)],
        "runs": runs,
    }
    print(json.dumps(result["table"], indent=2))
    to.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(alone(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    else:
        main(Path(sys.argv[1]))
