"""Spaces: lists of choices, and the nets that are built from them."""

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, fields
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from ardor import discover
from ardor.architecture import Architecture, Choice, Decisions
from ardor.bayes import Gates
from ardor.bayes.divergences import log_uniform_kl
from ardor.errors import ArdorError
from ardor.layers.blocks import Chain
from ardor.layers.choices import InputChoice
from ardor.layers.mixed import DropPath, Mixed
from ardor.layers.variational import Variational


class Net(nn.Module, ABC):
    """A supernet, or a network: the same supernet with candidates left out."""

    as_searched = False  # a network in the supernet's form, as `spaces.network` builds it

    @abstractmethod
    def heads(self, images: Tensor, gates: Gates | None = None) -> tuple[Tensor, ...]:
        """Logits; while training also those of auxiliary heads, if the net has any."""

    @abstractmethod
    def weight_norms(self, choice: Choice) -> Tensor:
        """Squared norms of the weights under each option, (copies, options)."""

    @abstractmethod
    def take_out(self, choice: Choice, option: str) -> None:
        """Removes an option in every copy, weights and all; gates keep their order."""

    def forward(self, images: Tensor, gates: Gates | None = None) -> Tensor:
        return self.heads(images, gates)[0]

    def kl(self) -> Tensor:
        """KL of variational weights to their prior, summed over weights; 0 without any."""
        layers = [module for module in self.modules() if isinstance(module, Variational)]
        if not layers:
            return torch.zeros(())
        # In one call, as a supernet has a thousand small layers.
        return log_uniform_kl(
            torch.cat([layer.weight.flatten() for layer in layers]),
            torch.cat([layer.log_var.flatten() for layer in layers]),
        )

    def sample_weights_(self, on: bool) -> None:
        """Sets whether variational weights are drawn while training, or are their means."""
        for module in self.modules():
            if isinstance(module, Variational):
                module.samples_weights = on
        self.forget_shapes_()

    def forget_shapes_(self) -> None:
        """Clears the shapes that chains remember of their blocks."""
        for module in self.modules():
            if isinstance(module, Chain):
                module.forget_shapes()

    def idle(self) -> list[tuple[nn.ModuleDict, str]]:
        """Candidates that give only zeros and can be removed: the dictionary and key of each."""
        return []

    def hard_gates_(self, hard: bool) -> None:
        """Sets whether candidates under a gate of zero are left out even while gates learn."""
        for module in self.modules():
            if isinstance(module, (Mixed, InputChoice)):
                module.hard = hard

    def drop_path_(self, rate: float) -> None:
        """Sets the rate at which paths are dropped while training."""
        for module in self.modules():
            if isinstance(module, DropPath):
                module.rate = rate


Side = Annotated[int, Field(ge=1, le=4096)]  # of an image


@dataclass(frozen=True, kw_only=True)
class Space(ABC):
    """A list of choices, and sizes; a subclass is a frozen dataclass that adds its own sizes."""

    image: tuple[Side, Side, Side] = (3, 32, 32)  # channels, height, width
    classes: Annotated[int, Field(ge=2, le=100_000)] = 10
    auxiliary: bool = False  # a second head while the network is trained, if the space has one

    @property
    @abstractmethod
    def choices(self) -> tuple[Choice, ...]:
        """Every decision of the space."""

    @abstractmethod
    def build(
        self,
        architecture: Architecture | None = None,
        *,
        conv: type[nn.Conv2d] = nn.Conv2d,
        as_searched: bool = False,
    ) -> Net:
        """The supernet, or the network of `architecture`.

        A network has full BatchNorms (and an auxiliary head, if the space has one). Built
        `as_searched` it computes exactly what the supernet does under the same gates.
        """

    def check_size(self, architecture: Architecture | None = None) -> None:
        """An ArdorError if the supernet, or a network, would be too large to be built."""

    @abstractmethod
    def strongest(self, scores: Gates) -> Architecture:
        """The best option of each op choice, and the best edges into each node."""

    def strongest_of_each(self, draws: Gates) -> list[Counter[Decisions]]:
        """Counts of what `strongest` keeps in draws of the scores, (draws, 1, options) each.

        One counter for each independent group of choices; here all choices are one group.
        """
        count = max(map(len, draws.values()))
        each = ({n: draw[at, None] for n, draw in draws.items()} for at in range(count))
        return [Counter(self.strongest(scores).kept for scores in each)]

    @abstractmethod
    def subset(self, probabilities: Gates, threshold: float = 0.5) -> Architecture:
        """All options above the threshold; no node is left without input."""

    def connected(self, probabilities: Gates, threshold: float = 0.5) -> Architecture:
        """All options above the threshold, even if a node has lost all of its inputs by that.

        For a method that knows what falls with a node. An image still gets through.
        """
        return self.subset(probabilities, threshold)

    def architecture(self, kept: dict[str, tuple[str, ...]]) -> Architecture:
        """The value that names this space, its settings and the kept options."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        return Architecture.of(discover.name_of(type(self)), settings, kept)

    def adopted(self, architecture: Architecture) -> Architecture:
        """The same decisions in this space; an ArdorError if they do not fit its choices."""
        self.check(architecture)
        return self.architecture(dict(architecture.kept))

    def masks(self, architecture: Architecture) -> Gates:
        """Gates of one for what `architecture` keeps, and of zero for everything else."""
        kept = {name: set(options) for name, options in architecture.kept}
        return {
            choice.name: torch.tensor([[[float(o in kept[choice.name]) for o in choice.options]]])
            for choice in self.choices
        }

    def check(self, architecture: Architecture) -> None:
        """An ArdorError unless `architecture` decides exactly the choices of this space."""
        expected = {choice.name: set(choice.options) for choice in self.choices}
        if expected and not architecture.kept:
            name = discover.name_of(type(self))
            raise ArdorError(
                f"the space '{name}' has choices, and the architecture decides none of them",
                f"search them: --space {name}; 'ardor list networks' shows what has no choices",
            )
        strange = set(architecture.options).symmetric_difference(expected)
        if strange:
            raise foreign(f"choice '{min(strange)}' is not in both")
        for name, kept in architecture.kept:
            if not set(kept) <= expected[name]:
                raise foreign(f"{name} has no option '{min(set(kept) - expected[name])}'")


def foreign(reason: str) -> ArdorError:
    """The error for an architecture that does not fit a space."""
    return ArdorError(
        f"the architecture does not belong to this space: {reason}",
        "build it with the space and settings it was found in, as its file names them",
    )


def mean_score(gate: Tensor) -> list[float]:
    """One number for each option: the mean over copies and images."""
    return gate.detach().double().mean((0, 1)).tolist()
