"""Spaces: lists of choices, and the nets that are built from them; found by name."""

import copy
import hashlib
import sys
from collections.abc import Callable
from typing import Any

from torch import nn

from ardor import discover
from ardor.architecture import Architecture
from ardor.errors import ArdorError
from ardor.layers.norms import complete_, norms_of
from ardor.settings.fields import complete
from ardor.spaces import _named, _networks
from ardor.spaces._base import Net, Space, foreign, mean_score
from ardor.spaces._function import built_in
from ardor.spaces._function import of_function as _of_function
from ardor.spaces._modulenet import ModuleNet

__all__ = [
    "ModuleNet",
    "Net",
    "Space",
    "find",
    "foreign",
    "known",
    "make",
    "mean_score",
    "named",
    "names",
    "network",
    "network_of",
    "networks",
    "of",
    "of_function",
    "of_module",
]

# Spaces that a person has given as functions, by their modules: no file can name one of these.
_given: dict[str, type[Space]] = {}
SCRIPT = "__main__"


def find(name: str) -> type[Space]:
    """The space of that name, or of a user's own dotted module: a class, or a function `build`."""
    if name in _given:
        return _given[name]
    if name.partition(".")[0] == SCRIPT:
        raise ArdorError(
            "the network was built in a script or notebook, and is gone with it",
            "put a function 'build' into a module that can be imported, such as lab/mine.py; or "
            "give the module once more: ardor.load(folder, module=...)",
        )
    here = _networks if name in networks() else sys.modules[__name__]
    return discover.find(here, name, Space, otherwise=built_in)  # type: ignore[type-abstract]


def of_function(function: Callable[..., Any]) -> type[Space]:
    """The space of a function `build(image, classes, **settings)` that gives a module."""
    made = _of_function(function)
    _given[made.name] = made
    if discover.is_dotted(made.name):
        discover.trust([made.name])
    return made


def of_module(module: nn.Module) -> type[Space]:
    """The space of a module that is at hand: without choices, and copied where it is built."""

    def build(image: tuple[int, int, int], classes: int) -> nn.Module:
        return copy.deepcopy(module)

    shapes = [(name, tuple(tensor.shape)) for name, tensor in module.state_dict().items()]
    digest = hashlib.sha256(repr(shapes).encode()).hexdigest()[:8]
    # The same module has the same name in another process, where it is given once more.
    build.__module__ = f"{SCRIPT}.{type(module).__name__}_{digest}"
    build.__doc__ = f"{type(module).__name__}, as it was given."
    return of_function(build)


def names() -> list[str]:
    """The spaces that come with Ardor."""
    return discover.names(sys.modules[__name__])


def networks() -> list[str]:
    """The networks that come with Ardor: spaces without choices."""
    return discover.names(_networks)


def make(name: str, settings: dict[str, Any]) -> Space:
    """The space `name` with these settings, each checked against its fields."""
    cls = find(name)
    return cls(**complete("space", cls, settings))


def named() -> dict[str, str]:
    """The architectures that have a name, each in a line."""
    return _named.titles()


def known(name: str) -> Architecture:
    """The architecture of a name; what follows from images is as they usually are.

    A network, or a module of one's own that builds one, is an architecture that decides nothing.
    """
    if name in networks() or discover.is_dotted(name):
        return Architecture.of(name, {}, {})
    content = _named.content(name)
    space = {**content["space"]}
    return _named.kept(make(space.pop("name"), space), content["kept"])


def of(architecture: Architecture) -> Space:
    """The space an architecture was found in."""
    space = make(architecture.space, dict(architecture.settings))
    space.check(architecture)
    return space


def network(
    architecture: Architecture, *, conv: type[nn.Conv2d] = nn.Conv2d, as_searched: bool = False
) -> Net:
    """The network of an architecture; `as_searched` in the form that fits the supernet's weights.

    Unlike the supernet's, its BatchNorms have a scale, and statistics that are not of the batch.
    """
    return network_of(of(architecture), architecture, conv=conv, as_searched=as_searched)


def network_of(
    space: Space,
    architecture: Architecture,
    *,
    conv: type[nn.Conv2d] = nn.Conv2d,
    as_searched: bool = False,
) -> Net:
    """The same for a space that is at hand."""
    net = space.build(architecture, conv=conv, as_searched=as_searched)
    if as_searched:
        for norm in norms_of(net):
            complete_(norm)
        net.forget_shapes_()
        net.as_searched = True
    return net
