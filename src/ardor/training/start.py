"""A network that begins with what its search has learned, instead of new weights."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.data import Images, Normalise
from ardor.layers.norms import measured, norms_of
from ardor.layers.variational import VariationalConv2d
from ardor.models.model import check_shapes
from ardor.models.scores import logits_of
from ardor.models.smaller import without_auxiliary
from ardor.runtime.device import Runtime
from ardor.spaces import Net, network
from ardor.spaces import of as space_of

# How the first layer is called, where a search hands it on beside the statistics behind it.
FIRST = ("normalise.mean", "normalise.std")


def take_(net: Net, architecture: Architecture, weights: Mapping[str, Tensor], run: Path) -> None:
    """Gives a network of the supernet's form the weights that the search of a run has handed on.

    Where only one of both has variances, they are left, or begin as new ones do. What a supernet
    does not have begins anew: an auxiliary head, and the scales and shifts of its BatchNorms.
    """
    variational = any(name.endswith(".log_var") for name in weights)
    found = without_auxiliary(architecture)
    conv, space = VariationalConv2d if variational else nn.Conv2d, space_of(found)
    with torch.device("meta"):  # for names and shapes alone
        searched = space.build(found, conv=conv, as_searched=True)
        built = network(found, conv=conv, as_searched=True).state_dict()
    # What is no parameter, as a mask over channels, may be the network's alone.
    needed = weights.keys() | dict(searched.named_parameters()).keys()
    wanted = {name: w for name, w in built.items() if name in needed}
    if has_statistics(weights):
        wanted |= dict.fromkeys(FIRST, torch.empty(space.image[0], 1, 1))
    check_shapes(run, weights, wanted)
    own = net.state_dict()
    net.load_state_dict({**own, **{name: w for name, w in weights.items() if name in own}})


def has_statistics(weights: Mapping[str, Tensor]) -> bool:
    """Whether a search has handed on statistics for the BatchNorms, measured for its candidates."""
    return any(name.endswith(".running_var") for name in weights)


def normalise_of(images: Images, searched: Mapping[str, Tensor] | None) -> Normalise:
    """The first layer for these images; that of the search, where its statistics hang on it."""
    if searched is None or not has_statistics(searched):
        return Normalise.of(images)
    return Normalise(*(searched[name] for name in FIRST))


def own(architecture: Architecture, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of one architecture among those of several."""
    with torch.device("meta"):  # only the names are needed, those of variances too
        net = network(architecture, conv=VariationalConv2d, as_searched=True)
    names = net.state_dict().keys() | set(FIRST)
    return {name: weight for name, weight in weights.items() if name in names}


def recalibrate_(net: Net, images: Images, normalise: Normalise, runtime: Runtime) -> None:
    """Gives BatchNorms the statistics of these images as they are, without augmentation.

    A supernet normalises by the statistics of its batch. So does this network on the way, batch by
    batch; afterwards it predicts each image by itself, of a single batch just as the supernet did.
    """
    with measured(norms_of(net)):
        logits_of(net, images, normalise, runtime)
