"""Chance: one architecture drawn uniformly, and nothing searched.

What any search must beat (Li and Talwalkar 2019); `rsps` draws alike, and ranks what it draws.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from ardor.architecture import Architecture
from ardor.bayes import Gates
from ardor.methods._base import Method


class Random(Method):
    """Uniform over architectures."""

    search: ClassVar[Mapping[str, Any]] = {"epochs": 0, "candidates": 1, "held_out": 0.2}

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
