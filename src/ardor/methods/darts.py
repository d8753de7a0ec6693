"""DARTS (Liu, Simonyan and Yang 2019): a softmax over operations, learned on held-out images.

No posterior: the gates are softmax(alpha), a point. With `order=2` the gates' gradient is taken one
weight step ahead (eq. 7), its second term by finite differences (eq. 8).

A point cannot be sure. By a rule of thumb, which is not the paper's, an operation is given up where
its gate is below a tenth of an even share: without it the supernet computes nearly the same.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.bayes import Gates
from ardor.methods._base import Method
from ardor.settings.fields import Rate
from ardor.spaces import Space

NEGLIGIBLE = 0.1  # of an even share


class Darts(Method):
    """Softmax of logits, the same for every image."""

    bilevel: ClassVar[bool] = True
    kinds: ClassVar[tuple[str, ...]] = ("op",)  # of the choices that have logits
    search: ClassVar[Mapping[str, Any]] = {
        "optimiser": "sgd",
        "rate": 0.025,
        "rate_end": 0.001,
        "warmup": 0.0,
    }

    def __init__(self, space: Space, *, order: Literal[1, 2] = 1, spread: Rate = 0.001) -> None:
        super().__init__(space)
        self.unrolled = order == 2
        self.logits = nn.ParameterDict(
            {c.name: spread * torch.randn(1, 1, len(c.options)) for c in self.choices(*self.kinds)}
        )

    def sample(self, batch: int, progress: float) -> Gates:
        return self.gates(partial(torch.softmax, dim=-1))

    def gates(self, of: Callable[[Tensor], Tensor], removed: float = 0.0) -> Gates:
        """A function of the logits of each choice; `removed` for options that have left."""
        return {
            choice.name: self.scatter(
                choice, of(self.gather(choice, self.logits[choice.name])), removed
            )
            for choice in self.choices(*self.kinds)
        }

    @torch.no_grad()
    def probabilities(self) -> Gates:
        return Darts.sample(self, 1, 1.0)

    def draw(self, count: int) -> list[Architecture]:
        return [self.space.strongest(self.probabilities())]

    def negligible(self) -> Gates:
        shares = self.probabilities()
        return {
            choice.name: shares[choice.name] < NEGLIGIBLE / len(self.remaining(choice))
            for choice in self.choices("op")
        }
