"""Measures of the runs of a bench, and the runs of one row as one row of numbers."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from ardor.layers.operations import OPS
from ardor.pipeline.compare import MEASURES, seconds
from ardor.pipeline.run import STAGES, Run
from ardor.runtime.files import read_json, read_log
from ardor.searching.collapse import SORTS, OperationCounts, kept_by, together

PARTS = {"search": ("search",), "train": ("train", "prune")}  # pruning may fine-tune
SCORES = ("test_accuracy", "test_nll", "test_ece")
PAIRS = (*SCORES, *(f"ensemble_{score}" for score in SCORES), "params", "macs")
NOISE = "noise"  # the operation of S4 that is of no use

Record = Mapping[str, Any]  # what a result keeps of a run: all that its tables are made from


@dataclass(frozen=True)
class TableRun:
    """A finished run that counts for a row and a seed."""

    row: str
    seed: int
    run: Run
    same_as: str = ""  # the row that this run was made for, where it is not its own

    def to_json(self) -> dict[str, Any]:
        """Its facts for a result, as JSON."""
        return {
            "method": self.row,
            "seed": self.seed,
            "run": self.run.folder.name,
            "commit": read_json(self.run.folder / "config.json").get("commit", ""),
            **({"same_as": self.same_as} if self.same_as else {}),
            "metrics": self.run.metrics,
            "kept": asdict(operations(self.run)),
        }


class Measure:
    """Measures of finished runs: of the networks that they end with."""

    name: ClassVar[str] = "networks"
    stages: ClassVar[tuple[str, ...]] = STAGES  # that a run must go through

    def of(self, cell: TableRun) -> dict[str, Any]:
        """The facts of a run for a result."""
        return cell.to_json()

    def row(self, name: str, runs: Sequence[Record]) -> dict[str, Any]:
        """Mean and standard deviation over the seeds, and the best run on the test images."""
        metrics = [run["metrics"] for run in runs]
        scored = [each for each in metrics if "test_accuracy" in each]
        best: Record = max(scored, key=lambda found: found["test_accuracy"], default={})
        found: dict[str, Any] = {"method": name, "seeds": len(runs)}
        found["same_as"] = dict(Counter(run["same_as"] for run in runs if "same_as" in run))
        for measure in MEASURES:
            found |= over_seeds(measure, given(measure, metrics))
            found[f"{measure}_best"] = best.get(measure)
        found |= over_seeds("train_seconds", [seconds(each, *PARTS["train"]) for each in metrics])
        found["seconds"] = statistics.fmean(map(seconds, metrics))
        return {**found, **searches(runs)}

    def extra(self) -> dict[str, Any]:
        """Further entries of a result, besides the rows."""
        return {}


class Pairs(Measure):
    """Measures of architectures with the weights that their searches have left them."""

    name: ClassVar[str] = "pairs"

    def row(self, name: str, runs: Sequence[Record]) -> dict[str, Any]:
        """Mean and standard deviation over the seeds; of all networks together where there are."""
        metrics = [run["metrics"] for run in runs]
        found: dict[str, Any] = {"method": name, "seeds": len(runs)}
        for measure in PAIRS:
            found |= over_seeds(measure, given(measure, metrics))
        found |= over_seeds("search_core_seconds", core_seconds(metrics))
        return {**found, "seconds": statistics.fmean(map(seconds, metrics))}


class Followed(Measure):
    """Measures of networks, and of the searches that found them, epoch by epoch."""

    name: ClassVar[str] = "followed"

    def of(self, cell: TableRun) -> dict[str, Any]:
        """The facts of a run, with those of the collapse monitor epoch by epoch."""
        seen = [
            {
                "epoch": epoch,
                "skip_share": watch["skip_share"],
                "noise_share": share_of(NOISE, *(cell["kept"] for cell in watch["cells"].values())),
                "curvature": watch["curvature"],
            }
            for epoch, watch in watched(cell.run)
        ]
        return {**cell.to_json(), "seen": seen}


class Searches(Followed):
    """Measures of searches alone: the operations they keep, epoch by epoch."""

    name: ClassVar[str] = "searches"
    stages: ClassVar[tuple[str, ...]] = ("search",)

    def row(self, name: str, runs: Sequence[Record]) -> dict[str, Any]:
        """Mean and standard deviation over the seeds."""
        return {"method": name, "seeds": len(runs), **searches(runs)}


def searches(runs: Sequence[Record]) -> dict[str, Any]:
    """How long searches took, which operations they kept, and the measures of collapse."""
    metrics = [run["metrics"] for run in runs]
    found = over_seeds("search_seconds", [seconds(each, *PARTS["search"]) for each in metrics])
    found |= over_seeds("search_core_seconds", core_seconds(metrics))
    kept = [counts_of(run["kept"]) for run in runs]
    found |= over_seeds("ops_used", [len(each.operations) for each in kept])
    for name in ("op_entropy", *(f"{sort}_share" for sort in SORTS)):
        found |= over_seeds(name, [each.numbers()[name] for each in kept])
    found |= over_seeds("noise_share", [share_of(NOISE, each.operations) for each in kept])
    found |= over_seeds("largest_curvature", given("largest_curvature", metrics))
    found["collapsed"] = len(given("collapsed_since", metrics))
    return found


def given(name: str, metrics: Sequence[Mapping[str, Any]]) -> list[float]:
    """The values of a measure, from the runs that have it."""
    return [each[name] for each in metrics if name in each]


def over_seeds(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Mean and standard deviation of a measure; None without any value."""
    return {
        name: statistics.fmean(values) if values else None,
        f"{name}_std": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


def core_seconds(metrics: Sequence[Record]) -> list[float]:
    """The seconds of searches on all cores together; empty unless all of them have it."""
    searched = [each["stages"].get("search", {}) for each in metrics]
    found = [cost["core_seconds"] for cost in searched if "core_seconds" in cost]
    return found if len(found) == len(metrics) else []


def operations(run: Run) -> OperationCounts:
    """The operations that a search kept, over all edges."""
    choices = [choice for choice in run.space().choices if choice.kind == "op"]
    return together(kept_by(choices, run.architecture).values())


def counts_of(kept: Mapping[str, Any]) -> OperationCounts:
    """The operations kept, from a result; an older one does not have their families."""
    if "families" in kept:
        return OperationCounts(**kept)
    families: Counter[str] = Counter()
    for name, count in kept["operations"].items():
        if name in OPS:
            families[OPS[name].family] += count
    return OperationCounts(**kept, families=dict(families))


def share_of(operation: str, *cells: Mapping[str, int]) -> float:
    """The share of an operation among all that are kept."""
    kept: Counter[str] = Counter()
    for cell in cells:
        kept.update(cell)
    return kept[operation] / max(1, kept.total())


def watched(run: Run) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The entries of the collapse monitor in the log, epoch by epoch."""
    for _, entry in read_log(run.folder / "log.jsonl"):  # chance has no epochs
        if entry["stage"] == "search" and "watch" in entry:
            yield entry["epoch"], entry["watch"]
