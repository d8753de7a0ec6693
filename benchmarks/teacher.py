"""What a teacher is worth: a network for few labelled images, with and without one, at equal time.

    python benchmarks/teacher.py DATA TEACHER.onnx RESULT --runs FOLDER [--seeds 2] [--minutes 5]

Of the training images of CIFAR-10, 6,000 have their labels and 14,000 are shown to the teacher
alone. One command for each row, `ardor run`, with its usual settings; rows are run at the same
time, one on a thread, so that the machine is the same for both. RESULT is written after each seed.
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ardor import data
from ardor.bench.rivals.sets import keep
from ardor.data import stratified
from ardor.runtime.files import read_json, write_json
from ardor.runtime.origin import about

LABELLED, UNLABELLED, CLASSES = 6_000, 14_000, 10
ROWS: Mapping[str, Sequence[str]] = {
    "labels": (),
    "labels and teacher": (
        *("--teacher", "TEACHER", "--teacher-classes", "CLASSES"),
        *("--unlabelled", "MORE"),
    ),
}


def main() -> None:
    """Does the seeds that are not done yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5)
    asked = parser.parse_args()
    runs = read_json(asked.result)["runs"] if asked.result.exists() else []
    for seed in range(asked.seeds):
        if seed not in {run["seed"] for run in runs}:
            runs += side_by_side(asked, seed)
            write_json(asked.result, result(asked, runs))


def side_by_side(asked: argparse.Namespace, seed: int) -> list[dict[str, Any]]:
    """Both rows of a seed, at the same time."""
    asked.runs.mkdir(exist_ok=True)
    few, more = (asked.runs / f"{name}-{seed}.npz" for name in ("few", "more"))
    write_images(asked.data, seed, few, more)
    names = asked.runs / "classes.toml"  # labels in a file of arrays are numbers
    names.write_text("".join(f'{number} = "{number}"\n' for number in range(CLASSES)))
    places = {"TEACHER": str(asked.teacher), "MORE": str(more), "CLASSES": str(names)}
    going = []
    for number, (name, words) in enumerate(ROWS.items()):
        folder = asked.runs / f"student-{number}-{seed}"
        own = [places.get(word, word) for word in words]
        command = ["run", str(few), "--time", f"{asked.minutes:g}m", "--seed", str(seed), *own]
        going.append((name, folder, started([*command, "--run", str(folder), "--quiet"])))
    if any(process.wait() for *_, process in going):
        raise SystemExit("a run has failed")
    return [row(name, folder, seed) for name, folder, _ in going]


def started(words: Sequence[str]) -> "subprocess.Popen[bytes]":
    """The command `ardor` on one thread, going on beside us."""
    return subprocess.Popen([sys.executable, "-m", "ardor", *words])  # OMP_NUM_THREADS=1 is ours


def write_images(source: Path, seed: int, few: Path, more: Path) -> None:
    """Images with labels, and others without."""
    found = data.load(str(source))
    shares = [count / len(found.train) for count in (LABELLED, UNLABELLED)]
    labelled, others = stratified(found.train.labels, shares, seed=seed)
    chosen = data.Dataset(found.name, found.train[labelled], found.test, found.classes, ())
    keep(chosen, few)
    np.savez(more, x=found.train.pixels[others].numpy())


def row(name: str, folder: Path, seed: int) -> dict[str, Any]:
    """What came of a run."""
    metrics = read_json(folder / "metrics.json")
    seconds = sum(cost["core_seconds"] for cost in metrics["stages"].values())
    names = ("test_accuracy", "nonzero_params", "macs")
    agreement = {"teacher_agreement", "teacher_accuracy"} & metrics.keys()
    found = {key: metrics[key] for key in (*names, *sorted(agreement))}
    return {"learns": name, "seed": seed, "core_seconds": seconds, **found}


def result(asked: argparse.Namespace, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs, and the means over seeds."""
    words = f"DATA TEACHER.onnx docs/results/{asked.result.name} --runs runs"
    return {
        **about(f"python benchmarks/teacher.py {words} --minutes {asked.minutes:g}"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "threads": 1,
        "bench": "teacher",
        "measure": "teacher",
        "settings": {"minutes": asked.minutes, "labelled": LABELLED, "unlabelled": UNLABELLED},
        "table": [means([run for run in runs if run["learns"] == name]) for name in ROWS],
        "runs": runs,
    }


def means(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean over seeds of a row."""
    numbers = [name for name in runs[0] if name not in ("learns", "seed")]
    found = {name: statistics.fmean(run[name] for run in runs) for name in numbers}
    return {"learns": runs[0]["learns"], "seeds": len(runs), **found}


if __name__ == "__main__":
    main()
