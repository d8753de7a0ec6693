"""Benches: rows x seeds of ordinary runs, a table of mean ± std of their results; or no runs."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from ardor.bench import gradients, grid
from ardor.bench.earlier import Known, portable
from ardor.bench.grid import Grid
from ardor.bench.measures import Followed, Measure, Pairs, Record, Searches, TableRun
from ardor.bench.nasbench201.truth import Truth
from ardor.bench.nasbench201.truths import Truths
from ardor.bench.plots import plots
from ardor.bench.rivals import rivals as rivals_module
from ardor.bench.rivals.rivals import rivals
from ardor.bench.speed import speed
from ardor.errors import ArdorError
from ardor.pipeline.resolve import difference, layered
from ardor.pipeline.run import Run
from ardor.pipeline.stages import do
from ardor.runtime.files import read_bytes, read_log, write, write_json
from ardor.runtime.origin import about
from ardor.runtime.progress import Progress, unwatched

# Benches that are no grid of runs: what measures them, in as many rounds as are asked for.
APART: Mapping[str, Callable[..., dict[str, Any]]] = {
    "speed": speed.speed,
    "gradients": gradients.gradients,
}


def benches() -> dict[str, str]:
    """The benches that come with Ardor, each in a line."""
    apart = {
        "speed": str(speed.__doc__),
        "gradients": str(gradients.__doc__),
        "rivals": str(rivals_module.__doc__),
    }
    return {**grid.names(), **{name: words.splitlines()[0] for name, words in apart.items()}}


def bench(
    name: str,
    folder: Path,
    *,
    so_far: bool = False,
    table: Path | None = None,
    results: Path | None = None,
    command: str,
    say: Callable[[str], None],
    on_progress: Callable[[Progress], None] = unwatched,
    **changes: Any,
) -> dict[str, Any]:
    """Makes the runs that are not done yet, unless `so_far`; returns their results and a table.

    Runs in earlier `results` are done. `changes` can be other images, rows, numbers of
    runs and times: see `grid.read`.
    """
    images = changes.pop("images", ())
    if name == "rivals":
        check_options(name, table=table, chance=changes.pop("chance", None))
        changes |= {"images": images, "earlier": results, "so_far": so_far}
        return rivals(folder / name, command=command, say=say, **changes)
    check_options(name, images=images)
    if name not in APART:
        cells = grid.read(name, **changes)
        measure = measure_of(cells, table)
        known = Known() if results is None else Known.read(results, cells, measure)
        work = Bench(
            cells,
            folder,
            known=known,
            measure=measure,
            command=command,
            say=say,
            on_progress=on_progress,
        )
        return work.so_far() if so_far else work.finish()
    rounds = changes.pop("seeds", None)
    check_options(name, **changes, so_far=so_far, table=table, results=results)
    given = [] if rounds is None else [rounds]
    return APART[name](folder / name, *given, command=command, say=say)


def measure_of(cells: Grid, table: Path | None) -> Measure:
    """The measure of the runs of a grid."""
    if cells.measure != Truths.name:
        check_options(cells.name, table=table)
        known = {measure.name: measure for measure in (Measure, Pairs, Followed, Searches)}
        return known[cells.measure]()
    if table is None:
        raise ArdorError(
            f"the bench '{cells.name}' looks true accuracies up, and has no table of them",
            f"name the file that has it: ardor bench {cells.name} --table FILE",
        )
    return Truths(Truth.read(table))


def check_options(name: str, **changes: Any) -> None:
    """An ArdorError where a bench does not have the options that are given."""
    options = {"source": "--data", "chance": "--random", "so_far": "--so-far"}
    for option, value in changes.items():
        if value not in (None, (), False):
            words = ",".join(value) if isinstance(value, tuple) else str(value)
            given = [options.get(option, f"--{option}"), *([words] if value is not True else [])]
            raise ArdorError(f"{' '.join(given)} is not for the bench '{name}'", "leave it out")


class Bench:
    """A grid of runs in a folder: those that are finished, and those still to do."""

    def __init__(
        self,
        grid: Grid,
        folder: Path,
        *,
        measure: Measure,
        command: str,
        say: Callable[[str], None],
        on_progress: Callable[[Progress], None],
        known: Known,
    ) -> None:
        self.grid, self.folder, self.measure = grid, folder / grid.place, measure
        self.command, self.say, self.on_progress = command, say, on_progress
        self.known, self.settings = known.runs, dict(known.settings)

    def finish(self) -> dict[str, Any]:
        """Makes all runs that are not finished; the result is written after each of them."""
        result: dict[str, Any] = {}
        runs: list[Record] = []
        for at in self.grid.cells():
            runs.append(self.known.get(at) or self.record(self.cell(*at)))
            result = self.result(runs)
            write_json(self.folder / "results.json", result)
            self.draw(result)
        return result

    def draw(self, result: Mapping[str, Any]) -> None:
        """Writes the plots of a result next to it."""
        for name, svg in plots(result).items():
            write(self.folder / f"{name}.svg", svg)

    def so_far(self) -> dict[str, Any]:
        """The result of the runs that are finished; nothing is run."""
        runs = []
        for at in self.grid.cells():
            if at in self.known:
                runs.append(self.known[at])
            elif cell := self.seen(*at):
                runs.append(self.record(cell))
        if not runs:
            raise ArdorError(
                f"no run of the bench '{self.grid.name}' is finished in '{self.folder}'",
                "leave --so-far out to run it",
            )
        return self.result(runs)

    def record(self, cell: TableRun) -> Record:
        """The facts of a run for a result."""
        own = cell.run if not cell.same_as else Run.open(self.place(cell.row, cell.seed))
        self.settings[cell.row] = portable(own.config)
        return self.measure.of(cell)

    def cell(self, row: str, seed: int) -> TableRun:
        """The run of a row and a seed, finished."""
        if seen := self.seen(row, seed):
            return seen
        run = self.opened(row, seed) or self.created(row, seed)
        run.on_progress = self.on_progress
        with run.held():
            if row in self.grid.searched_by and not run.done("search"):
                share_search(Run.open(self.place(self.grid.searched_by[row], seed)), run)
                self.do(run, ["search"])
            if same := self.same(row, seed, run):
                return same
            self.do(run, run.stages)
        return TableRun(row, seed, run)

    def seen(self, row: str, seed: int) -> TableRun | None:
        """The run of a row and a seed, if it is finished."""
        run = self.opened(row, seed)
        if run is None:
            return None
        return self.same(row, seed, run) or (
            TableRun(row, seed, run) if not run.stages_left() else None
        )

    def same(self, row: str, seed: int, run: Run) -> TableRun | None:
        """The run of the row it selects from, if that chose the same and went on alike."""
        first = self.grid.searched_by.get(row)
        other = self.opened(first, seed) if first and run.done("search") else None
        if first is None or other is None or other.stages_left():
            return None
        alike = other.architecture == run.architecture and goes_on(other) == goes_on(run)
        return TableRun(row, seed, other, first) if alike else None

    def do(self, run: Run, stages: Sequence[str]) -> None:
        for stage in stages:
            if not run.done(stage):
                self.say(f"{run.folder}: {stage} ...")
                do(run, stage)

    def place(self, row: str, seed: int) -> Path:
        """The folder of a run."""
        return self.folder / f"{row}-{seed}"

    def opened(self, row: str, seed: int) -> Run | None:
        """The run that was begun, which must have been made with the present settings."""
        folder = self.place(row, seed)
        if not (folder / "config.json").exists():
            return None
        run = Run.open(folder)
        if other := difference(run.config, layered(self.grid.layers(row, seed))):
            raise ArdorError(
                f"'{folder}' was made with {other}",
                "give another --folder, or move that one away: one table has one set of settings",
            )
        return run

    def created(self, row: str, seed: int) -> Run:
        """A new run."""
        layers, stages = self.grid.layers(row, seed), self.measure.stages
        return Run.create(self.place(row, seed), *layers, command=self.command, stages=stages)

    def result(self, runs: Sequence[Record]) -> dict[str, Any]:
        """The table, and all the facts that it was made from."""
        rows = {row: [run for run in runs if run["method"] == row] for row in self.grid.counts}
        verb = "search" if self.measure.stages == ("search",) else "run"
        return {
            **about(self.command),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "threads": torch.get_num_threads(),
            "bench": self.grid.name,
            "measure": self.measure.name,
            "seeds": dict(self.grid.counts),
            "left": sum(self.grid.counts.values()) - len(runs),
            "table": [self.measure.row(row, own) for row, own in rows.items() if own],
            "printed": dict(self.grid.printed),
            "note": self.grid.note,
            **self.measure.extra(),
            "commands": {row: self.grid.command(row, verb) for row, own in rows.items() if own},
            "settings": self.settings,
            "runs": list(runs),
        }


def goes_on(run: Run) -> tuple[Any, ...]:
    """The settings of what comes after an architecture is chosen."""
    config, search, prune = run.config, run.config.search, run.config.prune
    if prune.picking:  # its threshold is not set, but found
        prune = prune.model_copy(update={"threshold": "auto"})
    return config.network, config.train, prune, search.ensemble, search.statistics


def share_search(source: Run, run: Run) -> None:
    """Gives a run the finished search of another; its own then only selects an architecture."""
    checkpoints = sorted((source.folder / "checkpoint").glob("search-*.safetensors"))
    if not checkpoints:
        raise ArdorError(
            f"'{source.folder}' has no checkpoint of its search any more",
            f"put it back, or search anew: delete '{source.folder}' and '{run.folder}'",
        )
    lines = read_log(source.folder / "log.jsonl")
    own = [line + "\n" for line, entry in lines if entry["stage"] == "search"]
    write(run.folder / "log.jsonl", "".join(own))
    run.record.add(stages={"search": source.metrics["stages"]["search"]})
    newest = checkpoints[-1]
    write(run.folder / "checkpoint" / newest.name, read_bytes(newest, most=2**40))
