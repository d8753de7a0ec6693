"""The collapse monitor: examines the posterior after every epoch in which gates learn.

It records the architecture that would be kept now, and the curvature of the held-out loss in the
gates: the largest eigenvalue of its Hessian, at the mean gates and with mean weights, which grows
before a search collapses (Zela et al. 2020). It only warns: it changes nothing, and uses random
numbers of its own.
"""

import copy
import math
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ardor.architecture import Architecture, Place
from ardor.bayes import Gates
from ardor.bayes.curvature import hessian_product, largest_eigenvalue, shifted
from ardor.data import Images, Normalise
from ardor.runtime.device import Runtime
from ardor.searching.collapse import WINDOW, collapses, growth, kept_by, together
from ardor.searching.selection import Selection
from ardor.settings.sections import SearchConfig
from ardor.spaces import Net, mean_score
from ardor.training.loop import ResumableLoop
from ardor.training.objective import Batch, to_device
from ardor.training.optimise import held

PATIENCE = 2  # epochs in a row
IMAGES = 32
DRAWS = 16  # for the mean gates, with the same random numbers in every epoch
PRODUCTS = 2  # with the Hessian, of two gradients each; the direction of the epoch before helps
FIRST = 10  # products in the first epoch: too few would make the curvature seem to grow later
# Of the strengths, for finite differences. A loss with ReLUs and maximum pools has kinks, at which
# its gradient jumps: a small step meets one or none, a derivative none, and only a large step gives
# the mean over many.
STEP = 0.3


def monitored_batch(images: Images, normalise: Normalise, runtime: Runtime, *, most: int) -> Batch:
    """A few images, not augmented and the same in every epoch; at most `most`."""
    seen = images[runtime.shuffled(len(images), 0, 3)[: min(IMAGES, most)]]
    pixels = normalise(runtime.images(seen.pixels))
    return Batch(pixels, seen.labels.to(runtime.device), len(images))


class CollapseMonitor:
    """Observes a search, epoch by epoch; its memory is in the checkpoints of the stage."""

    def __init__(
        self,
        net: Net,
        selection: Selection,
        batch: Batch,
        stage: ResumableLoop,
        config: SearchConfig,
    ) -> None:
        self.net, self.batch = net, batch
        self.selection, self.method = selection, selection.method
        self.stage, self.config = stage, config
        self.copied = copy.deepcopy(
            self.method
        ).cpu()  # to draw from, so that the method is unchanged
        self.choices = self.method.choices("op")
        self.widths = {choice.name for choice in self.method.choices("width")}

    @property
    def memory(self) -> dict[str, Any]:
        """The facts that are remembered from epoch to epoch, as JSON."""
        start: dict[str, Any] = {"since": {}, "collapsed": {}, "curvatures": [], "growing": False}
        memory: dict[str, Any] = self.stage.facts.setdefault("watch", start)
        return memory

    def examine(self) -> dict[str, Any]:
        """Examines the posterior; the entry of the epoch for the log."""
        architecture, gates = self._draw()
        places = kept_by(self.choices, architecture)
        none, curvature = self._none(gates), self._curvature(gates)
        warnings = [
            *self._collapses(collapses(places)),
            *self._growth(curvature),
        ]
        for warning in warnings:
            self.stage.tell(warning)
        cells = {
            place.name: {
                **kept.numbers(),
                "none_share": fmean(none[place]),
                "kept": kept.operations,
            }
            for place, kept in places.items()
        }
        return {
            **together(places.values()).numbers(),
            "none_share": fmean([n for edges in none.values() for n in edges] or [0]),
            "curvature": curvature,
            "kept": {n: kept for n, kept in architecture.kept if n not in self.widths},
            "cells": cells,
            "warnings": warnings,
        }

    def begin_round(self) -> None:
        """Forgets curvatures of the last round: the gates begin anew."""
        self.memory["curvatures"] = []

    @property
    def in_doubt(self) -> bool:
        """Whether this epoch looks collapsed, and would be undone if the next ones do too."""
        return self.config.stop_on_collapse and bool(self.memory["since"])

    @property
    def ends(self) -> bool:
        """Whether a collapse ends the search now."""
        return self.config.stop_on_collapse and bool(self.memory["collapsed"])

    def numbers(self, architecture: Architecture) -> dict[str, float]:
        """Figures for tables: of an architecture, and of the search."""
        places = kept_by(self.choices, architecture)
        found = together(places.values()).numbers() if places else {}
        if "largest_curvature" in self.memory:
            found["largest_curvature"] = self.memory["largest_curvature"]
        if self.memory["collapsed"]:
            found["collapsed_since"] = min(self.memory["collapsed"].values())
        return found

    @torch.no_grad()
    def _draw(self) -> tuple[Architecture, Gates]:
        """The architecture that would be kept now, and the mean gates."""
        self.copied.removed = self.method.removed
        with self.stage.runtime.apart(5):
            self.copied.load_state_dict(self.selection.now().state_dict())
            architecture = self.copied.draw(1)[0]
            self.copied.load_state_dict(self.method.state_dict())
            draws = [self.copied.sample(1, self.stage.round_progress) for _ in range(DRAWS)]
        gates = {name: torch.stack([draw[name] for draw in draws]).mean(0) for name in draws[0]}
        return architecture, gates

    def _none(self, gates: Gates) -> dict[Place, list[int]]:
        """By place, for each edge 1 if "none" has the largest mean gate, else 0."""
        found: dict[Place, list[int]] = {}
        for choice in self.choices:
            scores = mean_score(gates[choice.name]) if choice.name in gates else [1.0]
            best = choice.options[max(range(len(scores)), key=scores.__getitem__)]
            found.setdefault(choice.place, []).append(int(choice.family(best) == "none"))
        return found

    def _curvature(self, gates: Gates) -> float | None:
        """The largest eigenvalue of the Hessian in all gates but widths; None if not finite."""
        size = sum(gate.numel() for gate in self._bent(gates).values())
        if not size:
            return None
        known = self.memory.get("direction", [])
        if len(known) != size:
            known = []  # remembered when there were other gates
        first = not known and self.stage.epoch + 1 < self.stage.timetable.epochs
        start = torch.tensor(known or self._any_direction(size), dtype=torch.double)
        product = hessian_product(lambda by: self._gradient(gates, by), STEP)
        was_training = self.net.training
        self.net.eval()
        with held(list(self.net.parameters())):
            value, direction = largest_eigenvalue(product, start, FIRST if first else PRODUCTS)
        self.net.train(was_training)
        if not math.isfinite(value):
            return None
        self.memory["direction"] = direction.tolist()
        return value

    def _bent(self, gates: Gates) -> Gates:
        """The gates for which the curvature is computed."""
        return {name: gate for name, gate in gates.items() if name not in self.widths}

    def _any_direction(self, size: int) -> list[float]:
        """A random direction to start from."""
        with self.stage.runtime.apart(6):
            return torch.randn(size).tolist()

    def _gradient(self, gates: Gates, by: Tensor) -> Tensor:
        """The gradient of the held-out loss in the gates' strengths, after they moved `by`."""
        images = self.batch.images
        by = by.to(images.device, images.dtype).requires_grad_()
        gates = to_device(gates, images.device)
        moved = {**gates, **shifted(self._bent(gates), by)}
        with self.stage.runtime.apart(
            6
        ):  # the same numbers on both sides of a difference, if the net draws any
            loss = F.cross_entropy(self.net(images, moved), self.batch.labels)
        slope = torch.autograd.grad(loss + 0 * by.sum(), by)[0]  # also where no gate is left
        return slope.cpu().double()

    def _collapses(self, found: Mapping[str, str]) -> Iterator[str]:
        """Warns of places that have looked collapsed for `PATIENCE` epochs, once."""
        memory, epoch = self.memory, self.stage.epoch + 1
        since = {place: memory["since"].get(place, epoch) for place in found}
        rows = {place: epoch - first + 1 for place, first in since.items()}
        memory["since"] = since
        memory["collapsed"] = {place: since[place] for place in since if rows[place] >= PATIENCE}
        for place, why in found.items():
            if rows[place] == PATIENCE:
                yield f"{why} since epoch {since[place]}"

    def _growth(self, curvature: float | None) -> Iterator[str]:
        """Warns when the curvature begins to grow as it does before a collapse."""
        if curvature is None:
            return
        memory = self.memory
        memory["curvatures"] = [*memory["curvatures"], curvature][-2 * WINDOW :]
        memory["largest_curvature"] = max(memory.get("largest_curvature", curvature), curvature)
        times = growth(memory["curvatures"])
        if times and not memory["growing"]:
            yield (
                f"an early sign of collapse: the held-out loss bends {times:.1f} times as sharply "
                f"in the gates as {WINDOW} epochs before"
            )
        memory["growing"] = times is not None
