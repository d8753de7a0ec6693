"""The plain rival: what is small beside what stays in its layer leaves.

Lee et al. 2021, "Layer-Adaptive Sparsity for the Magnitude-based Pruning" (LAMP), eq. 3: a square
is divided by the sum of all in its layer that are no smaller. Where much of a layer has left, what
is left counts the more, so that no layer is emptied; by size alone (Han et al. 2015) small layers
are lost first.
"""

import torch
from torch import Tensor

from ardor.pruning.groups import Groups
from ardor.pruning.priors._base import Prior


class Magnitude(Prior):
    """The LAMP score of the squares of a group, the mean over the layers that it is in."""

    never = 0.0  # of a group that has left

    @torch.no_grad()
    def relevance(self) -> list[Tensor]:
        return [self.scores(groups) for groups in self.groups]

    def scores(self, groups: Groups) -> Tensor:
        """The score of each group."""
        totals, layers = torch.zeros(2, groups.count, device=groups.device)
        for name in groups.index:
            alone = groups.of_layer(name)
            squares = alone.sums({name: self.weights[name].square()})
            here = alone.sizes(self.weights) > 0
            totals[here] += lamp(squares[here])
            layers += here
        found: Tensor = totals / layers
        return found


def lamp(squares: Tensor) -> Tensor:
    """Each square over the sum of those that are no smaller; of equals, the first is smaller."""
    ordered, order = squares.sort(stable=True)
    rest = ordered.flip(0).cumsum(0).flip(0)
    scores = torch.empty_like(squares)
    scores[order] = ordered / rest.clamp_min(1e-30)
    return scores
