"""From a trained posterior to a plain network: weights that are only noise become zero."""

import torch
from torch import Tensor

from ardor.layers import PRUNE_AT, Variational
from ardor.model import Model, without_auxiliary
from ardor.spaces import of as space_of


@torch.no_grad()
def prune(model: Model, threshold: float = PRUNE_AT) -> Model:
    """A network of plain weights: the means, zero where log(sigma^2 / mu^2) >= threshold.

    Built by the same space, so that weights load by name; variances and the auxiliary head go. A
    model with plain weights comes back as it is, but for the auxiliary head.
    """
    architecture = without_auxiliary(model.architecture)
    net = space_of(architecture).build(architecture)
    net.load_state_dict(plain_weights(model, threshold, set(net.state_dict())))
    return Model(net, model.normalise, architecture, model.classes).eval()


def plain_weights(model: Model, threshold: float, names: set[str]) -> dict[str, Tensor]:
    """The network's state under `names`, with variational weights pruned."""
    pruned = {
        f"{name}.weight": module.pruned(threshold)
        for name, module in model.net.named_modules()
        if isinstance(module, Variational)
    }
    state = {**model.net.state_dict(), **pruned}
    return {name: tensor for name, tensor in state.items() if name in names}
