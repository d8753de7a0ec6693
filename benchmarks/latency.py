"""How much of the multiply-adds that compressing saves becomes time saved, in onnxruntime.

    python benchmarks/latency.py RESULT --runs FOLDER --case "2 times" "4 times"

The ONNX file of each network that `benchmarks/compress.py` has made smaller, beside that of the
network it was made of, on one thread: one after the other in each round, so that the machine is the
same for both, and the median of all rounds. The spread is between the quarters of the rounds.
"""

import argparse
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from compress import PRIORS, named

from ardor.models.exporters.onnx import session_of, to_onnx
from ardor.models.model import Model
from ardor.models.sizes import multiply_adds
from ardor.runtime.files import write_json
from ardor.runtime.origin import about

BATCHES = (1, 32)
ROUNDS, WARM_UP = 200, 20


def main() -> None:
    """Times every network that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--case", nargs="+", required=True)
    asked = parser.parse_args()
    folders = {(c, p): asked.runs / named(c, p, 0) for c in asked.case for p in PRIORS}
    there = {key: folder for key, folder in folders.items() if (folder / "model").exists()}
    runs = [row(*key, folder, batch) for key, folder in there.items() for batch in BATCHES]
    cases = " ".join(f'"{case}"' for case in asked.case)
    words = f"docs/results/{asked.result.name} --runs runs --case {cases}"
    write_json(asked.result, {
        **about(f"python benchmarks/latency.py {words}"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "threads": 1,
        "bench": "compress-latency",
        "measure": "latency",
        "settings": {"rounds": ROUNDS, "batches": list(BATCHES)},
        "runs": runs,
    })  # fmt: skip


def row(case: str, prior: str, folder: Path, batch: int) -> dict[str, Any]:
    """Times of a network before and after, and what became of the multiply-adds saved."""
    models = [Model.load(folder / name) for name in ("trained", "model")]
    macs = [multiply_adds(model.net, model.shape) for model in models]
    dense, small = times([to_onnx(model) for model in models], models[0].shape, batch)
    saved = [1 - b / a for a, b in zip(dense, small, strict=True)]
    quarters = [statistics.median(saved[at::4]) for at in range(4)]
    return {
        "case": case, "prior": prior, "seed": 0, "batch": batch,
        "dense_ms": 1000 * statistics.median(dense), "small_ms": 1000 * statistics.median(small),
        "saved_time": statistics.median(saved), "spread": max(quarters) - min(quarters),
        "saved_macs": 1 - macs[1] / macs[0],
    }  # fmt: skip


def times(files: list[bytes], shape: tuple[int, int, int], batch: int) -> list[list[float]]:
    """Seconds of each round, of each file."""
    sessions = [session_of(content, 1) for content in files]
    pixels = {"pixels": np.zeros((batch, *shape), np.float32)}
    found: list[list[float]] = [[] for _ in files]
    for _ in range(WARM_UP + ROUNDS):
        for session, seconds in zip(sessions, found, strict=True):
            begin = time.perf_counter()
            session.run(["logits"], pixels)
            seconds.append(time.perf_counter() - begin)
    return [seconds[WARM_UP:] for seconds in found]


if __name__ == "__main__":
    main()
