"""Variational dropout (Molchanov et al. 2017): Gaussian weights under a log-uniform prior.

The posterior of a weight that is of no use becomes noise: sigma^2 far above mu^2. The KL is that of
VINNAS, added to the objective by the loop that trains the network.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ardor.layers.variational import PRUNE_AT, Variational
from ardor.pruning.groups import Groups
from ardor.pruning.priors._base import Prior


class LogUniform(Prior):
    """0.5 log(1 + sum of mu^2 / sum of sigma^2) of a group: what it tells through its noise.

    The capacity of a channel with that ratio of signal to noise, in nats: it falls with log(sigma^2
    / mu^2), by which single weights are pruned.
    """

    variational = True
    never = 0.5 * math.log1p(math.exp(-PRUNE_AT))

    def __init__(self, net: nn.Module, groups: Sequence[Groups], strength: float) -> None:
        super().__init__(net, groups, strength)
        named = net.named_modules()
        self._noisy = [{name: m for name, m in named if isinstance(m, Variational)}]

    @torch.no_grad()
    def relevance(self) -> list[Tensor]:
        means = {name: weight.detach().square() for name, weight in self.weights.items()}
        noise = {name: torch.zeros_like(mean) for name, mean in means.items()}
        noise |= {name: layer.variance() for name, layer in self._noisy[0].items()}
        ratios = [each.sums(means) / each.sums(noise) for each in self.groups]
        # Where nothing is left, and no noise either, there is nothing of use.
        return [0.5 * ratio.nan_to_num(0.0).log1p() for ratio in ratios]
