"""Ardor's own contenders: with which settings each is run, and what a person types for it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ardor import methods
from ardor.bench.grid import typed
from ardor.bench.rivals.task import Outcome, Task
from ardor.pipeline.resolve import flat
from ardor.pipeline.verbs import run
from ardor.runtime.progress import processor_seconds
from ardor.settings.presets import preset

Settings = Mapping[str, Any]
PHOTOS = "photos"

# Shares of the time, where a run shares it out by itself no more; what is left is for pruning,
# export and report.
BEFORE = {"search": 0.3, "train": 0.55}
TRAIN_ALONE = {"train": 0.85}
SEARCHED = {"search": 0.2, "train": 0.65}


@dataclass(frozen=True)
class Way:
    """How Ardor is run: the settings, by the time and the source of the images; and a preset."""

    settings: Callable[[float, str], Settings]
    preset: str = PHOTOS

    def layers(self, seconds: float, source: str) -> tuple[Settings, Settings]:
        """The preset, and what goes over it."""
        return preset(self.preset) if self.preset else {}, self.settings(seconds, source)

    def fit(self, task: Task) -> Outcome:
        """What a run ends with: the pruned network."""
        begin = time.process_time()
        layers = (*self.layers(task.seconds, task.source), {"seed": task.seed})
        with TemporaryDirectory() as place, processor_seconds():
            found = run(task.path, *layers, folder=Path(place) / "run").metrics
        return Outcome(
            accuracy=found["test_accuracy"],
            cpu_seconds=round(time.process_time() - begin, 2),
            params=found["params"],
            nonzero_params=found["nonzero_params"],
            macs=found["macs"],
            latency_ms=found["latency_ms"],
        )

    def command(self, path: str, seconds: float, source: str, seed: int) -> str:
        """What a person types for such a run on the images in a file."""
        return typed("run", path, flat(self.settings(seconds, source)), self.preset, seed=seed)


def whole(seconds: float, source: str) -> Settings:
    """One time for all, and a prior that knows nothing of these images."""
    return {"time": of(1.0, seconds), "method": {"without": [source]}}


def by_chance(seconds: float, source: str) -> Settings:
    """The same with an architecture at random."""
    return {"time": of(1.0, seconds), "method": {"name": "random"}}


def by_prior(seconds: float, source: str) -> Settings:
    """The likeliest architecture before any of these images is seen, as a plan without search."""
    return {**whole(seconds, source), "search": {"epochs": 0, "candidates": 1}}


def by_search(seconds: float, source: str) -> Settings:
    """With a search, also where a run would find that it does not pay."""
    times = shared(SEARCHED, seconds)
    times["train"]["start"] = "search"
    # Not one candidate alone, as a run without search has.
    times["search"] |= {"candidates": methods.find("thompson").search["candidates"]}
    return {**whole(seconds, source), **times}


def before(seconds: float, source: str) -> Settings:
    """As Ardor was run before it had a preset for photos."""
    named = {"space": {"name": "cells"}, "method": {"name": "vinnas"}}
    return {**named, **shared(BEFORE, seconds)}


def other_space(seconds: float, source: str) -> Settings:
    """Blocks in place of cells, by chance; trained as before."""
    named = {"space": {"name": "blocks"}, "method": {"name": "random"}}
    return {**named, **shared(TRAIN_ALONE, seconds)}


def shared(shares: Mapping[str, float], seconds: float) -> dict[str, dict[str, Any]]:
    """The time of each stage."""
    return {stage: {"time": of(share, seconds)} for stage, share in shares.items()}


def of(share: float, seconds: float) -> str:
    """A share of a time, as a person types it."""
    return f"{share * seconds:g}s"


OWN: Mapping[str, Way] = {
    "ardor": Way(whole),
    "random": Way(by_chance),
    # From what Ardor did before to what it does now, one difference after another.
    "before": Way(before, preset=""),
    "space": Way(other_space, preset=""),
    "recipe": Way(by_chance),
    "prior": Way(by_prior),
    "search": Way(by_search),
}
