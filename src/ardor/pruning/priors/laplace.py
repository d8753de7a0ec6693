"""BayesNAS's compression (Zhou et al. 2019, Algorithm 3): a group lasso whose weights are learned.

Every group g of weights has a variance gamma. The objective is

    nll + lambda sum over groups of omega_g |W_g|,

its norm taken off by a proximal step after each step of the optimiser, so that groups become zero
and not only small. In cycles, omega and gamma are fitted from the curvature H of the nll in each
weight (its Gauss-Newton diagonal, by Laplace's approximation):

    1 / gamma = sum over the groups that a weight is in of 1 / gamma_g,  C = 1 / (1 / gamma + H),
    omega_g = sqrt(sum over the weights of g of 1 / gamma_g - C / gamma_g^2),
    gamma_g = |W_g| / omega_g.

As in the search, H is the curvature of nll / lambda, and all gammas begin at 1. Algorithm 3 is not
in the authors' code; the sum over the weights of a group is that of their search, and a weight in
several groups at once is treated as in a later work of the same authors.

Departure: the paper prunes where the entropy of N(0, gamma) is not above zero, gamma <= 0.0585.
That is a bound for switches, which begin at 1; weights have every scale, and next to all of theirs
are below it. Here a group is as relevant as the data determine its weights, the mean of 1 - C /
gamma: the same quantities, without a scale.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ardor.bayes.relevance import SMALLEST, evidence_slope, well_determined
from ardor.pruning.groups import Groups
from ardor.pruning.priors._base import Curvature, Prior


class Laplace(Prior):
    """How far the data determine the weights of a group: the mean of gamma H / (1 + gamma H)."""

    never = 0.0  # of a group that the lasso has made zero

    def __init__(self, net: nn.Module, groups: Sequence[Groups], strength: float) -> None:
        super().__init__(net, groups, strength)
        for each in groups:
            for quantity, start in (("gamma", 1.0), ("omega", 0.0), ("relevance", 1.0)):
                self.register_buffer(name_of(quantity, each), torch.full((each.count,), start))

    def fitted(self, quantity: str, groups: Groups) -> Tensor:
        """gamma, omega or the relevance of groups."""
        return self.get_buffer(name_of(quantity, groups))

    @torch.no_grad()
    def norms(self, groups: Groups) -> Tensor:
        """|W_g| of each group."""
        squares = {name: self.weights[name].square() for name in groups.index}
        return groups.sums(squares).sqrt()

    @torch.no_grad()
    def after_step(self, rate: float) -> None:
        """argmin over V of 0.5 |V - W|^2 + rate lambda omega |V|, one kind of groups after another.

        Exact for groups of one kind, or where those of one lie within those of the next.
        """
        for groups in self.groups:
            by = rate * self.strength * self.fitted("omega", groups)
            left = (1 - by / self.norms(groups).clamp_min(SMALLEST)).clamp_min(0)
            for name, share in groups.spread(left, 1.0).items():
                self.weights[name].mul_(share)

    @torch.no_grad()
    def refit(self, curvature: Curvature) -> None:
        """omega and gamma of every group, from the curvature at the weights of now."""
        with torch.enable_grad():
            bends = {name: each / self.strength for name, each in curvature().items()}
        precision = {name: torch.zeros_like(each) for name, each in bends.items()}
        gammas = [self.fitted("gamma", groups).clamp_min(SMALLEST) for groups in self.groups]
        for groups, gamma in zip(self.groups, gammas, strict=True):
            for name, each in groups.spread(1 / gamma, 0.0).items():
                precision[name] = precision[name] + each
        for groups, gamma in zip(self.groups, gammas, strict=True):
            self.fit(groups, gamma, bends, precision)

    def fit(
        self, groups: Groups, gamma: Tensor, bends: dict[str, Tensor], precision: dict[str, Tensor]
    ) -> None:
        """omega and gamma of the groups of one kind, and how relevant they are."""
        own = groups.spread(gamma, torch.inf)
        # For a group, what other groups say of the same weight is curvature as well.
        seen = {name: bends[name] + precision[name] - 1 / each for name, each in own.items()}
        slopes = {name: evidence_slope(seen[name], each) for name, each in own.items()}
        omega = groups.sums(slopes).sqrt().clamp_min(SMALLEST)
        self.fitted("omega", groups).copy_(omega)
        self.fitted("gamma", groups).copy_(self.norms(groups) / omega)
        fresh = groups.spread(self.fitted("gamma", groups), 0.0)
        shares = {name: well_determined(bends[name], each) for name, each in fresh.items()}
        self.fitted("relevance", groups).copy_(groups.sums(shares) / groups.sizes(shares))

    def relevance(self) -> list[Tensor]:
        return [
            self.fitted("relevance", groups).where(self.norms(groups) > 0, 0.0)
            for groups in self.groups
        ]


def name_of(quantity: str, groups: Groups) -> str:
    """The name of a buffer."""
    return f"{quantity}/{groups.kind}"
