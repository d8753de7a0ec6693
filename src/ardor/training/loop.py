"""A stage that can be stopped at any step and continued as if nothing had happened.

`search` and `train` are both loops over epochs and steps; what they share is here: where the loop
stands, the running means of its terms, one log line and one checkpoint for each epoch.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from ardor.errors import ArdorError, Interrupted
from ardor.runtime import memory
from ardor.runtime.device import Runtime
from ardor.runtime.files import read_log, write, writing
from ardor.runtime.progress import Progress
from ardor.runtime.tensors import load, save
from ardor.schedules import round_at
from ardor.training.checkpoints import (
    drop_older,
    misfits,
    path_of,
    restore_modules,
    restore_newest,
    restore_random,
    saved,
)
from ardor.training.events import Events
from ardor.training.remembered import check_facts
from ardor.training.timetable import Timetable

SECTIONS = {
    "tune": "prune",
    "settle": "compress",
}  # whose settings a stage follows, where it is not called so


class ResumableLoop:
    """The position of a loop, and everything needed to take it up again."""

    def __init__(
        self,
        name: str,
        run: Path,
        runtime: Runtime,
        *,
        modules: Mapping[str, nn.Module],
        optimisers: Mapping[str, Optimizer],
        timetable: Timetable,
        reshape: Callable[[Mapping[str, Any]], None] = lambda facts: None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        self.name, self.run, self.runtime = name, run, runtime
        self._reshape = reshape  # given `facts`, makes the modules fit a checkpoint's tensors
        self.modules, self.optimisers = modules, optimisers
        self.timetable, self.step_times = timetable, timetable.step_times
        self.epoch = self.step = 0  # finished epochs, and steps of the one under way
        self.facts = {} if facts is None else facts  # what else the loop remembers, as JSON
        self.sums: dict[str, float] = {}
        self.seconds = 0.0  # of the epoch under way, before this process took it up
        self._logged: dict[str, float] = {}  # with every epoch
        self._spent = 0.0  # seconds of the whole stage, before this process took it up
        self._begin = self._stepped = runtime.clock()
        self._restore()
        self._events = Events(run / "events" / name, self.epoch)

    @property
    def progress(self) -> float:
        """The share of all steps that are done."""
        return self.timetable.progress(self.epoch, self.step)

    @property
    def begun(self) -> float:
        """The progress at which the step under way began; after an epoch, its last step."""
        last = self.timetable.steps_of(self.epoch) - 1
        return self.timetable.progress(self.epoch, min(self.step, last))

    @property
    def round(self) -> int:
        """Which round the step under way is in; after an epoch, its last step."""
        return round_at(self.begun, self.step_times.rounds)[0]

    @property
    def round_begun(self) -> float:
        """The share of the steps of its round before the step under way."""
        return round_at(self.begun, self.step_times.rounds)[1]

    @property
    def round_progress(self) -> float:
        """The share of the steps of its round that are done."""
        return self.progress * self.step_times.rounds - self.round

    @property
    def spent(self) -> float:
        """Seconds of the stage so far, with those before it was interrupted."""
        return self._spent + self.runtime.clock()  # which began before there was a net

    @property
    def in_time(self) -> bool:
        """Whether there is time to score the held-out images once more."""
        return not self.timetable.time or self.spent + self.step_times.look() <= self.timetable.time

    @property
    def over(self) -> bool:
        """Whether no epoch is left, or the loop has ended itself: a fact that it remembers."""
        return self.epoch >= self.timetable.epochs or bool(self.facts.get("ended"))

    def epochs_left(self) -> Iterator[int]:
        """The epochs from where the loop stands."""
        while not self.over:
            self._begin = self.runtime.clock()
            yield self.epoch

    def steps_left(self) -> Iterator[int]:
        """The steps of this epoch from where the loop stands; a signal stops it between two."""
        self._stepped = self.runtime.clock()
        while self.step < self.timetable.steps_of(self.epoch):
            at, before = self.begun, self._stepped
            yield self.step
            self.step += 1
            self._stepped = self.runtime.clock()
            self.step_times.add_step(
                at, self._stepped - before
            )  # with the report of the step before
            if self.timetable.fit(self.epoch, self.step, self.spent):
                self.tell(f"{self.timetable.length.epochs:.3g} epochs fit into the time")
            self.runtime.report(self._position())
            self.give_way(f"in epoch {self.epoch + 1}")

    def give_way(self, where: str) -> None:
        """Saves everything and raises `Interrupted`, if a signal asked for that."""
        if self.runtime.stopping:
            self._save()
            raise Interrupted(f"{self.name} stopped {where}")

    def check_memory(
        self, net: nn.Module, images: int, micro_batches: int, forward: Callable[[int], object]
    ) -> None:
        """Reports the memory that a step will need; an ArdorError if it is too much."""
        with self.runtime.streams.unchanged():
            needed = None if self.over else memory.need(net, forward)
        if needed is not None:
            there, most = memory.free(self.runtime.device), needed.of(-(-images // micro_batches))
            self._logged = {"expected_memory_mb": round(most / 2**20, 1)}
            self.tell(memory.in_words(most, there))
            memory.check(self.name, needed, there, images=images, micro_batches=micro_batches)

    def add(self, section: str, terms: Mapping[str, float]) -> None:
        """Adds one step's terms to the means of the epoch."""
        for name, value in {**terms, "count": 1.0}.items():
            key = f"{section}/{name}"
            self.sums[key] = self.sums.get(key, 0.0) + value

    def tell(self, note: str) -> None:
        """Reports a note."""
        self.runtime.report(replace(self._position(), note=note))

    def means(self) -> dict[str, dict[str, float]]:
        """Section -> term -> mean over the steps of this epoch."""
        sections: dict[str, dict[str, float]] = defaultdict(dict)
        for key, total in self.sums.items():
            section, name = key.split("/")
            if name != "count":
                sections[section][name] = total / self.sums[f"{section}/count"]
        return sections

    def finish_epoch(self, **facts: Any) -> None:
        """Writes the log line, then the checkpoint."""
        terms = {**self.means().get("train", {}), **facts.get("held_out", {})}
        for name, value in terms.items():
            if not math.isfinite(value):
                raise ArdorError(
                    f"{self.name} diverged in epoch {self.epoch + 1}: {name} is {value}",
                    f"begin a new run with a lower {SECTIONS.get(self.name, self.name)}.rate",
                )
        if "held_out" in facts:
            self.facts["held_out_accuracy"] = facts["held_out"]["accuracy"]
        self.epoch += 1
        line = {
            "stage": self.name,
            "epoch": self.epoch,
            "epochs": self.timetable.epochs,
            "seconds": round(self.seconds + self.runtime.clock() - self._begin, 3),
            **self._logged,
            **self.means(),
            **facts,
        }
        with writing(self._log):
            self.run.mkdir(parents=True, exist_ok=True)
            with self._log.open("a") as file:
                file.write(json.dumps(line) + "\n")
            self._events.add(line)
        self.step, self.sums, self.seconds = 0, {}, 0.0
        self._save()
        self.step_times.add_between(self.runtime.clock() - self._stepped)

    @property
    def _log(self) -> Path:
        return self.run / "log.jsonl"

    def _position(self) -> Progress:
        means = self.means().get("train", {})
        left = self.timetable.left(self.epoch, self.step, self.spent)
        epochs = self.timetable.epochs if self.timetable.fitted else 0
        # After the end, the report is of the last epoch.
        epoch = max(1, self.epoch if self.over else self.epoch + 1)
        held_out = self.facts.get("held_out_accuracy")
        return Progress(
            self.name, epoch, epochs, self.progress, left, means, held_out_accuracy=held_out
        )

    def _save(self) -> None:
        tensors, random_facts = saved(self.modules, self.optimisers, self.runtime.streams)
        facts = {
            "position": [self.epoch, self.step],
            "sums": self.sums,
            "seconds": self.seconds + (self.runtime.clock() - self._begin if self.step else 0.0),
            "course": self.timetable.facts(self.spent),
            "random": random_facts,
            "facts": self.facts,
        }
        save(path_of(self.run, self.name, self.epoch, self.step), tensors, facts)
        drop_older(self.run, self.name)

    def _restore(self) -> None:
        """Continues from the newest checkpoint that is not damaged."""
        restore_newest(self.run, self.name, self._restore_from)
        self._trim_log()

    def _restore_from(self, path: Path) -> None:
        tensors, facts = load(path)
        with misfits(path):
            check_facts(facts)
            self._reshape(facts["facts"])
            restore_modules(tensors, self.modules, self.optimisers)
            self.epoch, self.step = facts["position"]
            self.sums, self.seconds = facts["sums"], facts["seconds"]
            self.facts.clear()
            self.facts.update(facts["facts"])
            self._spent = self.timetable.restore(facts.get("course", {}))
            restore_random(tensors, facts["random"], self.runtime.streams, path)

    def _trim_log(self) -> None:
        """Drops lines of epochs that will be run again, and one that was cut off."""
        if self._log.exists():
            kept = [
                line + "\n"
                for line, entry in read_log(self._log)
                if entry["stage"] != self.name or entry["epoch"] <= self.epoch
            ]
            write(self._log, "".join(kept))
