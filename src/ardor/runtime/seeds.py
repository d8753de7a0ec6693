"""Random numbers: three streams of them, and the states of all generators, saved and restored.

Torch has one generator on each device. Its numbers are the noise: weights, dropped paths, whatever
a net draws. Those of the gates and of the data have streams of their own, so that none of the three
depends on how many numbers another has taken, and processes of one search can share the first.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor


def random_states() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Every random state, as tensors and as JSON."""
    tensors = {"torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["cuda"] = torch.cuda.get_rng_state()
    kind, keys, *rest = np.random.get_state()
    tensors["numpy"] = torch.from_numpy(np.asarray(keys, dtype=np.int64))
    version, words, gauss = random.getstate()
    tensors["python"] = torch.tensor(words)
    return tensors, {"numpy": [kind, *rest], "python": [version, gauss]}


def restore_random_states(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Puts every random state back to what `random_states` saw."""
    torch.set_rng_state(tensors["torch"])
    if "cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["cuda"])
    kind, *rest = facts["numpy"]
    if type(rest[0]) is not int or not 0 <= rest[0] <= len(tensors["numpy"]):
        raise ValueError(f"{rest[0]!r} is no place in the random numbers")  # numpy does not check
    np.random.set_state((kind, tensors["numpy"].numpy().astype(np.uint32), *rest))
    version, gauss = facts["python"]
    if not isinstance(gauss, float | None):
        raise TypeError(f"{gauss!r} is no state of the random numbers")
    random.setstate((version, tuple(tensors["python"].tolist()), gauss))


Stream = Literal["noise", "gates", "data"]


class Streams:
    """Which numbers torch draws: those of the noise, unless inside `with streams(...)`."""

    def __init__(self, device: torch.device, *, gates: int, data: int) -> None:
        """Gates and data begin with these seeds; the noise goes on from where torch is."""
        self.generators = _generators(device)
        self.current: Stream = "noise"
        # The states of the others, one for each generator.
        self.waiting: dict[Stream, list[Tensor]] = {
            "gates": [_new(g).manual_seed(gates).get_state() for g in self.generators],
            "data": [_new(g).manual_seed(data).get_state() for g in self.generators],
        }

    @contextmanager
    def __call__(self, name: Stream) -> Iterator[None]:
        """Torch draws from this stream; afterwards from the one before."""
        outer = self.current
        self._switch(name)
        try:
            yield
        finally:
            self._switch(outer)

    def _switch(self, name: Stream) -> None:
        if name != self.current:
            self.waiting[self.current] = [g.get_state() for g in self.generators]
            for generator, state in zip(self.generators, self.waiting.pop(name), strict=True):
                generator.set_state(state)
            self.current = name

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Afterwards gates and data draw the numbers that they would have drawn without."""
        before = dict(self.waiting)
        try:
            yield
        finally:
            self.waiting = before

    def states(self) -> dict[str, Tensor]:
        """The states of gates and data."""
        return {
            f"{name}-{generator.device.type}": state
            for name, states in self.waiting.items()
            for generator, state in zip(self.generators, states, strict=True)
        }

    def restore(self, states: Mapping[str, Tensor]) -> bool:
        """Puts back what `states` gave, as far as it is there; whether it all is."""
        for name, own in self.waiting.items():
            for at, generator in enumerate(self.generators):
                state = states.get(f"{name}-{generator.device.type}", own[at])
                _new(generator).set_state(state)  # an error, unless it is one
                own[at] = state
        return self.states().keys() <= states.keys()


def _generators(device: torch.device) -> list[torch.Generator]:
    """Those that torch draws from: the CPU's, and the device's where that has its own."""
    found = [torch.default_generator]
    if device.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
        found.append(torch.cuda.default_generators[device.index or 0])
    return found


def _new(like: torch.Generator) -> torch.Generator:
    """Another generator of the same device."""
    return torch.Generator(like.device)
