"""DrNAS (Chen et al. 2021): shares of operations drawn from Dirichlet distributions.

The gates of an edge are a draw of Dir(elu(beta) + 1), with a gradient in beta; a penalty holds the
Dirichlet to the uniform one, Dir(1, ..., 1),

    loss = CE + weight sum over edges of KL(Dir(elu(beta) + 1) || Dir(1, ..., 1)),

with the weight in nats for each image, as in the authors' code. As there, the strongest options by
softmax(beta) are kept: on an edge that is the operation of the largest mean share, but edges are
ranked by softmax(beta), not by that share. A Dirichlet is a posterior over shares: how sure it is
of an architecture is how often that architecture is the strongest in draws of the shares.

Settings are those of the authors' NAS-Bench-201 search, with the KL that the paper writes in place
of the weight decay that the code has by default. Left out: partial channels that widen and
operations that leave in stages; `space.partial` gives partial channels throughout.
No operation is given up: the paper's rule drops a fixed number, whether sure or not.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Dirichlet

from ardor.architecture import Architecture, Decisions
from ardor.bayes import Gates
from ardor.bayes.divergences import dirichlet_concentration, dirichlet_kl
from ardor.methods._logits import DARTS_SEARCH, Logits
from ardor.settings.fields import Amount, Rate
from ardor.spaces import Space


class DrNas(Logits):
    """Draws of a Dirichlet for each edge."""

    search: ClassVar[Mapping[str, Any]] = {**DARTS_SEARCH, "gate_decay": 0.0}

    def __init__(
        self,
        space: Space,
        *,
        kl_gates: Amount = 0.001,  # weight of the KL, in nats for each image
        spread: Rate = 0.001,  # standard deviation of beta at the start
    ) -> None:
        super().__init__(space, spread=spread)
        self.kl_gates = kl_gates

    def sample(self, batch: int, progress: float) -> Gates:
        return self.gates(lambda beta: posterior(beta).rsample())

    @torch.no_grad()
    def probabilities(self) -> Gates:
        """The mean share of every operation."""
        return self.gates(lambda beta: posterior(beta).mean)

    def draw(self, count: int) -> list[Architecture]:
        return [self.space.strongest(self.softmax())]

    def per_image(self, progress: float) -> Mapping[str, Tensor]:
        each = [dirichlet_kl(dirichlet_concentration(beta)) for beta in self.logits.values()]
        return {"kl_gates": self.kl_gates * torch.stack(each).sum()}

    @torch.no_grad()
    def strengths(self) -> Mapping[str, Gates]:
        """The concentration of every operation: the larger those of an edge, the surer."""
        return {"concentration": self.gates(dirichlet_concentration)}

    @torch.no_grad()
    def decision_counts(self, count: int) -> list[Counter[Decisions]]:
        """Counts of the strongest options in draws of the shares."""
        draws = self.gates(lambda beta: posterior(beta[0].cpu()).sample(torch.Size([count])))
        return self.space.strongest_of_each(draws)


def posterior(beta: Tensor) -> Dirichlet:
    """The distribution of the shares along the last dimension."""
    return Dirichlet(dirichlet_concentration(beta))
