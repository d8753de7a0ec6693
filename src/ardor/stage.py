"""A stage that can be stopped at any step and continued as if it had not been.

`search` and `train` are both loops over epochs and steps; what they share is here: where the loop
stands, the running means of its terms, one log line and one checkpoint for each epoch.
"""

import json
import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ardor.errors import ArdorError, Interrupted
from ardor.events import Events
from ardor.files import write, writing
from ardor.runtime import (
    Progress,
    Runtime,
    load,
    random_states,
    restore_random_states,
    save,
)

LOG = logging.getLogger("ardor")
KEPT = 2  # checkpoints: the newest, and one to fall back on should it be damaged


class Stage:
    """The position of a loop, and everything needed to take it up again."""

    def __init__(
        self,
        name: str,
        run: Path,
        runtime: Runtime,
        *,
        modules: Mapping[str, nn.Module],
        optimisers: Mapping[str, Optimizer],
        epochs: int,
        steps: int,
    ) -> None:
        self.name, self.run, self.runtime = name, run, runtime
        self.modules, self.optimisers = modules, optimisers
        self.epochs, self.steps = epochs, steps
        self.epoch = self.step = 0  # finished epochs, and steps of the one under way
        self.facts: dict[str, Any] = {}  # what else the loop remembers, as JSON
        self.sums: dict[str, float] = {}
        self.seconds = 0.0  # of the epoch under way, before this process took it up
        self._begin = time.perf_counter()
        self._pace: list[float] = []
        self._restore()
        self._events = Events(run / "events" / name, self.epoch)

    @property
    def progress(self) -> float:
        """The share of all steps that are done."""
        return (self.epoch + self.step / self.steps) / max(self.epochs, 1)

    def epochs_left(self) -> Iterator[int]:
        """The epochs from where the loop stands."""
        while self.epoch < self.epochs:
            self._begin = time.perf_counter()
            yield self.epoch

    def steps_left(self) -> Iterator[int]:
        """The steps of this epoch from where the loop stands; a signal stops it between two."""
        while self.step < self.steps:
            begin = time.perf_counter()
            yield self.step
            self.step += 1
            self._pace = [*self._pace[-49:], time.perf_counter() - begin]
            self.runtime.report(self._position())
            if self.runtime.stopping:
                self._save()
                raise Interrupted(f"{self.name} stopped in epoch {self.epoch + 1} of {self.epochs}")

    def add(self, section: str, terms: Mapping[str, float]) -> None:
        """Adds one step's terms to the means of the epoch."""
        for name, value in {**terms, "count": 1.0}.items():
            key = f"{section}/{name}"
            self.sums[key] = self.sums.get(key, 0.0) + value

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
                    f"begin a new run with a lower {self.name}.rate",
                )
        self.epoch += 1
        line = {
            "stage": self.name,
            "epoch": self.epoch,
            "epochs": self.epochs,
            "seconds": round(self.seconds + time.perf_counter() - self._begin, 3),
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

    @property
    def _log(self) -> Path:
        return self.run / "log.jsonl"

    def _position(self) -> Progress:
        left = (self.epochs * self.steps) * (1 - self.progress)
        pace = sorted(self._pace)[len(self._pace) // 2]
        means = self.means().get("train", {})
        return Progress(self.name, self.epoch + 1, self.epochs, self.progress, left * pace, means)

    def _save(self) -> None:
        tensors: dict[str, Tensor] = {}
        for name, module in self.modules.items():
            tensors |= {f"{name}/{key}": value for key, value in module.state_dict().items()}
        for name, optimiser in self.optimisers.items():
            tensors |= _flat(name, optimiser)
        states, random_facts = random_states()
        tensors |= {f"random/{key}": value for key, value in states.items()}
        facts = {
            "position": [self.epoch, self.step],
            "sums": self.sums,
            "seconds": self.seconds + (time.perf_counter() - self._begin if self.step else 0.0),
            "random": random_facts,
            "facts": self.facts,
        }
        path = self.run / "checkpoint" / f"{self.name}-{self.epoch:05d}-{self.step:06d}.safetensors"
        save(path, tensors, facts)
        for old in self._checkpoints()[:-KEPT]:
            old.unlink()

    def _checkpoints(self) -> list[Path]:
        return sorted((self.run / "checkpoint").glob(f"{self.name}-*.safetensors"))

    def _restore(self) -> None:
        """Takes up the newest checkpoint that is whole."""
        checkpoints = self._checkpoints()
        for path in reversed(checkpoints):
            try:
                self._restore_from(path)
                break
            except ArdorError as error:
                if path == checkpoints[0]:
                    raise
                LOG.warning("%s; going back to the checkpoint before it", error)
        self._trim_log()

    def _restore_from(self, path: Path) -> None:
        tensors, facts = load(path)
        try:
            for name, module in self.modules.items():
                module.load_state_dict(_under(f"{name}/", tensors))
            for name, optimiser in self.optimisers.items():
                _unflatten_(optimiser, _under(f"{name}/", tensors))
            self.epoch, self.step = facts["position"]
            self.sums, self.seconds, self.facts = facts["sums"], facts["seconds"], facts["facts"]
            restore_random_states(_under("random/", tensors), facts["random"])
        except (KeyError, RuntimeError, ValueError, IndexError, TypeError, AttributeError) as error:
            raise ArdorError(
                f"checkpoint '{path}' does not fit this run: {str(error).splitlines()[-1].strip()}",
                "put back its config.json, or delete its checkpoints to begin the stage anew",
            ) from error

    def _trim_log(self) -> None:
        """Drops lines of epochs that will be run again, and one that was cut off."""
        if not self._log.exists():
            return
        kept = []
        for line in self._log.read_text(errors="replace").splitlines():
            try:
                entry = json.loads(line)
                stays = entry["stage"] != self.name or entry["epoch"] <= self.epoch
            except (ValueError, KeyError, TypeError):
                continue
            if stays:
                kept.append(line + "\n")
        write(self._log, "".join(kept))


def _flat(name: str, optimiser: Optimizer) -> dict[str, Tensor]:
    """An optimiser's state as named tensors."""
    return {
        f"{name}/{index}/{key}": value
        for index, state in optimiser.state_dict()["state"].items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }


def _unflatten_(optimiser: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Puts back what `_flat` took; rates and the like follow from the settings."""
    state: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for key, value in tensors.items():
        index, name = key.split("/")
        state[int(index)][name] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": dict(state), "param_groups": groups})


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
