"""Blocks, chains of blocks, and states: sums of candidates under their gates.

What kernels.py can compute natively goes there; what it cannot goes the plain way, layer by layer.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor import kernels
from ardor.layers import Variational

NO_VARIANCE = -30.0  # its log, where a weight is zero and stays so


class Block(nn.Module, ABC):
    """Something, normalised; rectified before (DARTS) or after (VINNAS)."""

    def __init__(self, norm: nn.BatchNorm2d, *, relu_last: bool) -> None:
        super().__init__()
        self.norm, self.relu_last = norm, relu_last

    @abstractmethod
    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        """What kernels.py must know of it at its place in a chain."""

    def weights(self) -> list[Tensor]:
        """What `kernels.Shape.slots` names."""
        return [self.norm.weight, self.norm.bias] if self.norm.affine else []

    def native(self) -> bool:
        """Whether kernels.py computes the same: by the statistics of the batch."""
        return self.norm.training or self.norm.running_mean is None

    @torch.no_grad()
    def remember_(self, mean: Tensor, spread: Tensor, count: int) -> None:
        """Moves the running statistics as BatchNorm does."""
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        share = 0.1 if norm.momentum is None else norm.momentum
        variance = (
            (spread.square().reciprocal() - norm.eps).clamp_min(0) * count / max(count - 1, 1)
        )
        norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), share)
        norm.running_var.lerp_(variance.to(norm.running_var.dtype), share)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked += 1


class SeparableBlock(Block):
    """Depthwise, pointwise, normalised."""

    def __init__(
        self, depthwise: nn.Conv2d, pointwise: nn.Conv2d, norm: nn.BatchNorm2d, *, relu_last: bool
    ) -> None:
        super().__init__(norm, relu_last=relu_last)
        self.depthwise, self.pointwise = depthwise, pointwise

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.relu_last else F.relu(x)
        x = self.norm(self.pointwise(self.depthwise(x)))
        return F.relu(x) if self.relu_last else x

    def weights(self) -> list[Tensor]:
        pairs = zip(convolution(self.depthwise), convolution(self.pointwise), strict=True)
        return [*(weight for pair in pairs for weight in pair), *super().weights()]

    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        return kernels.Shape(
            self.depthwise.kernel_size[0],
            self.depthwise.stride[0],
            self.depthwise.dilation[0],
            relu=not (first and self.relu_last),
            relu_last=last and self.relu_last,
            uncertain=self.training and isinstance(self.depthwise, Variational),
            affine=self.norm.affine,
            eps=self.norm.eps,
        )


class PointwiseBlock(Block):
    """Rectified, mixed across channels, normalised."""

    def __init__(self, pointwise: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__(norm, relu_last=False)
        self.pointwise = pointwise

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.pointwise(F.relu(x)))  # type: ignore[no-any-return]

    def weights(self) -> list[Tensor]:
        return [*convolution(self.pointwise), *super().weights()]

    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        return pointwise_shape(self.pointwise, self.norm)


class FactorizedReduce(Block):
    """Halves the image without dropping pixels: two strided 1x1 convolutions, one shifted."""

    def __init__(self, even: nn.Conv2d, odd: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__(norm, relu_last=False)
        self.even, self.odd = even, odd

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        # An odd side is padded, so that both halves have the size of any other strided operation.
        shifted = F.pad(x, (-1, x.shape[3] % 2, -1, x.shape[2] % 2))
        joined: Tensor = self.norm(torch.cat([self.even(x), self.odd(shifted)], 1))
        return joined

    def weights(self) -> list[Tensor]:
        """Those of one pointwise convolution of paired pixels: each half reads its own pixel."""
        halves = zip(convolution(self.even), convolution(self.odd), strict=True)
        width = self.even.in_channels
        found = [
            torch.cat(
                [
                    F.pad(even, (0, 0, 0, 0, 0, width), value=nothing),
                    F.pad(odd, (0, 0, 0, 0, width, 0), value=nothing),
                ]
            )
            for (even, odd), nothing in zip(halves, (0.0, NO_VARIANCE), strict=False)
        ]
        return [*found, *super().weights()]

    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        return pointwise_shape(self.even, self.norm)


def convolution(conv: nn.Conv2d) -> list[Tensor]:
    """Its weights, and their log-variances where its activations are drawn."""
    if not isinstance(conv, Variational):
        return [conv.weight]
    return [conv.weight, conv.log_var] if conv.training else [conv.pruned()]


def pointwise_shape(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> kernels.Shape:
    """What kernels.py must know of a 1x1 convolution; a strided one pairs pixels."""
    return kernels.Shape(
        1,
        conv.stride[0],
        kind="pointwise",
        channels=(conv.in_channels, norm.num_features),
        relu=True,
        uncertain=conv.training and isinstance(conv, Variational),
        affine=norm.affine,
        eps=norm.eps,
    )


class PoolBlock(Block):
    """A pool, normalised."""

    def __init__(
        self, pool: nn.MaxPool2d | nn.AvgPool2d, norm: nn.BatchNorm2d, *, relu_last: bool
    ) -> None:
        super().__init__(norm, relu_last=relu_last)
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.pool(x))
        return F.relu(x) if self.relu_last else x

    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        return kernels.Shape(
            3,
            int(self.pool.stride if isinstance(self.pool.stride, int) else self.pool.stride[0]),
            kind="maximum" if isinstance(self.pool, nn.MaxPool2d) else "average",
            relu_last=last and self.relu_last,
            affine=self.norm.affine,
            eps=self.norm.eps,
        )


class Chain(nn.Sequential):
    """Blocks, one after another."""

    def __init__(self, *blocks: Block) -> None:
        super().__init__(*blocks)
        self._shapes: dict[bool, tuple[kernels.Shape, ...]] = {}  # while training, and otherwise

    def blocks(self) -> list[Block]:
        """Its blocks."""
        return [block for block in self if isinstance(block, Block)]

    def shapes(self) -> tuple[kernels.Shape, ...]:
        """What kernels.py must know of them."""
        if self.training not in self._shapes:
            blocks = self.blocks()
            self._shapes[self.training] = tuple(
                b.shape(first=b is blocks[0], last=b is blocks[-1]) for b in blocks
            )
        return self._shapes[self.training]

    def native(self, x: Tensor) -> bool:
        """Whether kernels.py can take it on this input."""
        return all(block.native() for block in self.blocks()) and kernels.ready(x, self.shapes())


@dataclass(frozen=True)
class Terms:
    """Part of a state: chains on x, or tensors as they are, and their gates, (batch | 1, terms)."""

    parts: Sequence[tuple[Tensor, Chain | None]]
    gates: Tensor | None = None  # all open

    def under(self, gate: Tensor) -> "Terms":
        """The same under another gate, (batch | 1, terms | 1), in addition to their own."""
        gates = gate.expand(-1, len(self.parts)) if self.gates is None else self.gates * gate
        return Terms(self.parts, gates)


def state(edges: Sequence[Terms]) -> Tensor | None:
    """All terms added up; None where there are none."""
    edges = [edge for edge in edges if edge.parts]
    parts = [_made(x, chain) for edge in edges for x, chain in edge.parts]
    if not parts:
        return None
    gates = _joined(edges)
    if any(chain is not None for _, chain in parts):
        return _native(parts, parts[0][0].new_ones(1, len(parts)) if gates is None else gates)
    outputs = [
        x if gates is None else gates[:, k, None, None, None] * x for k, (x, _) in enumerate(parts)
    ]
    return sum(outputs[1:], outputs[0])


def output(chain: nn.Module, x: Tensor) -> Tensor:
    """What a chain makes of x, by itself."""
    assert isinstance(chain, Chain)
    made = state([Terms([(x, chain)])])
    assert made is not None
    return made


def _made(x: Tensor, chain: Chain | None) -> tuple[Tensor, Chain | None]:
    """A chain left to kernels.py, or computed here if it cannot take it."""
    return (x, chain) if chain is None or chain.native(x) else (chain(x), None)


def _joined(edges: Sequence[Terms]) -> Tensor | None:
    """The gates of all terms side by side, (batch | 1, terms)."""
    if all(edge.gates is None for edge in edges):
        return None
    x = edges[0].parts[0][0]
    gates = [x.new_ones(1, len(e.parts)) if e.gates is None else e.gates for e in edges]
    batch = max(len(gate) for gate in gates)
    return torch.cat([gate.expand(batch, -1) for gate in gates], 1)


def _native(parts: Sequence[tuple[Tensor, Chain | None]], gates: Tensor) -> Tensor:
    """The sum by kernels.py, and what the normalisations remember of it."""
    sources = {id(x): x for x, _ in parts}
    place = {key: index for index, key in enumerate(sources)}
    order = sorted(range(len(parts)), key=lambda k: place[id(parts[k][0])])
    ordered = [parts[k] for k in order]
    terms = [kernels.Term(place[id(x)], chain.shapes() if chain else ()) for x, chain in ordered]
    blocks = [block for _, chain in ordered if chain for block in chain.blocks()]
    weights = [weight for block in blocks for weight in block.weights()]
    gates = gates if order == list(range(len(parts))) else gates[:, order]
    total, statistics = kernels.state(list(sources.values()), terms, gates, weights)
    count = total.numel() // total.shape[1]
    for index, block in enumerate(blocks):
        if block.norm.training and block.norm.running_mean is not None:
            block.remember_(statistics[index, 0], statistics[index, 1], count)
    return total


class DropPath(nn.Module):
    """Drops a path for some examples while training, and scales it up for the others."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = 0.0

    def forward(self, like: Tensor) -> Tensor | None:
        """A gate for each image of the batch, (batch, 1); None while nothing is dropped."""
        if not self.training or self.rate == 0:
            return None
        keep = 1 - self.rate
        return (torch.rand(len(like), 1, device=like.device) < keep).to(like.dtype) / keep


class Mixed(nn.Module):
    """The candidates of one choice, to be added up under their gates."""

    def __init__(self, options: tuple[str, ...], candidates: dict[str, nn.Module]) -> None:
        super().__init__()
        self.candidates = nn.ModuleDict(candidates)
        self.gate_of = {name: options.index(name) for name in candidates}
        self.drop_path = DropPath()

    def forward(self, x: Tensor, gates: Tensor | None = None) -> Terms:
        """The candidates that are not shut; `gates` is (batch | 1, options)."""
        closed = shut(gates)
        names = [name for name in self.candidates if self.gate_of[name] not in closed]
        parts = [self._part(x, self.candidates[name]) for name in names]
        terms = Terms(parts, None if gates is None else gates[:, [self.gate_of[n] for n in names]])
        return (
            terms if self.drop_path.rate == 0 or not self.training else self._dropped(terms, names)
        )

    def _part(self, x: Tensor, candidate: nn.Module) -> tuple[Tensor, Chain | None]:
        if isinstance(candidate, Chain):
            return x, candidate
        return (x if isinstance(candidate, nn.Identity) else candidate(x)), None

    def _dropped(self, terms: Terms, names: Sequence[str]) -> Terms:
        """Paths dropped, all but the identity (DARTS)."""
        x = terms.parts[0][0]
        open_ = x.new_ones(len(x), 1)
        kept = [
            open_ if isinstance(self.candidates[n], nn.Identity) else self.drop_path(x)
            for n in names
        ]
        return terms.under(torch.cat(kept, 1))


def shut(gates: Tensor | None) -> set[int]:
    """The columns of gates that are zero and do not learn: nothing need be computed under them."""
    if gates is None or gates.requires_grad:
        return set()
    return set((gates == 0).all(0).nonzero().flatten().tolist())
