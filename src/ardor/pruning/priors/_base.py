"""What a prior over groups of weights does while a network is compressed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from ardor.pruning.groups import Groups, weights_of

# Layer -> the curvature of an image's nll in each of its weights.
Curvature = Callable[[], Mapping[str, Tensor]]


class Prior(nn.Module, ABC):
    """How relevant each group of weights is; what it learns on the way are its buffers.

    Subclasses are named by their files. They say nothing about how much leaves, which is decided
    alike for all of them: the least relevant groups first, until a network is as small as it is to
    be.
    """

    variational: ClassVar[bool] = False  # whether weights have variances while they learn
    never: ClassVar[float] = -torch.inf  # groups as irrelevant as this leave in any case

    def __init__(self, net: nn.Module, groups: Sequence[Groups], strength: float) -> None:
        super().__init__()
        self.groups, self.strength = list(groups), strength
        # Kept in a list, as a module's own parameters would be saved with the prior.
        self._layers = [weights_of(net)]

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """The weights of each layer."""
        return self._layers[0]

    @abstractmethod
    def relevance(self) -> list[Tensor]:
        """How relevant a weight of each group is, for each kind of groups; never below zero.

        Comparable between groups of all kinds and sizes: the least relevant leave first.
        """

    def after_step(self, rate: float) -> None:
        """Acts on the weights after each step of their optimiser."""

    def refit(self, curvature: Curvature) -> None:
        """Fits what the prior learns to the weights, once in a cycle."""
