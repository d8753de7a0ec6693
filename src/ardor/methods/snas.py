"""SNAS (Xie, Zheng, Liu and Lin 2019): one-hot gates, drawn in a way that has a gradient.

An architecture is drawn edge by edge, each operation with the probability softmax(alpha). Gates are
the concrete distribution of that draw,

    z = softmax((log softmax(alpha) + g) / temperature),  g Gumbel noise,

with one draw for the images of a step. Weights and gates learn together, on the same images: the
loss is the expected one under the architectures, not a bi-level one.

The temperature goes linearly from `start` to `end`. The paper leaves both open; those here are what
the authors' code is called with. The paper's penalty on the cost of computing is left out. By the
rule of thumb of DARTS an operation is given up where it is drawn less than a tenth as often as by
chance.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import torch

from ardor.architecture import Decisions
from ardor.bayes import Gates
from ardor.bayes.draws import concrete_draw, gumbel_scores
from ardor.methods.darts import Darts
from ardor.settings.fields import Rate
from ardor.spaces import Space


class Snas(Darts):
    """Concrete draws of one operation for each edge."""

    bilevel: ClassVar[bool] = False
    # Gates learn where weights do: held-out images only tell how the search goes.
    search: ClassVar[Mapping[str, Any]] = {**Darts.search, "rate_end": 0.0, "held_out": 0.2}

    def __init__(
        self,
        space: Space,
        *,
        start: Rate = 1.0,  # the temperature at first
        end: Rate = 0.03,  # and at last
        spread: Rate = 0.001,  # standard deviation of the logits at the start
    ) -> None:
        super().__init__(space, spread=spread)
        self.start, self.end = start, end

    def temperature(self, progress: float) -> float:
        """How far from one-hot draws are."""
        return self.start + progress * (self.end - self.start)

    def sample(self, batch: int, progress: float) -> Gates:
        return self.gates(partial(concrete_draw, temperature=self.temperature(progress)))

    @torch.no_grad()
    def decision_counts(self, count: int) -> list[Counter[Decisions]]:
        """Operations as they are drawn; the inputs of a state by how likely they are not zero."""
        draws = self.gates(
            lambda a: gumbel_scores(a.cpu().expand(count, 1, -1)), removed=-torch.inf
        )
        return self.space.strongest_of_each(draws)
