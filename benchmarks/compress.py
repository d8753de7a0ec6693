"""Networks made smaller under each prior: to the same size, from the same network, for as long.

    python benchmarks/compress.py PART DATA RESULT --runs FOLDER [--seeds 2] [--threads 1]

A part is a set of networks and sizes, see `PARTS`. Each network is trained once and then made
smaller in every way; test images are looked at after all is done. RESULT is written after each;
what it has is not done again, and what was interrupted in FOLDER is gone on with.
"""

import argparse
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import ardor
from ardor.pipeline.given import given, layers_for
from ardor.pipeline.run import Run
from ardor.runtime.files import read_json, write_json
from ardor.runtime.origin import about

PRIORS = ("log-uniform", "magnitude", "laplace")
MEASURED = ("test_accuracy", "params", "nonzero_params", "macs")
# As the networks of the literature are trained: on images as they are.
PLAIN = {"optimiser": "adam", "rate": 1e-3, "weight_decay": 0.0, "batch": 100, "augment": []}
PLAIN |= {"mixup": 0.0, "smoothing": 0.0, "rate_warmup": 0.0}


@dataclass(frozen=True)
class Part:
    """Networks, how they are trained, and the sizes that they are brought to."""

    train: Mapping[str, Any]
    compress: Mapping[str, Any]
    cases: Mapping[str, tuple[str, Mapping[str, Any]]]  # name -> network, and what is asked
    images: Mapping[str, Mapping[str, Any]]  # settings of learning that are not the usual ones


PARTS = {
    "lenet": Part(
        train={**PLAIN, "epochs": 20, "average": 0.999},
        compress={"multiple": 1},
        cases={
            "LeNet-300-100, 60 times": (
                "lenet300",
                {"groups": ["weights"], "times_smaller": 60, "epochs": 60, "strength": 1e-2},
            ),
            "LeNet-5, 200 times": (
                "lenet5",
                {"groups": ["weights"], "times_smaller": 200, "epochs": 20, "strength": 1e-2},
            ),
            "LeNet-5, as 3-12-200": (
                "lenet5",
                {"groups": ["filters"], "max_macs": 141_200, "epochs": 24, "settle": 0.66},
            ),
        },
        images={"LeNet-300-100, 60 times": PLAIN, "LeNet-5, 200 times": PLAIN},
    ),
    "resnet20": Part(
        train={"time": "30m"},
        compress={
            "epochs": 8,
            "settle": 0.75,
            "optimiser": "sgd",
            "rate": 0.05,
            "weight_decay": 5e-4,
            "groups": ["filters"],
        },
        cases={
            "2 times, any widths": ("resnet20", {"max_macs": 20_400_000, "multiple": 1}),
            "4 times, widths of 8": ("resnet20", {"max_macs": 10_200_000, "multiple": 8}),
            "2 times, widths of 16": ("resnet20", {"max_macs": 20_400_000, "multiple": 16}),
        },
        images={},
    ),
}


def main() -> None:
    """Does what is not done yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("data", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--case", nargs="+", help="Some cases alone.")
    parser.add_argument("--prior", nargs="+", help="Some priors alone.")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    runs = read_json(asked.result)["runs"] if asked.result.exists() else []
    done = {(run["case"], run["prior"], run["seed"]) for run in runs}
    for case, prior, seed in every(PARTS[asked.part], asked.seeds):
        wanted = case in (asked.case or [case]) and prior in (asked.prior or [prior])
        if wanted and (case, prior, seed) not in done:
            runs.append(compressed(asked, case, prior, seed))
            write_json(asked.result, result(asked, runs))


def every(part: Part, seeds: int) -> list[tuple[str, str, int]]:
    """All cases, so that each has been done once before one is done again."""
    return [(c, prior, seed) for seed in range(seeds) for c in part.cases for prior in PRIORS]


def dense(asked: argparse.Namespace, network: str, seed: int) -> Run:
    """The network that all begin with."""
    folder = asked.runs / f"{network}-{seed}"
    if not folder.exists():
        found = given(network)
        own = {"train": PARTS[asked.part].train, "data": {"source": str(asked.data)}, "seed": seed}
        stages = ("train", "evaluate")
        Run.create(folder, *layers_for(found, [own]), stages=stages, given=found.architecture)
    return ardor.resume(folder)


def named(case: str, prior: str, seed: int) -> str:
    """The folder of a network that is made smaller."""
    return "-".join([*case.replace(",", "").split(), prior, str(seed)])


def compressed(asked: argparse.Namespace, case: str, prior: str, seed: int) -> dict[str, Any]:
    """A network made smaller, beside what it was."""
    part = PARTS[asked.part]
    network, wanted = part.cases[case]
    begun = dense(asked, network, seed)
    folder = asked.runs / named(case, prior, seed)
    if folder.exists():
        run = ardor.resume(folder)
    else:
        own = {**part.compress, **wanted}
        settings = {"train": part.images.get(case, {}), "compress": own, "seed": seed}
        run = ardor.compress(begun.folder, asked.data, settings, prior=prior, folder=folder)
    seconds = run.metrics["stages"]["compress"]["core_seconds"]
    facts = {"case": case, "prior": prior, "seed": seed, "cpu_seconds": seconds}
    before = {f"trained_{name}": run.metrics[f"trained_{name}"] for name in MEASURED}
    return {**facts, **{name: run.metrics[name] for name in MEASURED}, **before}


def result(asked: argparse.Namespace, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs, and the mean over seeds of each case."""
    part, places = PARTS[asked.part], f"{asked.part} DATA docs/results/{asked.result.name}"
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        rows.setdefault((run["case"], run["prior"]), []).append(run)
    return {
        **about(f"python benchmarks/compress.py {places} --runs runs"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "threads": asked.threads,
        "bench": f"compress-{asked.part}",
        "measure": "compress",
        "settings": {
            "train": dict(part.train),
            "compress": {case: {**part.compress, **own} for case, (_, own) in part.cases.items()},
            "learning": {case: dict(own) for case, own in part.images.items()},
        },
        "table": [row(*key, own) for key, own in sorted(rows.items())],
        "runs": runs,
    }


def row(case: str, prior: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds."""
    numbers = [name for name in runs[0] if name not in ("case", "prior", "seed")]
    means = {name: statistics.fmean(run[name] for run in runs) for name in numbers}
    return {"case": case, "prior": prior, "seeds": len(runs), **means}


if __name__ == "__main__":
    main()
