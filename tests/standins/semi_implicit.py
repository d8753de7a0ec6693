"""The shape of SI-VDNAS: hard Bernoulli times Gaussian on operations and edges, any number kept."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.bayes import Gates
from ardor.methods import Method
from ardor.spaces import Net, Space


class SemiImplicit(Method):
    """Drop rates of operations and of edges, learned on held-out images."""

    bilevel: ClassVar = True
    search: ClassVar = {"gate_rate": 0.05, "gate_decay": 0.0}

    def __init__(self, space: Space, *, rate: float = 0.3) -> None:
        super().__init__(space)
        sizes = {c.name: (1, 1, len(c.options)) for c in self.choices("op", "edge")}
        self.log_delta = nn.ParameterDict({n: torch.full(s, rate).log() for n, s in sizes.items()})
        self.weight = nn.ParameterDict({n: torch.ones(s) for n, s in sizes.items()})
        self.on: dict[str, Tensor] = {}

    def sample(self, batch: int, progress: float) -> Gates:
        gates = {}
        for name, log_delta in self.log_delta.items():
            self.on[name] = torch.bernoulli(torch.sigmoid(-log_delta.detach()))
            xi = self.on[name] * (1 + (0.5 * log_delta).exp() * torch.randn_like(log_delta))
            gates[name] = self.weight[name] * xi
        return gates

    def penalty(self, gates: Gates, net: Net, progress: float) -> Mapping[str, Tensor]:
        left = (1 - progress) ** 2
        terms = [
            (self.on[name] * 0.5 * torch.log1p(left / log_delta.exp())).sum()
            for name, log_delta in self.log_delta.items()
        ]
        return {"kl_gates": torch.stack(terms).sum()}

    def probabilities(self) -> Gates:
        return {n: torch.sigmoid(-log_delta.detach()) for n, log_delta in self.log_delta.items()}

    def draw(self, count: int) -> list[Architecture]:
        return [self.space.subset(self.probabilities())]
