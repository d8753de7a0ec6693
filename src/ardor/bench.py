"""Benches: methods x seeds of ordinary runs, a table of mean ± std from their results; or speed."""

import statistics
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ardor.benches import speed
from ardor.config import preset, titles
from ardor.errors import ArdorError, unknown
from ardor.files import write_json
from ardor.run import STAGES, Run, about
from ardor.runtime import Progress
from ardor.stages import do

MEASURES = ("test_accuracy", "nonzero_params", "params", "macs")


def benches() -> dict[str, str]:
    """The benches that come with Ardor, each in a line."""
    return {**titles("benches"), "speed": str(speed.__doc__)}


def bench(
    name: str,
    seeds: int | None,
    folder: Path,
    *,
    source: str | None = None,
    command: str,
    say: Callable[[str], None],
    watch: Callable[[Progress], None],
) -> dict[str, Any]:
    """Runs what is not done yet, each in a folder of its own; the results, and a table of them.

    `source` puts other images in place of the bench's own.
    """
    if name not in benches():
        raise unknown("bench", name, benches())
    if name == "speed":
        if source is not None:
            raise ArdorError(f"--data {source} is not for the bench 'speed'", "leave --data out")
        rounds = speed.ROUNDS if seeds is None else seeds
        return speed.speed(folder / name, rounds, command=command, say=say)
    grid = tomllib.loads((resources.files("ardor") / "benches" / f"{name}.toml").read_text())
    count = grid["seeds"] if seeds is None else seeds
    base = preset(grid["preset"]) if "preset" in grid else {}
    images = {} if source is None else {"data": {"source": source}}
    place = folder / (name if source is None else f"{name}-{Path(source).name}")
    runs: dict[str, list[Run]] = {}
    for method, change in grid["methods"].items():
        for seed in range(count):
            layers = (base, grid["settings"], change, images, {"seed": seed})
            run = _open(place / f"{method}-{seed}", layers, command)
            run.watch = watch
            for stage in run.stages_left():
                say(f"{run.folder}: {stage} ...")
                do(run, stage)
            runs.setdefault(method, []).append(run)
    return _result(name, place, runs, command)


def _open(folder: Path, layers: Sequence[Mapping[str, Any]], command: str) -> Run:
    """The run of one cell of the grid, begun or new."""
    if (folder / "config.json").exists():
        return Run.open(folder)
    return Run.create(folder, *layers, command=command, stages=STAGES)


def _result(name: str, place: Path, runs: dict[str, list[Run]], command: str) -> dict[str, Any]:
    result = {
        **about(command),
        "bench": name,
        "table": [_summary(method, group) for method, group in runs.items()],
        "runs": [
            {"method": method, "seed": run.config.seed, "metrics": run.metrics}
            for method, group in runs.items()
            for run in group
        ],
    }
    write_json(place / "results.json", result)
    return result


def _summary(method: str, runs: Sequence[Run]) -> dict[str, Any]:
    """One row: mean ± std (best) over the seeds."""
    row: dict[str, Any] = {"method": method, "seeds": len(runs)}
    for measure in MEASURES:
        values = [run.metrics[measure] for run in runs if measure in run.metrics]
        row[measure] = statistics.fmean(values) if values else None
        row[f"{measure}_std"] = statistics.stdev(values) if len(values) > 1 else 0.0
    row["search_seconds"] = statistics.fmean(_seconds(run, "search") for run in runs)
    row["seconds"] = statistics.fmean(_seconds(run) for run in runs)
    return row


def _seconds(run: Run, *stages: str) -> float:
    """What these stages took; without any, all of them."""
    costs = run.metrics["stages"].items()
    return float(sum(cost["seconds"] for name, cost in costs if not stages or name in stages))


def compared(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """One row for each run."""
    rows = []
    for run in map(Run.open, folders):
        rows.append(
            {
                "run": str(run.folder),
                "data": run.config.data.source,
                "method": run.config.method["name"],
                "seed": run.config.seed,
                **{measure: run.metrics.get(measure) for measure in MEASURES},
                "seconds": round(_seconds(run), 1),
            }
        )
    return rows
