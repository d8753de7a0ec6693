"""The running mean of a network's weights over the steps: it often predicts better than the last.

An exponential moving average: of Polyak & Juditsky 1992, "Acceleration of Stochastic Approximation
by Averaging", only the idea, as theirs counts all steps alike. Its momentum grows with the steps as
in TensorFlow's ExponentialMovingAverage: else the mean would long remember the first weights.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ardor.spaces import Net

BEGIN = 10  # after n steps the momentum is at most n / (n + BEGIN)


def momentum_at(steps: int, most: float) -> float:
    """The share of the mean that is kept in the next step, after so many of them."""
    return min(most, steps / (steps + BEGIN))


class Average(nn.Module):
    """A network with the mean weights and BatchNorm statistics of another, which learns."""

    def __init__(self, learning: Net, momentum: float) -> None:
        super().__init__()
        self.net = copy.deepcopy(learning).requires_grad_(False).eval()
        self.momentum = momentum
        # Listed once: to walk through all modules in each step would take longer than the mean.
        self._means, self._latest = tensors_of(self.net), tensors_of(learning)

    @torch.no_grad()
    def add(self, steps: int) -> None:
        """Takes in the other network as it is now, after so many steps before this one."""
        torch._foreach_lerp_(self._means, self._latest, 1 - momentum_at(steps, self.momentum))

    def compared(self, last: Net, score: Callable[[Net], Mapping[str, float]]) -> dict[str, Any]:
        """Scores of the mean and of the last weights, and which have the lower nll."""
        mean, other = score(self.net), score(last)
        better = mean["nll"] < other["nll"]
        return {"held_out": mean if better else other, "held_out_last": other, "averaged": better}


def tensors_of(net: nn.Module) -> list[Tensor]:
    """Weights and statistics of a network; no counts of batches."""
    return [t for t in (*net.parameters(), *net.buffers()) if t.is_floating_point()]
