"""The runs of one row of a bench as one row of numbers."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ardor.collapse import SORTS, Kept, kept_by, together
from ardor.run import Run

PARTS = {"search": ("search",), "train": ("train", "prune")}  # pruning may fine-tune
MEASURES = ("test_accuracy", "nonzero_params", "params", "macs")


@dataclass(frozen=True)
class Cell:
    """A finished run that counts for a row and a seed."""

    row: str
    seed: int
    run: Run
    same_as: str = ""  # the row that this run was made for, where it is not its own

    def to_json(self) -> dict[str, Any]:
        """What a result keeps of it."""
        return {
            "method": self.row,
            "seed": self.seed,
            "run": self.run.folder.name,
            "metrics": self.run.metrics,
        }


def summary(row: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Mean and standard deviation over the seeds; and the run that is best on the test images."""
    runs = [cell.run for cell in cells]
    metrics = [run.metrics for run in runs]
    best = max(metrics, key=lambda found: found["test_accuracy"])
    found: dict[str, Any] = {"method": row, "seeds": len(cells)}
    found["same_as"] = dict(Counter(cell.same_as for cell in cells if cell.same_as))
    for measure in MEASURES:
        found |= over_seeds(measure, given(measure, metrics))
        found[f"{measure}_best"] = best.get(measure)
    for part, stages in PARTS.items():
        found |= over_seeds(f"{part}_seconds", [seconds(run, *stages) for run in runs])
    found["seconds"] = statistics.fmean(map(seconds, runs))
    kept = [operations(run) for run in runs]
    found |= over_seeds("ops_used", [len(each.operations) for each in kept])
    for name in ("op_entropy", *(f"{sort}_share" for sort in SORTS)):
        found |= over_seeds(name, [each.numbers()[name] for each in kept])
    found |= over_seeds("largest_curvature", given("largest_curvature", metrics))
    found["collapsed"] = len(given("collapsed_since", metrics))
    return found


def given(name: str, metrics: Sequence[Mapping[str, Any]]) -> list[float]:
    """What was measured under a name, in the runs in which it was."""
    return [each[name] for each in metrics if name in each]


def over_seeds(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Mean and standard deviation of what was measured; none of what was not."""
    return {
        name: statistics.fmean(values) if values else None,
        f"{name}_std": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


def seconds(run: Run, *stages: str) -> float:
    """What these stages took; without any, all of them."""
    costs = run.metrics["stages"].items()
    return float(sum(cost["seconds"] for name, cost in costs if not stages or name in stages))


def operations(run: Run) -> Kept:
    """The operations that a search kept, over all edges."""
    choices = [choice for choice in run.space().choices if choice.kind == "op"]
    return together(kept_by(choices, run.architecture))
