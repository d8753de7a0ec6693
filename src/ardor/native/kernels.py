"""The fast path of states: sums of chains of blocks under their gates, in native code.

A block is a convolution (separable, pointwise, or full) or a pool, normalised by the statistics of
the batch. Torch would run and keep every layer of every chain. Here only the raw output of a block
is kept, normalisation and ReLU between two blocks are applied as the next one reads, and the
backward pass computes again what it needs. Where there is no compiler, `ready` is false, and
`ardor.layers.mixed` computes layer by layer.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any

import torch
from torch import Tensor

from ardor.native.build import library, processor
from ardor.native.shapes import KERNELS, KINDS, Shape, Term, channels_of

NOISE = 65536 + 512  # normal numbers of which a state draws its noise: TABLE + CHUNK in states.c
SLOTS = ("depthwise", "pointwise", "depthwise_log_var", "pointwise_log_var", "gamma", "beta")
SIZES = (
    *("kind", "kernel", "stride", "dilation"),
    *("relu", "relu_last", "bare", "height", "width", "inputs"),
)


class _Block(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int) for name in SIZES),
        ("key", ctypes.c_uint32 * 2),
        ("eps", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in (*SLOTS, "z", "mean", "spread")),
        *((f"d{name}", ctypes.c_void_p) for name in SLOTS),
    ]


class _Term(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("x", "dx")),
        *((name, ctypes.c_int) for name in ("size", "blocks")),
        ("block", ctypes.POINTER(_Block)),
    ]


class _State(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int) for name in ("images", "height", "width", "channels", "terms")),
        ("term", ctypes.POINTER(_Term)),
        *((name, ctypes.c_void_p) for name in ("gate", "noise", "out", "g", "dgate")),
    ]


def ready(x: Tensor, chain: tuple[Shape, ...]) -> bool:
    """Whether the native code can take this chain on this input."""
    return (
        x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.float64)
        and len(x) > 0
        and all(shape.kernel in KERNELS[shape.kind] for shape in chain)
        and library() is not None
    )


def native_sum(
    sources: Sequence[Tensor], terms: Sequence[Term], gates: Tensor, weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """The terms added up under `gates`, (images | 1, terms), and the statistics of every block.

    All numbers of channels are multiples of LANES. Terms of one source stand next to each other.
    `weights` are the tensors that `Shape.slots` names, of every block in order. Noise follows from
    torch's random state. The statistics, (blocks, 2, channels), are the mean and 1 / the standard
    deviation of the values that each block normalises.
    """
    result = _Sum.apply(gates, tuple(terms), len(sources), *sources, *weights)  # type: ignore[no-untyped-call]
    return result[0], result[1]


@lru_cache(1024)
def _block(shape: Shape, height: int, width: int, channels: int) -> _Block:
    """A block on an input of that size, without its weights; to be copied."""
    block = _Block(KINDS.index(shape.kind), shape.kernel, shape.stride, shape.dilation)
    block.relu, block.relu_last, block.eps = shape.relu, shape.relu_last, shape.eps
    block.bare, block.height, block.width = shape.bare, height, width
    # A stride pairs pixels, so that none is lost.
    block.inputs = shape.channels[0] * shape.stride if shape.channels else channels
    return block


@lru_cache(1024)
def _plan(
    terms: tuple[Term, ...], sizes: tuple[tuple[int, int], ...], channels: int
) -> tuple[tuple[_Block, ...], tuple[int, ...], tuple[int, int]]:
    """The blocks of all terms, the elements of their outputs for one image, the size of the sum."""
    blocks, counts, height, width = [], [], 0, 0
    for term in terms:
        height, width = sizes[term.source]
        for shape in term.chain:
            blocks.append(_block(shape, height, width, channels))
            height, width = -(-height // shape.stride), -(-width // shape.stride)
            counts.append(height * width * channels)
    return tuple(blocks), tuple(counts), (height, width)


class _Call:
    """The arguments of one native call: sizes, pointers, and the tensors they point to."""

    def __init__(
        self,
        sources: Sequence[Tensor],
        terms: tuple[Term, ...],
        gates: Tensor,
        weights: Sequence[Tensor],
    ) -> None:
        self.sources = [x.contiguous(memory_format=torch.channels_last) for x in sources]
        self.weights = [weight.contiguous() for weight in weights]
        self.shapes = [shape for term in terms for shape in term.chain]
        like, batch = self.sources[0], len(self.sources[0])
        self.channels = channels_of(self.sources, self.shapes)
        sizes = tuple((x.shape[2], x.shape[3]) for x in self.sources)
        plan, counts, self.size = _plan(terms, sizes, self.channels)
        self.gates = gates.expand(batch, -1).t().to(like.dtype).contiguous()  # (terms, images)
        # One tensor for each block: the allocator reuses moderate sizes, but not large ones.
        self.outputs = [like.new_empty(batch * count) for count in counts]
        self.statistics = like.new_empty(len(plan), 2, self.channels)
        drawn = any(shape.samples_weights for shape in self.shapes)
        self.noise = torch.randn(NOISE, dtype=like.dtype) if drawn else None
        self.blocks = (_Block * len(plan))(*plan)
        self.point_blocks()
        self.terms = (_Term * len(terms))()
        self.point_terms(terms)

    def point_blocks(self) -> None:
        """Sets where weights, outputs and statistics of the blocks are, and the keys of noise."""
        statistics = self.statistics.data_ptr()
        row = self.channels * self.statistics.element_size()
        weights = iter(self.weights)
        keys = [[0, 0]] * len(self.blocks)
        if self.noise is not None:
            keys = torch.randint(2**32, (len(keys), 2)).tolist()
        for index, (block, shape) in enumerate(zip(self.blocks, self.shapes, strict=True)):
            block.z = self.outputs[index].data_ptr()
            block.mean, block.spread = (
                statistics + 2 * index * row,
                statistics + (2 * index + 1) * row,
            )
            block.key[:] = keys[index]
            for slot in shape.slots:
                setattr(block, slot, next(weights).data_ptr())

    def point_terms(self, terms: Sequence[Term]) -> None:
        """Sets the pointers to the sources and blocks of the terms."""
        index = 0
        for term, of in zip(self.terms, terms, strict=True):
            x = self.sources[of.source]
            term.x, term.size, term.blocks = x.data_ptr(), x.stride(0), len(of.chain)
            if of.chain:
                term.block = ctypes.pointer(self.blocks[index])
            index += len(of.chain)

    def empty(self) -> Tensor:
        """A new tensor of the sum's size, channels last."""
        batch, (height, width) = self.gates.shape[1], self.size
        return self.statistics.new_empty(batch, height, width, self.channels).permute(0, 3, 1, 2)

    def run(self, name: str, **tensors: Tensor) -> None:
        """Calls the native function for this type and number of channels."""
        counts = {self.channels, *(x.shape[1] for x in self.sources)}
        wide = not any(count % 16 for count in counts) and "avx512f" in processor()
        kind = "double" if self.gates.dtype == torch.float64 else f"float{16 if wide else 8}"
        of = _State(self.gates.shape[1], *self.size, self.channels, len(self.terms), self.terms)
        of.noise = None if self.noise is None else self.noise.data_ptr()
        for slot, tensor in {"gate": self.gates, **tensors}.items():
            setattr(of, slot, tensor.data_ptr())
        native = library()
        assert native is not None
        if getattr(native, f"{name}_{kind}")(ctypes.byref(of)):
            raise MemoryError(f"no memory for a state of {len(self.terms)} terms")


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward pass without second derivatives: to ask for them is an error, not zero."""

    @wraps(backward)
    def checked(ctx: Any, *gradients: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("native code and batches in parts have no second derivatives")
        return backward(ctx, *gradients)

    return checked


class _Sum(torch.autograd.Function):
    """sum_k gate_k chain_k(x_k), with gradients in everything."""

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, terms: tuple[Term, ...], count: int, *tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        call = _Call(tensors[:count], terms, gates, tensors[count:])
        # Not kept in `call`: an output that its own graph holds would never be freed.
        out = call.empty()
        call.run("state_forward", out=out)
        ctx.kept = call, terms, gates
        ctx.mark_non_differentiable(call.statistics)
        return out, call.statistics

    @staticmethod
    @first_order
    def backward(ctx: Any, g: Tensor, _: Tensor) -> Any:
        call, terms, gates = ctx.kept
        g = g.contiguous(memory_format=torch.channels_last)
        dgates = torch.empty_like(call.gates)
        dsources = [torch.empty_like(x) for x in call.sources]
        for term, of in zip(call.terms, terms, strict=True):
            term.dx = dsources[of.source].data_ptr()
        # Only where they are needed: a step of the gates alone is then faster.
        wanted = ctx.needs_input_grad[3 + len(call.sources) :]
        dweights = [torch.empty_like(w) if any(wanted) else None for w in call.weights]
        slots = (
            (block, f"d{slot}")
            for block, shape in zip(call.blocks, call.shapes, strict=True)
            for slot in shape.slots
        )
        for (block, slot), gradient in zip(slots, dweights, strict=True):
            setattr(block, slot, None if gradient is None else gradient.data_ptr())
        call.run("state_backward", g=g, dgate=dgates)
        dgates = dgates.t() if len(gates) > 1 else dgates.sum(1)[None]
        return dgates.to(gates.dtype), None, None, *dsources, *dweights
