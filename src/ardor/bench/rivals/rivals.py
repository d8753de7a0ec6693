"""Ardor and what people use instead: accuracy in the same CPU seconds on the same images."""

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from ardor.bench.plots import plots
from ardor.bench.rivals.contenders import CONTENDERS, KNOWN
from ardor.bench.rivals.own import OWN
from ardor.bench.rivals.sets import SETS, image_file, prepared
from ardor.bench.rivals.task import Task
from ardor.data import load
from ardor.errors import ArdorError, unknown
from ardor.reporting.evaluation import wilson
from ardor.runtime.files import read_json, read_object, write, write_json
from ardor.runtime.origin import FORMAT, about, commit
from ardor.settings.fields import checked
from ardor.settings.sections import SearchConfig

SEEDS = 2
MINUTES: Mapping[str, tuple[float, ...]] = {
    **dict.fromkeys(SETS, (1.0, 5.0)),
    "cifar10": (20.0,),
}
ONCE = frozenset({"cifar10"})  # whose runs are long: one seed
Measured = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A contender on some images."""

    images: str
    minutes: float
    contender: str
    seed: int

    @property
    def name(self) -> str:
        """Under which its outcome is kept."""
        return f"{self.images}-{self.minutes:g}m-{self.contender}-{self.seed}"

    @property
    def command(self) -> str:
        """What a person types to do it alone; the images are in a file in the bench's folder."""
        source, time = SETS[self.images].source, f"{self.minutes:g}m"
        if self.contender in OWN:
            way, file = OWN[self.contender], image_file(self.images, self.seed)
            return way.command(str(file), 60 * self.minutes, source, self.seed)
        asked = f"--images {self.images} --methods {self.contender} --time {time}"
        where = "" if source == "digits" else " --data DATA"
        return f"ardor bench rivals {asked} --seeds {self.seed + 1}{where}"


def rivals(
    folder: Path,
    *,
    source: str | None = None,
    seeds: int | None = None,
    images: Sequence[str] = (),
    methods: Sequence[str] = (),
    time: str | None = None,
    earlier: Path | None = None,
    so_far: bool = False,
    command: str,
    say: Callable[[str], None],
) -> Measured:
    """Runs what is not done yet, or nothing; accuracies by images, time and contender.

    `source` is the folder of the data sets, `methods` are contenders, `time` is "1m,5m" or so; what
    the `earlier` result has is done. The result and its plots are in the folder after each run.
    """
    known = {} if earlier is None else known_runs(earlier)
    root = None if source is None else Path(source)
    given = time.split(",") if time else []
    minutes = [checked("", SearchConfig, {"time": each}).time / 60 for each in given]
    done: list[Measured] = []
    for job in jobs(seeds, images, methods, minutes):
        path = folder / "runs" / f"{job.name}.json"
        if job.name in known and not path.exists():
            write_json(path, known[job.name])
        if not path.exists() and not so_far:
            say(f"{job.name} ...")
            file = prepared(job.images, job.seed, root, folder)
            measured = in_own_process(job, file)
            write_json(path, {**asdict(job), "commit": commit(), **measured})
        if path.exists():
            done.append(read_json(path))
            keep(folder, result(done, command))
    if not done:
        raise ArdorError(
            f"no run of the bench 'rivals' is finished in '{folder}'",
            "leave --so-far out to run it",
        )
    return result(done, command)


def known_runs(path: Path) -> dict[str, Measured]:
    """The runs in an earlier result, by the names of their jobs."""
    content = read_object(path, FORMAT)
    keys = [each.name for each in fields(Job)]
    try:
        runs = [dict(run) for run in content["runs"]]
        result(runs, "")  # complete as those that are made now
        return {Job(**{key: run[key] for key in keys}).name: run for run in runs}
    except (KeyError, TypeError, ValueError) as error:
        raise ArdorError(
            f"'{path}' is no result of the bench 'rivals'",
            "leave --results out: the bench then makes its runs anew",
        ) from error


def keep(folder: Path, found: Measured) -> None:
    """Writes a result, with its plots next to it."""
    write_json(folder / "results.json", found)
    for name, svg in plots(found).items():
        write(folder / f"{name}.svg", svg)


def jobs(
    seeds: int | None, sets: Sequence[str], contenders: Sequence[str], minutes: Sequence[float]
) -> Iterator[Job]:
    """Seed after seed, the short ones first: whatever stops a bench, it leaves rows to compare."""
    check_known("set of images", sets, SETS)
    check_known("contender", contenders, KNOWN)
    for seed in range(seeds or SEEDS):
        for limit in sorted(minutes or {m for own in MINUTES.values() for m in own}):
            for name in sets or SETS:
                asked = minutes or limit in MINUTES[name]
                if asked and (seeds or seed == 0 or name not in ONCE):
                    yield from (Job(name, limit, who, seed) for who in contenders or CONTENDERS)


def check_known(kind: str, names: Sequence[str], known: Mapping[str, object]) -> None:
    """An ArdorError where there is no such thing."""
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)


def in_own_process(job: Job, images: Path) -> Measured:
    """The outcome of a job, in a new process with one thread."""
    asked = json.dumps({**asdict(job), "path": str(images)})
    done = subprocess.run(
        [sys.executable, "-m", "ardor.bench.rivals.rivals", asked],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        raise ArdorError(f"cannot measure '{job.name}': {said}", "give the command again")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def outcome(job: Job, images: Path) -> Measured:
    """What a contender makes of the images."""
    torch.set_num_threads(1)
    found = load(str(images))
    cut = SETS[job.images]
    task = Task(images, found, cut.source, cut.mirrored, 60 * job.minutes, job.seed)
    made = KNOWN[job.contender](task)
    return {**made.to_json(), "test_images": len(found.test)}


def result(done: Sequence[Measured], command: str) -> Measured:
    """A row for each set, time and contender; and all runs."""
    groups: dict[tuple[str, float, str], list[Measured]] = {}
    for run in done:
        groups.setdefault((run["images"], run["minutes"], run["contender"]), []).append(run)
    return {
        **about(command),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "threads": 1,
        "bench": "rivals",
        "measure": "rivals",
        "settings": {"sets": sorted({images for images, _, _ in groups})},
        "table": [row(*key, runs) for key, runs in groups.items()],
        "runs": list(done),
    }


def row(images: str, minutes: float, contender: str, runs: Sequence[Measured]) -> Measured:
    """The mean over seeds, and how far chance in the test images may have moved it."""
    accuracy = statistics.fmean(run["accuracy"] for run in runs)
    sizes = ("params", "nonzero_params", "macs", "latency_ms", "cpu_seconds")
    return {
        "images": images,
        "minutes": minutes,
        "contender": contender,
        "seeds": len(runs),
        "accuracy": accuracy,
        "interval": interval(accuracy, runs[0]["test_images"], [run["accuracy"] for run in runs]),
        **{n: statistics.fmean(r[n] for r in runs) for n in sizes if all(n in r for r in runs)},
        "command": Job(images, minutes, contender, runs[0]["seed"]).command,
    }


def interval(accuracy: float, images: int, seen: Sequence[float]) -> float:
    """Half of a 95 % interval: chance in the test images, and in the seeds."""
    low, high = wilson(round(accuracy * images), images)
    of_seeds = statistics.stdev(seen) / math.sqrt(len(seen)) if len(seen) > 1 else 0.0
    return max((high - low) / 2, 1.96 * of_seeds)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    where = Path(given.pop("path"))
    sys.stdout.write(json.dumps(outcome(Job(**given), where)) + "\n")
