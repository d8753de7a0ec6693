"""Weights that a search hands on: those of what it has found, cut out of the supernet.

They are the supernet's weights after the last epoch, even if the gates of an earlier epoch were
kept, and of the last round if a search has several.

If each gate was 0 or 1 (gdas, rsps, random), supernet and network compute the same with them. If
gates were soft, each operation learned as a share of a sum: its weights are only a start.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.spaces import Net, Space


def cut_out(
    supernet: Net, space: Space, architecture: Architecture, conv: type[nn.Conv2d]
) -> dict[str, Tensor]:
    """The weights of an architecture by name, copied from the supernet."""
    with torch.device("meta"):  # only the names are needed
        names = space.build(architecture, conv=conv, as_searched=True).state_dict()
    return {
        name: tensor.detach().cpu().clone()
        for name, tensor in supernet.state_dict().items()
        if name in names
    }


def cut_out_together(
    supernet: Net, space: Space, members: Iterable[Architecture], conv: type[nn.Conv2d]
) -> dict[str, Tensor]:
    """The weights of several architectures: those that they share are there once."""
    each = (cut_out(supernet, space, architecture, conv) for architecture in members)
    return {name: tensor for weights in each for name, tensor in weights.items()}
