"""Chance: architectures drawn uniformly, for methods that learn nothing of the gates."""

import torch

from ardor.architecture import Architecture
from ardor.bayes import Gates
from ardor.methods._base import Method


class Uniform(Method):
    """Uniform over architectures; abstract: a child says how it trains and how many it draws."""

    def sample(self, batch: int, progress: float) -> Gates:
        return self.space.masks(self.draw(1)[0])

    def probabilities(self) -> Gates:
        return {
            c.name: torch.full((1, 1, len(c.options)), 1 / len(c.options))
            for c in self.choices("op")
        }

    def draw(self, count: int) -> list[Architecture]:
        return [
            self.space.strongest(
                {c.name: torch.rand(1, 1, len(c.options)) for c in self.space.choices}
            )
            for _ in range(count)
        ]
