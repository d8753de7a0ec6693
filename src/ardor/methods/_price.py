"""What weights cost: the price at which the best architecture has few enough of them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ardor.layers.mixed import squared_norm
from ardor.spaces import Space

PRICES = (0.0, *(10 ** (-8 + step / 20) for step in range(121)))  # of a weight


class Sizes:
    """How many weights are under each option of some choices, and how many under none."""

    @torch.no_grad()
    def __init__(self, space: Space, names: tuple[str, ...]) -> None:
        net = space.build()
        for weight in net.parameters():
            weight.fill_(1.0)  # then a squared norm is a count
        norms = {c.name: net.weight_norms(c).sum(0) for c in space.choices if c.name in names}
        self.under: Mapping[str, Tensor] = {name: norms[name].double() for name in names}
        every = sum(float(norm.sum()) for norm in self.under.values())
        self.fixed = float(squared_norm(net)) - every

    def of(self, kept: Mapping[str, int]) -> float:
        """The weights of a network that keeps these options, by their places."""
        return self.fixed + sum(float(self.under[name][at]) for name, at in kept.items())

    def price(self, strengths: Mapping[str, Tensor], most: float) -> float:
        """The least price at which what is strongest for its price has at most so many weights.

        Weights add up over choices, so that one price for all of them finds the strongest
        architecture of its size (Everett 1963, "Generalized Lagrange multiplier method").
        """
        prices = torch.tensor(PRICES, dtype=torch.double)[:, None]
        total = torch.full((len(PRICES),), self.fixed, dtype=torch.double)
        for name, strength in strengths.items():
            best = (strength - prices * self.under[name]).argmax(1)
            total += self.under[name][best]
        few = (total <= most).nonzero().flatten()
        return PRICES[int(few[0])] if len(few) else PRICES[-1]
