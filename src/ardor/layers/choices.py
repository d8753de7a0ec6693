"""Choices inside an ordinary module: which candidates, which inputs, which channels.

Whoever writes the module's `forward` need know nothing of gates: the net sets them for the time of
one call. Without gates, everything is open. Choices of the same name share one decision.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ardor.architecture import Family, Kind
from ardor.errors import ArdorError
from ardor.layers.mixed import Mixed, Terms, add_up, shut, squared_norm
from ardor.layers.operations import ZERO, family_of

# What torch lets no parameter be called; gates are parameters under the names of their choices.
TAKEN = frozenset(dir(nn.ParameterDict()))


class Decision(nn.Module, ABC):
    """A part of a net in which something is chosen."""

    kind: ClassVar[Kind]
    gates: Tensor | None  # (batch | 1, options); None while everything is open

    def __init__(self, name: str, options: Sequence[str]) -> None:
        super().__init__()
        self.name, self.options, self.gates = checked_name(name), tuple(options), None
        # What it gives, by the height and width of what it is given; known once an image was seen.
        self.sizes: dict[tuple[int, ...], tuple[int, ...]] = {}
        if len(set(self.options)) < max(2, len(self.options)):
            raise ArdorError(
                f"choice '{name}' has the options {', '.join(self.options) or 'none'}; "
                "must be at least two different ones",
                "where there is nothing to choose, use the module itself",
            )

    @property
    def families(self) -> tuple[Family, ...]:
        """The families of the options; () where they are no operations."""
        return ()

    @property
    def may_be_empty(self) -> bool:
        """Whether it is an answer to keep nothing."""
        return False

    @abstractmethod
    def strongest(self, scores: Tensor) -> Tensor:
        """Which options to keep by their scores, (draws, options) each."""

    @abstractmethod
    def keep_(self, kept: Sequence[str]) -> None:
        """Leaves these options alone, for good, as in a network."""

    @abstractmethod
    def take_out(self, option: str) -> None:
        """Removes an option, weights and all; gates keep their order."""

    @abstractmethod
    def weight_norms(self) -> Tensor:
        """Squared norms of the weights under each option, (options,)."""


class LayerChoice(Decision):
    """One of several modules, each by its name; None under the name "none" is no connection."""

    kind = "op"

    def __init__(self, candidates: Mapping[str, nn.Module | None], *, name: str) -> None:
        super().__init__(name, tuple(candidates))
        for option, candidate in candidates.items():
            check_candidate(self.name, option, candidate)
        modules = {option: made for option, made in candidates.items() if made is not None}
        self.mixed = Mixed(self.options, modules)
        self.zeros: Zeros | None = None  # of a network that keeps nothing

    def forward(self, x: Tensor) -> Tensor:
        made = self.total(self.mixed(x, self.gates))
        if made is not None:
            return made
        size = self.sizes[tuple(x.shape[2:])]
        return x.new_zeros(x.shape[0], *size) if self.zeros is None else self.zeros(x, size)

    def total(self, terms: Terms) -> Tensor | None:
        """What the candidates give together; None where there are none."""
        return add_up([terms])

    @property
    def families(self) -> tuple[Family, ...]:
        found = dict(self.mixed.candidates.items())
        return tuple(family_of(found[o]) if o in found else "none" for o in self.options)

    @property
    def may_be_empty(self) -> bool:
        return ZERO in self.options

    def strongest(self, scores: Tensor) -> Tensor:
        return one_hot(scores, 1)

    def keep_(self, kept: Sequence[str]) -> None:
        for option in self.options:
            if option not in kept:
                self.take_out(option)
        if not kept and self.sizes:
            self.zeros = Zeros(*channels_and_sides(self.sizes))

    def take_out(self, option: str) -> None:
        if option in self.mixed.candidates:
            del self.mixed.candidates[option]

    def weight_norms(self) -> Tensor:
        found = dict(self.mixed.candidates.items())
        return torch.stack([squared_norm(found.get(option)) for option in self.options])


class InputChoice(Decision):
    """The sum of some of the tensors that it is given; the strongest `keep` of them in the end."""

    kind = "edge"

    def __init__(self, inputs: Sequence[str] | int, *, name: str, keep: int = 1) -> None:
        super().__init__(
            name, tuple(map(str, range(inputs))) if isinstance(inputs, int) else inputs
        )
        if not 1 <= keep <= len(self.options):
            raise ArdorError(
                f"choice '{name}' keeps {keep} inputs; must be from 1 to {len(self.options)}",
                "leave out keep to have the strongest one",
            )
        self.keep, self.there = keep, set(self.options)
        self.hard = False  # whether gates of zero are shut even while they learn

    def forward(self, *tensors: Tensor) -> Tensor:
        if len(tensors) != len(self.options):
            raise ValueError(
                f"'{self.name}' is given {len(tensors)} tensors, and has {len(self.options)} inputs"
            )
        closed = shut(self.gates, hard=self.hard)
        at = [k for k, o in enumerate(self.options) if o in self.there and k not in closed]
        gates = None if self.gates is None else self.gates[:, at]
        made = add_up([Terms([(tensors[k], None) for k in at], gates)])
        return torch.zeros_like(tensors[0]) if made is None else made

    def strongest(self, scores: Tensor) -> Tensor:
        return one_hot(scores, self.keep)

    def keep_(self, kept: Sequence[str]) -> None:
        self.there = set(kept)

    def take_out(self, option: str) -> None:
        self.there.discard(option)

    def weight_norms(self) -> Tensor:
        """Zeros: inputs are no weights of its own."""
        return torch.zeros(len(self.options))


class WidthChoice(Decision):
    """The channels of what passes through, each of which may stay or go.

    They are the output of the layer before it, or the input of the layer behind it.
    """

    kind = "width"

    def __init__(
        self,
        channels: int,
        *,
        name: str,
        of: Literal["output", "input"] = "output",
        may_be_empty: bool = False,
    ) -> None:
        super().__init__(name, tuple(map(str, range(channels))))
        self.of, self.empty_too = of, may_be_empty
        self.mask: Mask | None = None
        self.layers: tuple[nn.Conv2d | nn.Linear, ...] = ()  # the one that the channels are of

    def forward(self, x: Tensor) -> Tensor:
        if self.gates is not None:
            x = x * self.gates.reshape(*self.gates.shape, *(1,) * (x.dim() - 2))
        return x if self.mask is None else self.mask(x)

    @property
    def may_be_empty(self) -> bool:
        return self.empty_too

    def strongest(self, scores: Tensor) -> Tensor:
        """Those at least as strong as their mean."""
        return scores >= scores.mean(1, keepdim=True)

    def keep_(self, kept: Sequence[str]) -> None:
        stays = set(kept)
        if len(stays) < len(self.options):
            self.mask = self._mask([float(o in stays) for o in self.options], persistent=True)

    def take_out(self, option: str) -> None:
        if self.mask is None:
            self.mask = self._mask([1.0] * len(self.options), persistent=False)
        self.mask.weight[int(option)] = 0

    def _mask(self, entries: Sequence[float], *, persistent: bool) -> "Mask":
        sides = channels_and_sides(self.sizes)[1] if self.sizes else 2
        device = self.layers[0].weight.device if self.layers else None
        return Mask(torch.tensor(entries, device=device), sides, persistent=persistent)

    def weight_norms(self) -> Tensor:
        """Those of the layer that the channels are of; zeros without one."""
        by_channel = squares_by_output if self.of == "output" else squares_by_input
        squares = [by_channel(layer) for layer in self.layers]
        return squares[0] if squares else torch.zeros(len(self.options))


def squares_by_output(layer: nn.Conv2d | nn.Linear) -> Tensor:
    """Squared norms of the weights that give each channel."""
    return layer.weight.square().flatten(1).sum(1)


def squares_by_input(layer: nn.Conv2d | nn.Linear) -> Tensor:
    """Squared norms of the weights that read each channel."""
    groups = layer.groups if isinstance(layer, nn.Conv2d) else 1
    outputs, inputs = layer.weight.shape[:2]
    squares = layer.weight.square().reshape(groups, outputs // groups, inputs, -1)
    return squares.sum((1, 3)).flatten()


class Mask(nn.Module):
    """Leaves channels as they are, or makes them zero.

    Cut down, it may read some of the channels that come to it: those in `taken`.
    """

    weight: Tensor
    taken: Tensor | None

    def __init__(self, weight: Tensor, sides: int, *, persistent: bool = True) -> None:
        super().__init__()
        self.register_buffer("weight", weight.reshape(-1, *(1,) * sides), persistent=persistent)
        self.register_buffer("taken", None, persistent=False)  # it stands in the record of cuts
        self.bias, self.inputs = None, len(weight)

    def forward(self, x: Tensor) -> Tensor:
        return (x if self.taken is None else x.index_select(1, self.taken)) * self.weight


class Zeros(nn.Module):
    """Channels of zeros: a layer none of whose options is kept, or what others lack."""

    weight: Tensor

    def __init__(self, channels: int, sides: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(channels, *(1,) * sides))
        self.bias = None

    def forward(self, x: Tensor, size: tuple[int, ...]) -> Tensor:
        return self.weight.expand(x.shape[0], -1, *size[1:])


def checked_name(name: str) -> str:
    """The name of a choice, or an ArdorError unless gates can be called so."""
    if not isinstance(name, str) or not name or "." in name or name in TAKEN:
        raise ArdorError(
            f"the name {name!r} of a choice must be text without dots that torch does not use",
            "name it after its place, for example 'layer3'",
        )
    return name


def check_candidate(name: str, option: str, candidate: nn.Module | None) -> None:
    """An ArdorError unless an option of a choice can stand for that."""
    if candidate is not None and not isinstance(candidate, nn.Module):
        raise ArdorError(
            f"candidate '{option}' of choice '{name}' is {candidate!r:.60}; must be a module",
            "or None, under the name 'none', for no connection",
        )
    if (option == ZERO) != (candidate is None):
        raise ArdorError(
            f"candidate '{option}' of choice '{name}': None, no connection, is called '{ZERO}', "
            "and nothing else is",
            "give it another name" if option == ZERO else f"call it '{ZERO}'",
        )
    if not isinstance(option, str) or not option or "." in option or option in dir(nn.ModuleDict()):
        raise ArdorError(
            f"candidate {option!r} of choice '{name}' must be named by text without dots that "
            "torch does not use",
            "name it after what it does, for example 'conv3'",
        )


def one_hot(scores: Tensor, count: int) -> Tensor:
    """The `count` highest of each row, the first of equals."""
    best = scores.argsort(descending=True, stable=True)[:, :count]
    return torch.zeros_like(scores, dtype=torch.bool).scatter(1, best, True)


def channels_and_sides(sizes: Mapping[tuple[int, ...], tuple[int, ...]]) -> tuple[int, int]:
    """How many channels are given, and how many sides an image of them has: 2, or 0 of a vector."""
    channels, *sides = next(iter(sizes.values()))
    return channels, len(sides)
