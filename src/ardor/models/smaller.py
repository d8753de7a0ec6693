"""A model made smaller: weights that are only noise zeroed, channels without effect removed."""

import copy
from dataclasses import replace

from ardor.architecture import Architecture
from ardor.models.model import Model
from ardor.pruning.channels import compact as compact_net
from ardor.pruning.threshold import fill_, usual
from ardor.spaces import network
from ardor.spaces import of as space_of


def prune(model: Model, threshold: float | None = None) -> Model:
    """A network of plain weights: the means, zero where log(sigma^2 / mu^2) >= threshold.

    Of plain weights sigma^2 is the mean square in their layer; without a threshold they all stay.
    The auxiliary head is left out.
    """
    at = usual(variational=model.variational) if threshold is None else threshold
    architecture = without_auxiliary(model.architecture)
    if model.variational or architecture != model.architecture:
        net = network(architecture, as_searched=model.net.as_searched)
    else:
        net = copy.deepcopy(model.net)  # which may have lost channels already
    fill_(net, model.net, at)
    return Model(net, model.normalise, architecture, model.classes).eval()


def compact(model: Model, multiple: int = 1) -> Model:
    """The same function with fewer channels and operations; of plain weights, in evaluation."""
    net = compact_net(model.net, model.shape, multiple)
    return Model(net, model.normalise, model.architecture, model.classes).eval()


def without_auxiliary(architecture: Architecture) -> Architecture:
    """The same network as it is deployed: an auxiliary head only helps to train."""
    space = replace(space_of(architecture), auxiliary=False)
    return space.architecture(dict(architecture.kept))
