"""Weights that become zero while the others learn: a training that ends with a sparse network.

Gradual magnitude pruning (Zhu & Gupta 2017, "To prune, or not to prune", eq. 1): the share of zeros
grows along a cubic curve, fast at first, while enough is left to learn that others can take over
what a weight did. A weight is judged by its size beside that of its layer, as in all pruning of
plain weights here (`pruning/threshold.py`); what is zero stays zero.
"""

import torch
from torch import Tensor, nn

from ardor.pruning.threshold import noise

BEGIN, END = 0.2, 0.7  # of the progress: the net has learned something, and learns on at the end


def share_at(progress: float, final: float) -> float:
    """The share of weights that are zero at this progress: s_f (1 - (1 - t)^3)."""
    done = min(1.0, max(0.0, (progress - BEGIN) / (END - BEGIN)))
    return final * (1 - (1 - done) ** 3)


class Sparse:
    """The masks of a network that is to have no more than so many weights; they follow from it."""

    def __init__(self, net: nn.Module, most: int) -> None:
        self.net = net
        self.names = list(noise(net))
        self._weights = self.weights_of(net)
        self.final = max(0.0, 1 - most / sum(weight.numel() for weight in self._weights))
        self._masks = [torch.ones_like(weight) for weight in self._weights]

    def weights_of(self, net: nn.Module) -> list[Tensor]:
        """The weights of a network of this form that may become zero."""
        parameters = dict(net.named_parameters())
        return [parameters[name] for name in self.names]

    @torch.no_grad()
    def choose(self, progress: float, *alike: nn.Module) -> None:
        """Decides which weights are zero from here on, in this network and in others like it."""
        found = list(noise(self.net).values())
        every = torch.cat([ratio.flatten() for ratio in found])
        zeros = round(share_at(progress, self.final) * len(every))
        # Zeros have infinite noise, so that they are the first to be zero again.
        least = torch.topk(every, zeros).values[-1] if zeros else torch.inf
        self._masks = [(ratio < least).to(ratio.dtype) for ratio in found]
        for net in (self.net, *alike):
            torch._foreach_mul_(self.weights_of(net), self._masks)

    @torch.no_grad()
    def hold(self) -> None:
        """Sets to zero again what a step has moved away from it."""
        torch._foreach_mul_(self._weights, self._masks)
