"""The shape of BayesNAS: a switch for each copy, tied by a group norm, refitted from curvature."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.bayes import Gates
from ardor.methods import Curvature, Method
from ardor.spaces import Net, Space

PRUNED_BELOW = 0.058550  # 1 / (2 pi e)


class Switches(Method):
    """Scalar switches, own for each copy, with an ARD prior that is refitted after each epoch."""

    search: ClassVar = {"gate_rate": 0.02, "gate_decay": 0.0, "clip": 1.0, "held_out": 0.25}

    def __init__(self, space: Space, *, strength: float = 1.0) -> None:
        super().__init__(space)
        self.strength = strength
        sizes = {c.name: (c.copies, 1, len(c.options)) for c in self.choices("op", "edge")}
        self.switch = nn.ParameterDict({n: torch.ones(s) for n, s in sizes.items()})
        for name, (_, _, options) in sizes.items():
            self.register_buffer(f"omega/{name}", torch.ones(1, 1, options))
            self.register_buffer(f"gamma/{name}", torch.ones(1, 1, options))

    def sample(self, batch: int, progress: float) -> Gates:
        return dict(self.switch.items())

    def penalty(self, gates: Gates, net: Net, progress: float) -> Mapping[str, Tensor]:
        norms = [
            (self.get_buffer(f"omega/{name}") * w.norm(dim=0, keepdim=True)).sum()
            for name, w in self.switch.items()
        ]
        return {"group_norm": self.strength * torch.stack(norms).sum()}

    def refit(self, curvature: Curvature) -> None:
        for name, diagonal in curvature(dict(self.switch.items())).items():
            gamma, omega = self.get_buffer(f"gamma/{name}"), self.get_buffer(f"omega/{name}")
            omega.copy_(
                (diagonal / (1 + gamma * diagonal)).sum(0, keepdim=True).sqrt().clamp_min(1e-6)
            )
            gamma.copy_(self.switch[name].detach().norm(dim=0, keepdim=True) / omega)

    def probabilities(self) -> Gates:
        return {n: self.get_buffer(f"gamma/{n}").clamp(0, 1) for n in self.switch}

    def draw(self, count: int) -> list[Architecture]:
        return [self.space.subset(self.probabilities(), PRUNED_BELOW)]
