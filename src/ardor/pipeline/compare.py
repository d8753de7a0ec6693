"""Runs side by side: one row of figures for each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ardor.pipeline.run import Run

MEASURES = ("test_accuracy", "nonzero_params", "params", "macs")


def compared(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """One row for each run; with held-out accuracy if a run has no test images."""
    rows = []
    for run in map(Run.open, folders):
        metrics = run.metrics
        rows.append(
            {
                "run": str(run.folder),
                "data": run.config.data.source,
                "method": run.config.method["name"],
                "seed": run.config.seed,
                **{measure: metrics.get(measure) for measure in MEASURES},
                "seconds": round(seconds(metrics), 1),
                "held_out_accuracy": metrics.get("held_out_accuracy"),
            }
        )
    if all(row["held_out_accuracy"] is None for row in rows):
        rows = [{k: v for k, v in row.items() if k != "held_out_accuracy"} for row in rows]
    return rows


def seconds(metrics: Mapping[str, Any], *stages: str) -> float:
    """Seconds that these stages of a run took; of all its stages if none are named."""
    costs = metrics["stages"].items()
    return float(sum(cost["seconds"] for name, cost in costs if not stages or name in stages))
