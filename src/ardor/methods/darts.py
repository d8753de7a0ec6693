"""DARTS (Liu, Simonyan and Yang 2019): a softmax over operations, learned on held-out images.

No posterior: the gates are softmax(alpha), a point. With `order=2` the gates' gradient is taken one
weight step ahead (eq. 7), its second term by finite differences (eq. 8).
"""

from typing import Literal

from ardor.bayes import Gates
from ardor.methods._logits import Categorical
from ardor.settings.fields import Rate
from ardor.spaces import Space


class Darts(Categorical):
    """Softmax of logits, the same for every image."""

    def __init__(
        self,
        space: Space,
        *,
        order: Literal[1, 2] = 1,  # of the gates' gradient; 2: one weight step ahead
        spread: Rate = 0.001,
    ) -> None:
        super().__init__(space, spread=spread)
        self.unrolled = order == 2

    def sample(self, batch: int, progress: float) -> Gates:
        return self.softmax()
