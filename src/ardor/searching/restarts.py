"""Rounds: whole searches one after another, and what their posteriors say together.

What a search finds hangs on where its weights began. The posterior over architectures is that given
the weights, averaged over weights: each round has its own, and the mean over rounds is drawn from.
"""

import copy
from typing import cast

import torch
from torch import Tensor, nn

from ardor.methods import Method


class Rounds(nn.Module):
    """The posteriors of the rounds that have ended; part of the checkpoints of a search."""

    ended: Tensor

    def __init__(self, method: Method, count: int) -> None:
        super().__init__()
        self.start = {name: value.clone() for name, value in method.state_dict().items()}
        self.learned = nn.ModuleList(copy.deepcopy(method) for _ in range(count - 1))
        self.register_buffer("ended", torch.tensor(0))

    def end(self, learned: Method, method: Method) -> None:
        """Remembers what a round has learned, and lets the method begin anew."""
        self.learned[int(self.ended)].load_state_dict(learned.state_dict())
        self.ended += 1
        method.load_state_dict(self.start)

    def together(self, method: Method, *, learning: bool) -> Method:
        """The posterior over all rounds, with that of the one under way once its gates learn."""
        ended = [cast(Method, each) for each in self.learned[: int(self.ended)]]
        if not ended:
            return method
        pooled = copy.deepcopy(method)
        pooled.pool([*ended, method] if learning else ended)
        return pooled
