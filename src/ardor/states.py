"""States: candidates added up under their gates.

What kernels.py can compute natively goes there; what it cannot goes the plain way, layer by layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ardor import kernels
from ardor.blocks import Chain


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
        return self._dropped(terms, names) if self.drop_path.dropping and names else terms

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
