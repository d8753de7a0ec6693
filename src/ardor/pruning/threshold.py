"""Plain weights from a trained posterior: those that are only noise become zero."""

import torch
from torch import Tensor, nn

from ardor.layers.variational import PRUNE_AT, Variational
from ardor.spaces import Net


@torch.no_grad()
def fill_(plain: Net, trained: Net, threshold: float = PRUNE_AT) -> None:
    """Gives a net of plain weights the means, zero where log(sigma^2 / mu^2) >= threshold.

    Both are built by the same space, so that weights load by name; the plain net has no variances
    and no auxiliary head, and those are left out.
    """
    names = plain.state_dict().keys()
    plain.load_state_dict({n: w for n, w in weights(trained, threshold).items() if n in names})


def weights(trained: nn.Module, threshold: float) -> dict[str, Tensor]:
    """The state of a net, with variational weights pruned."""
    pruned = {
        f"{name}.weight": module.pruned(threshold)
        for name, module in trained.named_modules()
        if isinstance(module, Variational)
    }
    return {**trained.state_dict(), **pruned}
