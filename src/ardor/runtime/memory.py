"""How much memory a step will need, estimated before the first step."""

import ctypes
import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ardor.errors import ArdorError
from ardor.runtime.available import available_memory, size
from ardor.runtime.seeds import random_states, restore_random_states

TRIED = (2, 8)  # images in the two passes that are measured
# Copies of the weights: gradients, two moments of an optimiser, one while writing a checkpoint.
COPIES = 4
WASTE = 1.1  # lost by the allocator between tensors, measured on supernets of 1 to 4 GB
# The memory that must be free, as a multiple of the need: with layers that keep many tensors glibc
# 2.36, which cannot reuse an aligned block for one of its own size, was seen to lose half as much.
MARGIN = 1.6


class _Allocated(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "free_chunks", "fast", "mappings")),
        *((name, ctypes.c_size_t) for name in ("mapped", "unused", "fast_free", "used")),
        *((name, ctypes.c_size_t) for name in ("free", "releasable")),
    ]


@dataclass(frozen=True)
class Need:
    """Bytes of a step: those that every step needs, and those of each image."""

    fixed: float
    image: float

    def of(self, images: int) -> float:
        """With so many images at a time."""
        return self.fixed + self.image * images

    def fits(self, images: int, available: float) -> bool:
        """Whether so many at a time are safe with the memory available."""
        return MARGIN * self.of(images) <= available


def need(net: nn.Module, forward: Callable[[int], object]) -> Need | None:
    """The memory that a step needs, from small forward passes; None if the bytes cannot be counted.

    A step needs the most between forward and backward pass, and so the graph of a forward pass is
    measured. Random states and statistics of the net are put back afterwards.
    """
    device = next(net.parameters()).device
    buffers = [(buffer, buffer.clone()) for buffer in net.buffers()]
    states = random_states()
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()  # or garbage of before might leave in between
    try:
        # The first pass is not counted: it also fills caches that are kept.
        _, few, more = (_held(device, forward, images) for images in (TRIED[0], *TRIED))
    finally:
        if collecting:
            gc.enable()
        restore_random_states(*states)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
    image = (more - few) / (TRIED[1] - TRIED[0])
    if image <= 0:  # tensors are allocated by another allocator than the one measured
        return None
    weights = sum(p.numel() * p.element_size() for p in net.parameters())
    fixed = max(0.0, few - TRIED[0] * image)
    return Need(WASTE * (fixed + COPIES * weights), WASTE * image)


def _held(device: torch.device, forward: Callable[[int], object], images: int) -> int:
    """Bytes that the result of a pass holds on to."""
    before = in_use(device)
    graph = forward(images)
    held = in_use(device) - before
    del graph
    return held


def in_use(device: torch.device) -> int:
    """Bytes that are allocated now; always 0 where that is not known."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    try:
        ask = ctypes.CDLL(None).mallinfo2  # glibc from 2.33 on
    except (OSError, AttributeError):
        return 0
    ask.restype = _Allocated
    counts = ask()
    return int(counts.mapped + counts.used)  # large tensors have mappings of their own


def free(device: torch.device, root: Path = Path("/")) -> float:
    """Bytes that may still be taken; infinite where that is not known."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return available_memory(root) if device.type == "cpu" else float("inf")


def in_words(needed: float, available: float) -> str:
    """The estimate in words."""
    free = f", {size(available)} are free" if available < float("inf") else ""
    return f"a step needs about {size(needed)} of memory{free}"


def micro_batches_that_fit(
    needed: Need, available: float, *, images: int, micro_batches: int
) -> int:
    """The fewest micro-batches, not below `micro_batches`, in which a step fits; 0 if none."""
    counts = range(micro_batches, max(micro_batches, images // 2) + 1)
    return next((n for n in counts if needed.fits(-(-images // n), available)), 0)


def check(section: str, needed: Need, available: float, *, images: int, micro_batches: int) -> None:
    """An ArdorError where a step does not fit, with the number of parts in which it would."""
    part = -(-images // micro_batches)
    if needed.fits(part, available):
        return
    fitting = micro_batches_that_fit(needed, available, images=images, micro_batches=micro_batches)
    hint = "use a smaller network: --set space.channels, or a shorter space.layout"
    if fitting:
        smaller = -(-images // fitting)
        hint = f"compute it {smaller} images at a time: --set {section}.accumulate={fitting}"
    raise ArdorError(
        f"a step with {part} images at a time needs about {size(needed.of(part))} of memory, "
        f"safely {size(MARGIN * needed.of(part))}; {size(available)} are free",
        hint,
    )
