"""What a search hands on beside an architecture: what that has learned in the supernet.

The weights are the supernet's at the end of the search: of its last epoch, whichever epoch's gates
were kept, and where a search has several rounds, of the last one.

Where each gate was 0 or 1 (gdas, rsps, random), supernet and network compute the same with them.
Where gates were soft, an operation has learned as a share of a sum: its weights are but a start.
"""

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.spaces import Net, Space


def cut_out(
    supernet: Net, space: Space, architecture: Architecture, conv: type[nn.Conv2d]
) -> dict[str, Tensor]:
    """The weights of an architecture by name, each copy's its own, as they are in the supernet."""
    with torch.device("meta"):  # for its names alone
        names = space.build(architecture, conv=conv, as_searched=True).state_dict()
    return {
        name: tensor.detach().cpu().clone()
        for name, tensor in supernet.state_dict().items()
        if name in names
    }
