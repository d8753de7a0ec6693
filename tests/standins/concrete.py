"""The shape of PGNAS: concrete masks fresh for each image, weights in the penalty, ranked draws."""

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.bayes import Gates
from ardor.methods import Method
from ardor.spaces import Net, Space


class Concrete(Method):
    """A learned drop probability for each option, jointly with the weights."""

    search: ClassVar = {"candidates": 8, "held_out": 0.25, "gate_rate": 0.05, "gate_decay": 0.0}

    def __init__(self, space: Space, *, temperature: float = 0.2) -> None:
        super().__init__(space)
        self.temperature = temperature
        self.logit = nn.ParameterDict(
            {c.name: torch.full((1, 1, len(c.options)), -1.0) for c in self.choices("op")}
        )

    def sample(self, batch: int, progress: float) -> Gates:
        gates = {}
        for name, logit in self.logit.items():
            u = torch.rand(1, batch, logit.shape[2]).clamp(1e-6, 1 - 1e-6)
            gates[name] = torch.sigmoid(-(logit + torch.logit(u)) / self.temperature)
        return gates

    def penalty(self, gates: Gates, net: Net, progress: float) -> Mapping[str, Tensor]:
        choices = {choice.name: choice for choice in self.choices("op")}
        norms = [
            (torch.sigmoid(-logit) * net.weight_norms(choices[name])).sum()
            for name, logit in self.logit.items()
        ]
        entropies = [
            (
                torch.sigmoid(logit) * F.logsigmoid(logit)
                + torch.sigmoid(-logit) * F.logsigmoid(-logit)
            ).sum()
            for logit in self.logit.values()
        ]
        return {"norms": torch.stack(norms).sum(), "entropy": torch.stack(entropies).sum()}

    def probabilities(self) -> Gates:
        return {name: torch.sigmoid(-logit.detach()) for name, logit in self.logit.items()}

    def draw(self, count: int) -> list[Architecture]:
        keep = self.probabilities()
        return [
            self.space.subset({n: torch.bernoulli(p) * 0.5 + 0.5 * p for n, p in keep.items()})
            for _ in range(count)
        ]
