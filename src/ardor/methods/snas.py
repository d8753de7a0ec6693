"""SNAS (Xie, Zheng, Liu and Lin 2019): one-hot gates, drawn in a way that has a gradient.

An architecture is drawn edge by edge, each operation with the probability softmax(alpha). Gates are
the concrete distribution of that draw,

    z = softmax((log softmax(alpha) + g) / temperature),  g Gumbel noise,

with one draw for the images of a step. Weights and gates learn together, on the same images: the
loss is the expected one under the architectures, not a bi-level one.

The temperature goes linearly from `start` to `end`. The paper leaves both open; the defaults here
are those of the authors' code. The paper's penalty on the cost of computing is left out.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from ardor.bayes import Gates
from ardor.bayes.draws import concrete_draw
from ardor.methods._logits import DARTS_SEARCH, Concrete
from ardor.settings.fields import Rate
from ardor.spaces import Space


class Snas(Concrete):
    """Concrete draws of one operation for each edge."""

    bilevel: ClassVar[bool] = False
    # Gates learn where weights do: held-out images only tell how the search goes.
    search: ClassVar[Mapping[str, Any]] = {**DARTS_SEARCH, "rate_end": 0.0, "held_out": 0.2}

    def __init__(
        self, space: Space, *, start: Rate = 1.0, end: Rate = 0.03, spread: Rate = 0.001
    ) -> None:
        super().__init__(space, start=start, end=end, spread=spread)

    def sample(self, batch: int, progress: float) -> Gates:
        return self.gates(partial(concrete_draw, temperature=self.temperature(progress)))
