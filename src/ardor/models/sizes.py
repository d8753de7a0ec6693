"""The size of a network: parameters, multiply-adds, bytes."""

import copy
import zlib
from dataclasses import dataclass

import numpy as np
import torch
from safetensors.torch import save as to_bytes
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class Sizes:
    """How large a network is, dead channels left out."""

    params: int  # that are not zero
    macs: int  # multiply-adds for an image

    @classmethod
    def of(cls, net: nn.Module, shape: tuple[int, int, int]) -> "Sizes":
        """The sizes of a network that has no dead channels."""
        return cls(nonzero_parameters(net), multiply_adds(net, shape))

    def fits(self, most: "Sizes") -> bool:
        """Whether it is no larger in anything."""
        return self.params <= most.params and self.macs <= most.macs

    def towards(self, end: "Sizes", share: float) -> "Sizes":
        """Sizes on the way to others, by equal factors for equal shares of it."""
        pairs = (self.params, end.params), (self.macs, end.macs)
        return Sizes(*(round(a ** (1 - share) * b**share) for a, b in pairs))


def parameters(net: nn.Module) -> int:
    """Parameters of the network, without an auxiliary head, which only training needs."""
    return sum(p.numel() for p in deployed(net).values())


def nonzero_parameters(net: nn.Module) -> int:
    """Parameters that are not zero."""
    return sum(int(p.count_nonzero()) for p in deployed(net).values())


def deployed(net: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that a prediction uses: no auxiliary head, no variances."""
    return {
        name: parameter
        for name, parameter in net.named_parameters()
        if not name.startswith("auxiliary.") and not name.endswith("log_var")
    }


def dense_bytes(net: nn.Module) -> int:
    """The size of a safetensors file of the network."""
    return len(to_bytes({name: t.contiguous() for name, t in net.state_dict().items()}))


def sparse_bytes(net: nn.Module) -> int:
    """The size of the network stored sparsely, deflated.

    For each tensor a bit for every entry, 1 where it is not zero; then those entries in float32.
    """
    content = b""
    for tensor in net.state_dict().values():
        entries = tensor.cpu().float().numpy().ravel()
        content += np.packbits(entries != 0).tobytes() + entries[entries != 0].tobytes()
    return len(zlib.compress(content, 9))


def multiply_adds(net: nn.Module, shape: tuple[int, int, int]) -> int:
    """Multiply-adds of convolutions and matrix products for one image."""
    # On the meta device nothing is computed, and no native code is used, which is not counted.
    copied = copy.deepcopy(net).to("meta").eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        copied(torch.zeros(1, *shape, device="meta"))
    return int(counter.get_total_flops()) // 2


def layers(net: nn.Module) -> dict[str, dict[str, int]]:
    """The outputs of each convolution and linear map, and its weights that are not zero."""
    found = {n: m for n, m in net.named_modules() if isinstance(m, (nn.Conv2d, nn.Linear))}
    return {
        name: {"outputs": len(layer.weight), "weights": int(layer.weight.count_nonzero())}
        for name, layer in found.items()
    }
