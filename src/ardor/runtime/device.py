"""The machine: device, seeds, signals, memory, and tensors on disk. Nothing else names these."""

import hashlib
import json
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import safetensors
import torch
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from ardor.errors import ArdorError, reason
from ardor.runtime.files import opened, parse_json, write

FORMAT = 1
DAMAGED = "put back a whole copy, or delete the file and go on: ardor resume does it again"
M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Progress:
    """How far a stage is, for whoever watches."""

    stage: str
    epoch: int
    epochs: int  # 0 while it is not known how many fit into the time
    done: float  # of the stage, in [0, 1]
    seconds_left: float
    terms: Mapping[str, float]  # means of this epoch so far
    note: str = ""  # what has just happened, if it is worth a line


def unwatched(progress: Progress) -> None:
    """Nobody watches."""


def clock_from_now() -> Callable[[], float]:
    """A clock that tells the seconds since it was made."""
    begin = time.perf_counter()
    return lambda: time.perf_counter() - begin


@dataclass
class Runtime:
    """The device a run uses, its seed, and who is told of progress."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    seed: int = 0
    report: Callable[[Progress], None] = unwatched
    stopping: bool = False  # a signal asked the run to save and end
    clock: Callable[[], float] = field(default_factory=clock_from_now)

    @classmethod
    def start(
        cls, device: str, seed: int, report: Callable[[Progress], None] = unwatched
    ) -> "Runtime":
        """Seeds everything random and finds the device."""
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
        """A permutation by the seed and `key` alone, so that an epoch can be redone."""
        generator = torch.Generator().manual_seed(self.seed_of(*key))
        return torch.randperm(count, generator=generator)

    def seed_of(self, *key: int) -> int:
        """A seed that follows from the run's and `key`."""
        seed = np.random.SeedSequence([self.seed, *key]).generate_state(1, np.uint64)[0]
        return int(seed) >> 1

    @contextmanager
    def apart(self, *key: int) -> Iterator[None]:
        """Random numbers of the CPU by the seed and `key` alone; those outside go on as before."""
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
        raise ValueError(f"{rest[0]!r} is no place in the random numbers")  # numpy does not look
    np.random.set_state((kind, tensors["numpy"].numpy().astype(np.uint32), *rest))
    version, gauss = facts["python"]
    if not isinstance(gauss, float | None):
        raise TypeError(f"{gauss!r} is no state of the random numbers")
    random.setstate((version, tuple(tensors["python"].tolist()), gauss))


def save(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """One safetensors file with JSON facts and a checksum, written whole or not at all.

    Strides are kept: a momentum laid out differently could round differently, and a resumed run
    would no longer equal an unbroken one.
    """
    strides = {name: t.stride() for name, t in tensors.items() if not t.is_contiguous()}
    text = json.dumps({"facts": facts, "strides": strides}, sort_keys=True)
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"format": FORMAT, "content": text, "sha256": digest(text, flat)}
    # One entry only: safetensors writes several in no fixed order, and the bytes would differ.
    write(path, to_bytes(flat, {"ardor": json.dumps(header)}))


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save` wrote; an ArdorError if the file was cut, edited or written by something else."""
    try:
        header, tensors = _read(path)
    except (OSError, ValueError, TypeError, safetensors.SafetensorError) as error:
        raise ArdorError(f"cannot read '{path}': {reason(error)}", DAMAGED) from error
    if header.get("format") != FORMAT:
        raise ArdorError(
            f"'{path}' has format {header.get('format')}; this version reads {FORMAT}",
            "use the version of Ardor that wrote it",
        )
    text = header.get("content")
    if not isinstance(text, str) or header.get("sha256") != digest(text, tensors):
        raise ArdorError(
            f"'{path}' does not match its checksum: it was changed after it was written", DAMAGED
        )
    try:  # anyone can compute a checksum
        facts, strides = _content(text)
        tensors |= {name: _laid_out(name, tensors, stride) for name, stride in strides.items()}
    except ValueError as error:
        raise ArdorError(f"'{path}' is not as Ardor writes it: {error}", DAMAGED) from error
    return tensors, facts


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a safetensors file says of itself, and its tensors."""
    with opened(path, most=sys.maxsize), safetensors.safe_open(path, framework="pt") as file:
        header = parse_json((file.metadata() or {}).get("ardor", "{}"))
        if not isinstance(header, dict):
            raise ValueError("its header is no object")
        return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _content(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts and strides; a ValueError where the text has none."""
    content = parse_json(text)
    found = content if isinstance(content, dict) else {}
    facts, strides = found.get("facts"), found.get("strides")
    if not isinstance(facts, dict) or not isinstance(strides, dict):
        raise ValueError("it has no objects 'facts' and 'strides'")
    return facts, strides


def _laid_out(name: str, tensors: Mapping[str, Tensor], stride: Any) -> Tensor:
    """A tensor with that stride in memory; a ValueError unless its elements just fill it."""
    shape = list(tensors[name].shape) if name in tensors else []
    whole = isinstance(stride, list) and all(type(step) is int for step in stride)
    if name not in tensors or not whole or len(stride) != len(shape) or not _dense(shape, stride):
        raise ValueError(f"strides of '{name}' are {stride!r}, of a tensor of {shape}")
    empty = torch.empty_strided(shape, stride, dtype=tensors[name].dtype)
    return empty.copy_(tensors[name])


def _dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether elements lie side by side, in whatever order, none over another."""
    filled = 1
    for step, size in sorted(zip(stride, shape, strict=True)):
        if size > 1 and step != filled:
            return False
        filled *= max(1, size)
    return all(0 < step <= filled for step in stride)


def digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """A checksum of facts and tensors together."""
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        total.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        total.update(tensors[name].contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


@dataclass
class Cost:
    """What a stage took."""

    seconds: float = 0.0
    core_seconds: float = 0.0
    peak_memory_mb: float = 0.0


@contextmanager
def measured() -> Iterator[Cost]:
    """Wall time, time of all cores together, and peak memory of what runs inside."""
    cost, begin, worked = Cost(), time.perf_counter(), time.process_time()
    _reset_peak()
    yield cost
    cost.seconds = round(time.perf_counter() - begin, 3)
    cost.core_seconds = round(time.process_time() - worked, 3)
    cost.peak_memory_mb = round(_peak(), 1)


def _reset_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the largest size so far


def _peak() -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
