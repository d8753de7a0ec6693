"""GDAS (Dong and Yang 2019): each step computes the one operation of an edge that was drawn.

Gates are one-hot with the probabilities softmax(alpha), the largest entry of a concrete draw;
backwards they are that draw itself. Gates and weights learn in turns, as in DARTS, and the
temperature goes linearly from 10 to 0.1.

Only what was drawn is computed, in the steps of the weights and in those of the gates. A step
therefore teaches an edge by its drawn operation alone: by the gradient of that one entry of the
softmax, in all logits. (The authors' code also adds the entries that were not drawn, all zero, to
every pixel, which gives them a meaningless gradient; not so here.) The fixed reduction cell of the
paper's second variant is left out.
"""

from ardor.bayes import Gates
from ardor.bayes.draws import concrete_draw, straight_through
from ardor.methods._logits import Concrete
from ardor.settings.fields import Rate
from ardor.spaces import Space


class Gdas(Concrete):
    """Hard draws of one operation for each edge."""

    hard = True

    def __init__(
        self, space: Space, *, start: Rate = 10.0, end: Rate = 0.1, spread: Rate = 0.001
    ) -> None:
        super().__init__(space, start=start, end=end, spread=spread)

    def sample(self, batch: int, progress: float) -> Gates:
        at = self.temperature(progress)
        return self.gates(lambda logits: straight_through(concrete_draw(logits, at)))
