"""Plain weights from a trained network: those that are only noise, or hardly there, become zero."""

import torch
from torch import Tensor, nn

from ardor.bayes.divergences import log_magnitude_ratio
from ardor.layers.variational import PRUNE_AT, Variational
from ardor.settings.sections import NOTHING
from ardor.spaces import Net


def usual(*, variational: bool) -> float:
    """The threshold where none is given: plain weights all stay, as nothing says they are noise."""
    return PRUNE_AT if variational else NOTHING


@torch.no_grad()
def fill_(plain: Net, trained: Net, threshold: float) -> None:
    """Gives a net of plain weights the trained ones, zero where `noise` is at the threshold.

    Both are built by the same space, so that weights load by name; the plain net has no variances
    and no auxiliary head, and those are left out.
    """
    names = plain.state_dict().keys()
    plain.load_state_dict({n: w for n, w in weights(trained, threshold).items() if n in names})


def weights(trained: nn.Module, threshold: float) -> dict[str, Tensor]:
    """The state of a net, with its weights pruned."""
    state = trained.state_dict()
    for name, ratio in noise(trained).items():
        state[name] = state[name].masked_fill(ratio >= threshold, 0.0)
    return state


def noise(net: nn.Module) -> dict[str, Tensor]:
    """log(sigma^2 / mu^2) of every weight that can be pruned, by its name in the state of the net.

    Of Gaussian weights these are variance and mean. A plain weight is judged by its size: its
    sigma^2 is the mean square of the weights of its layer.
    """
    found = {}
    for name, layer in net.named_modules(remove_duplicate=False):
        if name.startswith("auxiliary."):
            continue  # this head only helps to train, and leaves in any case
        if isinstance(layer, Variational):
            found[f"{name}.weight"] = layer.noise().detach()
        elif type(layer) in (nn.Conv2d, nn.Linear):  # what subclasses do with theirs is not known
            found[f"{name}.weight"] = log_magnitude_ratio(layer.weight).detach()
    return found
