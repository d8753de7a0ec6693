"""FairDARTS (Chu et al. 2020): operations do not compete; each has a gate of its own.

Gates are sigmoid(alpha), which starts at 1/2; a skip connection can be open without closing the
others. A zero-one loss takes gates away from the middle,

    loss = CE - weight mean (sigmoid(alpha) - 1/2)^2,

the mean over all gates, with weight 10: in nats for each image, as published, so that it counts
the same however many images there are.

As in the authors' code, the best operation of each of the best edges (those that `strongest` keeps)
is kept if its gate is above `threshold`. A state that would be left without input keeps its best
operation all the same, as every space demands. Zero, which the paper's space does not have, is
never kept: nothing teaches its gate. Batches are of 128 images, as published. The paper has no rule
by which an operation becomes impossible, and none is given up.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from ardor.architecture import Architecture
from ardor.bayes import Gates
from ardor.bayes.divergences import zero_one_loss
from ardor.methods._base import never_zero
from ardor.methods._logits import DARTS_SEARCH, Logits
from ardor.settings.fields import Amount, Share
from ardor.spaces import Space


class FairDarts(Logits):
    """Sigmoids of logits, each by itself."""

    search: ClassVar[Mapping[str, Any]] = {
        **DARTS_SEARCH,
        "batch": 128,
        "rate": 0.005,
        "gate_rate": 0.003,
        "gate_betas": (0.9, 0.999),
    }

    def __init__(
        self,
        space: Space,
        *,
        zero_one: Amount = 10.0,  # weight of the zero-one loss, in nats for each image
        threshold: Share = 0.85,  # the gate of an operation must be above it to be kept
    ) -> None:
        super().__init__(space, spread=0.0)
        self.zero_one, self.threshold = zero_one, threshold

    def sample(self, batch: int, progress: float) -> Gates:
        return self.gates(torch.sigmoid)

    @torch.no_grad()
    def probabilities(self) -> Gates:
        return self.sample(1, 1.0)

    def per_image(self, progress: float) -> Mapping[str, Tensor]:
        gates = [gate.flatten() for gate in self.sample(1, progress).values()]
        return {"zero_one": self.zero_one * zero_one_loss(torch.cat(gates))}

    def draw(self, count: int) -> list[Architecture]:
        shares = {name: share.cpu() for name, share in self.probabilities().items()}
        scores = {c.name: never_zero(c, shares[c.name]) for c in self.choices("op")}
        best = self.space.masks(self.space.strongest(scores))
        kept = {name: mask * shares.get(name, mask) for name, mask in best.items()}
        return [self.space.subset(kept, self.threshold)]
