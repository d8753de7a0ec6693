"""States: candidates added up under their gates.

Chains for which there is native code are computed and added up there, the others layer by layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.layers.blocks import Chain, Normalised
from ardor.native.padding import padded_sum
from ardor.native.shapes import Term


@dataclass(frozen=True)
class Terms:
    """Part of a state: chains on x, or tensors as they are, and their gates, (batch | 1, terms)."""

    parts: Sequence[tuple[Tensor, Chain | None]]
    gates: Tensor | None = None  # all open
    bypass: "Terms | None" = None  # channels that skip the operations, where they are partial

    def under(self, gate: Tensor) -> "Terms":
        """The same under another gate, (batch | 1, 1), in addition to their own."""
        bypass = None if self.bypass is None else self.bypass.under(gate)
        return Terms(self.parts, self._times(gate), bypass)

    def each_under(self, gates: Tensor) -> "Terms":
        """The same with another gate for each term, (batch, terms); the bypass has none."""
        return Terms(self.parts, self._times(gates), self.bypass)

    def _times(self, gates: Tensor) -> Tensor:
        return gates.expand(-1, len(self.parts)) if self.gates is None else self.gates * gates


def add_up(edges: Sequence[Terms]) -> Tensor | None:
    """All terms added up; None where there are none.

    The bypasses are added up on their own; both sums are joined, and their channels shuffled, so
    that the next operations read other channels (Xu et al. 2020, PC-DARTS, section 3.1).
    """
    total = _total(edges)
    bypass = _total([edge.bypass for edge in edges if edge.bypass is not None])
    if total is None or bypass is None:
        return total
    joined = torch.cat([total, bypass], 1)
    return F.channel_shuffle(joined, joined.shape[1] // total.shape[1])


def _total(edges: Sequence[Terms]) -> Tensor | None:
    """The terms added up, without their bypasses."""
    edges = [edge for edge in edges if edge.parts]
    parts = [_native_or_computed(x, chain) for edge in edges for x, chain in edge.parts]
    if not parts:
        return None
    gates = _joined(edges)
    if any(chain is not None for _, chain in parts):
        return _native(parts, parts[0][0].new_ones(1, len(parts)) if gates is None else gates)
    outputs = [x if gates is None else gated(x, gates[:, k]) for k, (x, _) in enumerate(parts)]
    return sum(outputs[1:], outputs[0])


def gated(x: Tensor, gate: Tensor) -> Tensor:
    """A tensor of as many images as there are gates, or of any number under a single one."""
    return gate.reshape(-1, *(1,) * (x.dim() - 1)) * x


def output(chain: nn.Module, x: Tensor) -> Tensor:
    """The output of a chain, or of any other module, by itself."""
    if not isinstance(chain, Chain):
        return chain(x)  # type: ignore[no-any-return]
    total = add_up([Terms([(x, chain)])])
    assert total is not None
    return total


def _native_or_computed(x: Tensor, chain: Chain | None) -> tuple[Tensor, Chain | None]:
    """The chain itself, for the native code, or its output where that cannot compute it."""
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
    """The sum by native code; running statistics of its normalisations move along."""
    sources = {id(x): x for x, _ in parts}
    place = {key: index for index, key in enumerate(sources)}
    order = sorted(range(len(parts)), key=lambda k: place[id(parts[k][0])])
    ordered = [parts[k] for k in order]
    terms = [Term(place[id(x)], chain.shapes() if chain else ()) for x, chain in ordered]
    blocks = [block for _, chain in ordered if chain for block in chain.blocks()]
    weights = [weight for block in blocks for weight in block.weights()]
    gates = gates if order == list(range(len(parts))) else gates[:, order]
    total, statistics = padded_sum(list(sources.values()), terms, gates, weights)
    count = total.numel() // total.shape[1]
    for index, block in enumerate(blocks):
        if isinstance(block, Normalised) and block.remembers:
            block.remember_(statistics[index, 0], statistics[index, 1], count)
    return total


class DropPath(nn.Module):
    """Drops a path for some examples while training, and scales it up for the others."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = 0.0

    @property
    def dropping(self) -> bool:
        """Whether any path may be dropped."""
        return self.training and self.rate > 0

    def forward(self, like: Tensor) -> Tensor | None:
        """A gate for each image of the batch, (batch, 1); None while nothing is dropped."""
        if not self.dropping:
            return None
        keep = 1 - self.rate
        return (torch.rand(len(like), 1, device=like.device) < keep).to(like.dtype) / keep


class Mixed(nn.Module):
    """The candidates of one choice, to be added up under their gates.

    Where channels are partial, the first 1 / `partial` of them go through; the others skip them.
    """

    def __init__(
        self,
        options: tuple[str, ...],
        candidates: dict[str, nn.Module],
        *,
        partial: int = 1,
        stride: int = 1,
    ) -> None:
        super().__init__()
        self.partial, self.stride = partial, stride
        self.candidates = nn.ModuleDict(candidates)
        self.gate_of = {name: options.index(name) for name in candidates}
        self.drop_path = DropPath()
        self.hard = False  # whether gates of zero shut candidates even while gates learn

    def forward(self, x: Tensor, gates: Tensor | None = None) -> Terms:
        """The candidates that are computed; `gates` is (batch | 1, options)."""
        closed = shut(gates, hard=self.hard)
        names = [name for name in self.candidates if self.gate_of[name] not in closed]
        if not names:
            return Terms([])
        x, bypass = self._split(x)
        parts = [self._part(x, self.candidates[name]) for name in names]
        open_ = None if gates is None else gates[:, [self.gate_of[n] for n in names]]
        terms = Terms(parts, open_, bypass)
        return self._dropped(terms, names) if self.drop_path.dropping else terms

    def _split(self, x: Tensor) -> tuple[Tensor, Terms | None]:
        """The channels that operations see, and the others, with a stride their maxima."""
        if self.partial == 1:
            return x, None
        seen = x.shape[1] // self.partial
        x, others = torch.split(x, [seen, x.shape[1] - seen], 1)
        # An odd side gives the size of any other strided operation.
        others = others if self.stride == 1 else F.max_pool2d(others, self.stride, ceil_mode=True)
        return x, Terms([(others, None)])

    def _part(self, x: Tensor, candidate: nn.Module) -> tuple[Tensor, Chain | None]:
        if isinstance(candidate, Chain):
            return x, candidate
        return (x if isinstance(candidate, nn.Identity) else candidate(x)), None

    def _dropped(self, terms: Terms, names: Sequence[str]) -> Terms:
        """The terms with some paths dropped, but never the identity (DARTS)."""
        x = terms.parts[0][0]
        open_ = x.new_ones(len(x), 1)
        kept = [
            open_ if isinstance(self.candidates[n], nn.Identity) else self.drop_path(x)
            for n in names
        ]
        return terms.each_under(torch.cat(kept, 1))


def shut(gates: Tensor | None, *, hard: bool = False) -> set[int]:
    """The columns of gates that are zero and do not learn: their candidates need not be computed.

    Of `hard` gates a step teaches only the open ones (GDAS): zeros are never computed.
    """
    if gates is None or (gates.requires_grad and not hard):
        return set()
    return set((gates == 0).all(0).nonzero().flatten().tolist())


def squared_norm(module: nn.Module | None) -> Tensor:
    """Sum of squared weights of convolutions and linear maps; 0 for what has none."""
    modules = module.modules() if module is not None else []
    squares = [m.weight.square().sum() for m in modules if isinstance(m, (nn.Conv2d, nn.Linear))]
    return torch.stack(squares).sum() if squares else torch.zeros(())
