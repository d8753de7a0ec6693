"""The device that a run computes on, its seed, and the signals that stop it."""

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ardor.errors import ArdorError
from ardor.runtime import reuse, waiting
from ardor.runtime.progress import Progress, clock_from_now, unwatched
from ardor.runtime.seeds import Streams

M = TypeVar("M", bound=nn.Module)
SEVERAL = 2**17  # numbers that torch computes with all threads: four times what it leaves to one


@dataclass
class Runtime:
    """The device a run uses, its seed, and where it reports progress."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    seed: int = 0
    report: Callable[[Progress], None] = unwatched
    stopping: bool = False  # a signal asked the run to save and end
    clock: Callable[[], float] = field(default_factory=clock_from_now)
    streams: Streams = field(init=False)  # of random numbers

    def __post_init__(self) -> None:
        seeds = {name: self.seed_of(0, 0, at) for at, name in enumerate(("gates", "data"), 1)}
        self.streams = Streams(self.device, **seeds)

    @classmethod
    def start(
        cls, device: str, seed: int, report: Callable[[Progress], None] = unwatched
    ) -> "Runtime":
        """Seeds everything random and finds the device."""
        reuse.keep_pages()
        waiting.ask_late(torch.get_num_threads(), torch.ones(SEVERAL).exp)
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        return cls(find_device(device), seed, report)

    def place(self, net: M) -> M:
        """The net on the device, its convolutions in the layout that is fastest there."""
        return net.to(self.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def images(self, batch: Tensor) -> Tensor:
        """A batch of images on the device, channels last."""
        return batch.to(self.device, memory_format=torch.channels_last)

    def shuffled(self, count: int, *key: int) -> Tensor:
        """A permutation that depends on the seed and `key` alone: an epoch can be redone."""
        generator = torch.Generator().manual_seed(self.seed_of(*key))
        return torch.randperm(count, generator=generator)

    def seed_of(self, *key: int) -> int:
        """A seed made from the seed of the run and `key`."""
        seed = np.random.SeedSequence([self.seed, *key]).generate_state(1, np.uint64)[0]
        return int(seed) >> 1

    @contextmanager
    def apart(self, *key: int) -> Iterator[None]:
        """Random numbers of the CPU depend on the seed and `key` alone; outside nothing changes."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed_of(*key))
            yield

    @contextmanager
    def signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM ask for a stop at the next step; a second one ends at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        numbers = (signal.SIGINT, signal.SIGTERM)
        before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}

        def ask(number: int, frame: FrameType | None) -> None:
            if not self.stopping:
                self.stopping = True
            elif callable(handler := before[number]):
                handler(number, frame)
            else:
                raise KeyboardInterrupt

        try:
            for number in before:
                signal.signal(number, ask)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def find_device(name: str) -> torch.device:
    """The device of that name, if the machine has it; "auto" takes the fastest."""
    has = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device("cuda" if has["cuda"] else "cpu")
    if not has.get(name, False):
        here = ", ".join(known for known, there in has.items() if there)
        raise ArdorError(f"no device '{name}' on this machine; it has: {here}", "use --device auto")
    return torch.device(name)
