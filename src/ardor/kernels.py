"""The fast path of depthwise-separable candidates: one native pass for each block.

The candidates of an edge are chains of blocks (depthwise, pointwise, normalised by the statistics
of the batch) and tensors without weights (pools, the identity), added up under their gates. Torch
would run and keep every layer of them. Here an input is read once, only the output of a block is
kept, the normalisation and the ReLU between two blocks are applied as the next one reads, and the
backward pass makes again what it needs. Where there is no compiler, `ready` says so and layers.py
takes the plain way.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ardor.native import library, processor

LANES = 8  # channels that the native code takes at a time
KERNELS = (3, 5, 7)


@dataclass(frozen=True)
class Shape:
    """What a block is but for its weights."""

    kernel: int
    stride: int
    dilation: int
    relu: bool  # on its input, after normalisation
    relu_last: bool  # on its normalised output, at the end of a chain
    uncertain: bool  # its weights have variances: activations are drawn
    eps: float

    @property
    def weights(self) -> int:
        """How many tensors its weights are."""
        return 4 if self.uncertain else 2


class _Block(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int) for name in ("images", "height", "width", "channels")),
        *((name, ctypes.c_int) for name in ("kernel", "stride", "dilation", "relu")),
        *((name, ctypes.c_void_p) for name in ("x", "scale", "shift", "depthwise", "pointwise")),
        *((name, ctypes.c_void_p) for name in ("depthwise_var", "pointwise_var")),
        ("key", ctypes.c_uint32 * 2),
    ]


class _Backward(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("z", "g", "gate", "slope_g", "slope_z", "level")),
        *((name, ctypes.c_void_p) for name in ("out_scale", "out_shift")),
        *((name, ctypes.c_void_p) for name in ("transposed", "transposed_var", "dx")),
        *((name, ctypes.c_void_p) for name in ("ddepthwise", "dpointwise")),
        *((name, ctypes.c_void_p) for name in ("ddepthwise_var", "dpointwise_var", "sums")),
    ]


def ready(x: Tensor, shapes: Sequence[Sequence[Shape]]) -> bool:
    """Whether the native code can take these blocks on this input."""
    return (
        x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.float64)
        and x.shape[0] > 0
        and x.shape[1] % LANES == 0
        and all(shape.kernel in KERNELS for chain in shapes for shape in chain)
        and library() is not None
    )


def mixed(
    x: Tensor,
    gates: Tensor,
    chains: Sequence[Sequence[Shape]],
    weights: Sequence[Tensor],
    others: Sequence[Tensor],
) -> Tensor:
    """The chains and then the other tensors, added up under `gates`, (images | 1, terms).

    `weights` are the depthwise and pointwise weights of every block, in order; for an uncertain
    block their means, and then their variances. Its noise follows from torch's random state.
    """
    return _Mixed.apply(x, gates, chains, len(others), *others, *weights)  # type: ignore[no-any-return,no-untyped-call]


def _call(name: str, like: Tensor, *arguments: Any) -> None:
    """The native function for a tensor's type and number of channels."""
    kind = "double" if like.dtype == torch.float64 else f"float{16 if _wide(like) else 8}"
    native = library()
    assert native is not None
    getattr(native, f"{name}_{kind}")(*arguments)


def _wide(like: Tensor) -> bool:
    """Whether sixteen channels at a time pay: only where registers hold as many."""
    return like.shape[1] % 16 == 0 and "avx512f" in processor()


def _empty(batch: int, channels: int, height: int, width: int, like: Tensor) -> Tensor:
    """A new tensor, channels last."""
    return like.new_empty(batch, height, width, channels).permute(0, 3, 1, 2)


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


@dataclass
class _Made:
    """A block that has run: its input, its weights as the native code wants them, its output."""

    shape: Shape
    x: Tensor
    scale: Tensor | None
    shift: Tensor | None
    taps: list[Tensor]  # depthwise weights, (kernel * kernel, channels); and variances
    matrices: list[Tensor]  # pointwise weights, (channels in, channels out); and variances
    key: list[int]
    z: Tensor
    mean: Tensor
    spread: Tensor  # 1 / standard deviation

    @classmethod
    def of(cls, shape: Shape, before: "_Made | Tensor", weights: Sequence[Tensor]) -> "_Made":
        """Runs a block on an input, or on the normalised output of another block."""
        x, scale, shift = before, None, None
        if isinstance(before, _Made):
            x, scale, shift = before.z, before.spread, -before.mean * before.spread
        assert isinstance(x, Tensor)
        batch, channels, height, width = x.shape
        z = _empty(batch, channels, -(-height // shape.stride), -(-width // shape.stride), x)
        taps = [w.reshape(channels, -1).t().contiguous() for w in weights[::2]]
        matrices = [w.reshape(channels, channels).t().contiguous() for w in weights[1::2]]
        key = torch.randint(2**32, (2,)).tolist() if shape.uncertain else [0, 0]
        made = cls(shape, x, scale, shift, taps, matrices, key, z, z, z)
        sums = torch.empty(batch, 2, channels, dtype=torch.double)
        _call("block_forward", x, ctypes.byref(made.block()), _pointer(z), _pointer(sums))
        mean, square = sums.sum(0) / (z.numel() // channels)
        made.mean = mean.to(x.dtype)
        made.spread = (square - mean * mean).clamp_min(0).add(shape.eps).rsqrt().to(x.dtype)
        return made

    def block(self) -> _Block:
        """The block as the native code knows it; valid as long as this object."""
        batch, channels, height, width = self.x.shape
        shape = self.shape
        sizes = (
            batch,
            height,
            width,
            channels,
            shape.kernel,
            shape.stride,
            shape.dilation,
            shape.relu,
        )
        pairs = zip(self.taps, self.matrices, strict=True)
        weights = _padded([w for pair in pairs for w in pair], 4)
        tensors = (self.x, self.scale, self.shift, *weights)
        return _Block(*map(int, sizes), *map(_at, tensors), (ctypes.c_uint32 * 2)(*self.key))

    def backward(
        self, g: Tensor, gate: Tensor | None, sums: Tensor, dx: Tensor, *, last: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """Adds to or writes dx; gives its sums, and the gradients of the weights.

        `sums` are those of the normalised output's gradient, and of it times z, over the batch.
        """
        batch, channels = self.x.shape[:2]
        out: tuple[Tensor | None, Tensor | None] = (None, None)
        if last and self.shape.relu_last:
            out = (self.spread, -self.mean * self.spread)
        transposed = [matrix.t().contiguous() for matrix in self.matrices]
        dtaps = [g.new_empty(batch, *taps.shape) for taps in self.taps]
        dmatrices = [g.new_empty(batch, *matrix.shape) for matrix in self.matrices]
        found = torch.empty(batch, 2, channels, dtype=torch.double)
        pairs = [w for pair in zip(dtaps, dmatrices, strict=True) for w in pair]
        tensors = (self.z, g, gate, *self.slopes(sums), *out, *_padded(transposed, 2), dx)
        backward = _Backward(*map(_at, (*tensors, *_padded(pairs, 4), found)))
        _call("block_backward", g, ctypes.byref(self.block()), ctypes.byref(backward))
        kernel = self.shape.kernel
        shapes = ((channels, 1, kernel, kernel), (channels, channels, 1, 1)) * len(dtaps)
        return found.sum(0), [w.sum(0).t().reshape(s) for w, s in zip(pairs, shapes, strict=True)]

    def slopes(self, sums: Tensor) -> list[Tensor]:
        """What multiplies g and z, and what is added, in the gradient of z: that of a BatchNorm."""
        count = self.z.numel() // self.z.shape[1]
        mean, spread = self.mean.double(), self.spread.double()
        slope_z = -(spread**3) * (sums[1] - mean * sums[0]) / count
        level = -spread * sums[0] / count - slope_z * mean
        return [t.to(self.z.dtype) for t in (spread, slope_z, level)]


def _padded(tensors: Sequence[Tensor], count: int) -> list[Tensor | None]:
    """The tensors, and None up to that many where there are no variances."""
    return [*tensors, *[None] * (count - len(tensors))]


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


class _Terms:
    """The outputs that are added up, as arrays of pointers."""

    def __init__(self, ends: Sequence[_Made], others: Sequence[Tensor]) -> None:
        self.values = [*(made.z for made in ends), *others]
        self.scales = [*(made.spread for made in ends), *(None for _ in others)]
        self.shifts = [*(-made.mean * made.spread for made in ends), *(None for _ in others)]
        relus = [*(int(made.shape.relu_last) for made in ends), *(0 for _ in others)]
        batch, channels, height, width = self.values[0].shape
        self.sizes = (len(self.values), batch, height * width, channels)
        count = len(self.values)
        pointers = ctypes.c_void_p * count
        self.arrays = (
            pointers(*map(_at, self.values)),
            pointers(*map(_at, self.scales)),
            pointers(*map(_at, self.shifts)),
            (ctypes.c_int * count)(*relus),
        )


class _Mixed(torch.autograd.Function):
    """sum_k gate_k chain_k(x) + sum_k gate_k other_k, with gradients in everything."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gates: Tensor, chains: Any, count: int, *tensors: Tensor
    ) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        others = [t.contiguous(memory_format=torch.channels_last) for t in tensors[:count]]
        weights = iter(tensors[count:])
        made: list[list[_Made]] = []
        for chain in chains:
            before: _Made | Tensor = x
            made.append([])
            for shape in chain:
                before = _Made.of(shape, before, [next(weights) for _ in range(shape.weights)])
                made[-1].append(before)
        terms = _Terms([blocks[-1] for blocks in made], others)
        spread = gates.expand(x.shape[0], -1).t().to(x.dtype).contiguous()  # (terms, images)
        out = torch.empty_like(terms.values[0])
        _call("combine", x, *terms.sizes, *terms.arrays, _pointer(spread), _pointer(out))
        ctx.kept = (x, gates.shape[0], spread, made, terms)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        x, rows, gates, made, terms = ctx.kept
        g = g.contiguous(memory_format=torch.channels_last)
        sums = torch.empty(len(gates), g.shape[0], 2, g.shape[1], dtype=torch.double)
        _call("combine_sums", g, *terms.sizes, *terms.arrays, _pointer(g), _pointer(sums))
        dgates = _gate_gradients(terms, sums).to(g.dtype)
        dx = torch.zeros_like(x)
        dweights: list[Tensor] = []
        for blocks, gate, each in zip(made, gates, sums, strict=False):  # the others come after
            batch_sums = (gate.double()[:, None, None] * each).sum(0)
            dweights += _chain_backward(blocks, g, gate, batch_sums, dx)
        others = [gate[:, None, None, None] * g for gate in gates[len(made) :]]
        dgates = dgates if rows > 1 else dgates.sum(0, keepdim=True)
        return dx, dgates, None, None, *others, *dweights


def _gate_gradients(terms: _Terms, sums: Tensor) -> Tensor:
    """sum of g * term for each image and term, (images, terms)."""
    columns = []
    for k, (scale, shift) in enumerate(zip(terms.scales, terms.shifts, strict=True)):
        column = sums[k, :, 1]
        if scale is not None and shift is not None:
            column = scale.double() * column + shift.double() * sums[k, :, 0]
        columns.append(column.sum(1))
    return torch.stack(columns, 1)


def _chain_backward(
    chain: Sequence[_Made], g: Tensor, gate: Tensor, sums: Tensor, dx: Tensor
) -> list[Tensor]:
    """Gradients of the weights of a chain, from its last block to its first; adds to dx."""
    found: list[Tensor] = []
    for block in reversed(chain):
        target = dx if block is chain[0] else torch.empty_like(block.x)
        last = block is chain[-1]
        sums, dweights = block.backward(g, gate if last else None, sums, target, last=last)
        found, g = [*dweights, *found], target
    return found
