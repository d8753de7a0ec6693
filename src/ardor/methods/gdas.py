"""GDAS (Dong and Yang 2019): each step computes the one operation of an edge that was drawn.

Gates are one-hot with the probabilities softmax(alpha), the largest entry of a concrete draw;
backwards they are that draw itself. Gates and weights learn in turns, as in DARTS, and the
temperature goes linearly from 10 to 0.1.

Only what was drawn is computed, in the steps of the weights and in those of the gates, so that a
step teaches an edge by its drawn operation alone: by the gradient of that one entry of the softmax,
in all logits. (The authors' code also adds the entries not drawn, all zero, to every pixel, which
gives them a gradient of no meaning; not so here.) The fixed reduction cell of the paper's second
variant is left out.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from ardor.bayes import Gates
from ardor.bayes.draws import concrete_draw, straight_through
from ardor.methods.darts import Darts
from ardor.methods.snas import Snas
from ardor.settings.fields import Rate
from ardor.spaces import Space


class Gdas(Snas):
    """Hard draws of one operation for each edge."""

    bilevel: ClassVar[bool] = True
    hard = True
    search: ClassVar[Mapping[str, Any]] = Darts.search

    def __init__(
        self,
        space: Space,
        *,
        start: Rate = 10.0,  # the temperature at first
        end: Rate = 0.1,  # and at last
        spread: Rate = 0.001,  # standard deviation of the logits at the start
    ) -> None:
        super().__init__(space, start=start, end=end, spread=spread)

    def sample(self, batch: int, progress: float) -> Gates:
        at = self.temperature(progress)
        return self.gates(lambda logits: straight_through(concrete_draw(logits, at)))
