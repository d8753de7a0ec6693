"""What a network costs, and the price at which the best architecture costs little enough.

The cost is that of its weights, one each, and of its multiply-adds: ten for each that an image has
on average for a pixel. So it does not depend on the size of the images.
"""

import copy
from collections.abc import Mapping
from contextlib import suppress

import torch
from torch import Tensor, nn

from ardor.layers.mixed import squared_norm
from ardor.spaces import Net, Space

PRICES = (0.0, *(10 ** (-8 + step / 20) for step in range(121)))  # of a unit of cost
MULTIPLY_ADD = 10.0  # for a pixel, in weights


class Costs:
    """What is under each option of some choices costs, and what is under none."""

    @torch.no_grad()
    def __init__(self, space: Space, names: tuple[str, ...]) -> None:
        net = space.build().eval()
        fill_with_costs_(net, space.image)
        norms = {c.name: net.weight_norms(c).sum(0) for c in space.choices if c.name in names}
        self.under: Mapping[str, Tensor] = {name: norms[name].double() for name in names}
        every = sum(float(norm.sum()) for norm in self.under.values())
        self.fixed = float(squared_norm(net)) - every

    def price(self, strengths: Mapping[str, Tensor], most: float) -> float:
        """The least price at which what is strongest for its price costs at most so much.

        Costs add up over choices, so that one price for all of them finds the strongest
        architecture of its cost (Everett 1963, "Generalized Lagrange multiplier method").
        """
        prices = torch.tensor(PRICES, dtype=torch.double)[:, None]
        total = torch.full((len(PRICES),), self.fixed, dtype=torch.double)
        for name, strength in strengths.items():
            best = (strength - prices * self.under[name]).argmax(1)
            total += self.under[name][best]
        few = (total <= most).nonzero().flatten()
        return PRICES[int(few[0])] if len(few) else PRICES[-1]


def fill_with_costs_(net: Net, image: tuple[int, int, int]) -> None:
    """Sets every weight so that squared norms are costs: a weight works once for each output."""
    used = places(net, image)
    for name, layer in net.named_modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            cost = 1 + MULTIPLY_ADD * used.get(name, 0) / (image[1] * image[2])
            layer.weight.fill_(cost**0.5)


def places(net: Net, image: tuple[int, int, int]) -> dict[str, int]:
    """At how many places of an image each convolution or linear map is computed, by its name."""
    found = {}

    def note(name: str, out: Tensor) -> None:
        found[name] = out[0, 0].numel() if out.dim() == 4 else 1

    ghost = copy.deepcopy(net).to("meta")  # there nothing is native, and no layer is passed over
    for name, layer in ghost.named_modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            layer.register_forward_hook(lambda _, given, out, name=name: note(name, out))
    with suppress(RuntimeError, NotImplementedError):  # a module that needs numbers: weights count
        ghost(torch.zeros(1, *image, device="meta"))
    return found
