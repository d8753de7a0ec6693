"""A function that builds any module with choices inside, as a space.

The choices are found by walking the module in order; everything else follows from them.
"""

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice, Decisions, Place
from ardor.bayes import Gates
from ardor.errors import ArdorError
from ardor.layers.choices import Decision
from ardor.layers.conversion import batch_statistics_, not_in_place_, with_weights_of_
from ardor.layers.operations import ZERO
from ardor.spaces._base import Space, foreign, mean_score
from ardor.spaces._graph import MOST_WEIGHTS
from ardor.spaces._modulenet import ModuleNet
from ardor.spaces._skeleton import learn_sizes_, reported, skeleton

NETWORK = Place("network", "network", "network")


@dataclass(frozen=True, kw_only=True)
class ModuleSpace(Space):
    """The choices of what a function builds; subclasses have its settings for fields."""

    function: ClassVar[Callable[..., Any]]
    passed: ClassVar[tuple[str, ...]]  # the settings that the function takes
    name: ClassVar[str]

    @property
    def skeleton(self) -> ModuleNet:
        """The supernet without numbers, once a blank image has gone through it."""
        return skeleton(self)

    @functools.cached_property
    def choices(self) -> tuple[Choice, ...]:
        found: list[Choice] = []
        node = 0
        for name, (first, *others) in self.skeleton.decisions.items():
            steps = first.kind == "op"
            found.append(
                Choice(
                    name,
                    first.kind,
                    first.options,
                    1 + len(others),
                    place=NETWORK,
                    source=node if steps else None,
                    target=node + 1 if steps else None,
                    families=first.families,
                )
            )
            node += steps
        return tuple(found)

    def check_size(self, architecture: Architecture | None = None) -> None:
        count = sum(weight.numel() for weight in self.skeleton.parameters())
        if count > MOST_WEIGHTS:
            raise ArdorError(
                f"the space '{self.name}' has {count:,} weights; must be at most {MOST_WEIGHTS:,}",
                "use fewer channels, layers or candidates",
            )

    def build(
        self,
        architecture: Architecture | None = None,
        *,
        conv: type[nn.Conv2d] = nn.Conv2d,
        as_searched: bool = False,
    ) -> ModuleNet:
        if architecture is not None:
            self.check(architecture)
        self.check_size(architecture)
        net = ModuleNet(self.made())
        with_weights_of_(net, conv)
        if architecture is None or as_searched:
            batch_statistics_(net)
        learn_sizes_(net, self.skeleton)
        if architecture is not None:
            for name, decisions in net.decisions.items():
                for decision in decisions:
                    decision.keep_(architecture.options[name])
        return net

    def made(self) -> nn.Module:
        """What the function builds; an ArdorError where it fails, or builds no module."""
        settings = {name: getattr(self, name) for name in self.passed}
        with reported(f"build of '{self.name}'", f"call it yourself: {self.call()}"):
            module = type(self).function(self.image, self.classes, **settings)
        if not isinstance(module, nn.Module):
            raise ArdorError(
                f"build of '{self.name}' gives {module!r:.60}; must be a module",
                "it ends with 'return' and a torch.nn.Module",
            )
        not_in_place_(module)
        return module

    def call(self) -> str:
        """The call of the function as a person would type it."""
        settings = "".join(f", {name}={getattr(self, name)!r}" for name in self.passed)
        return f"build({self.image}, {self.classes}{settings})"

    def strongest(self, scores: Gates) -> Architecture:
        """The best option of each choice, and of inputs and channels as many as they keep."""
        means = {n: torch.tensor([[mean_score(s)]], dtype=torch.double) for n, s in scores.items()}
        counts = self.strongest_of_each(means)
        return self.architecture({name: kept for ((name, kept),) in map(next, map(iter, counts))})

    def strongest_of_each(self, draws: Gates) -> list[Counter[Decisions]]:
        """For each choice, how often what is kept of it; one that is not scored is left open."""
        return [self._strongest(choice, draws.get(choice.name)) for choice in self.choices]

    def _strongest(self, choice: Choice, draws: Tensor | None) -> Counter[Decisions]:
        rows = torch.ones(1, len(choice.options), dtype=torch.bool)
        if draws is not None:
            rows = self._first(choice).strongest(draws[:, 0])
        found: Counter[Decisions] = Counter()
        for row, count in zip(*(part.tolist() for part in distinct(rows)), strict=True):
            found[((choice.name, kept_of(choice, row)),)] += count
        return found

    def subset(self, probabilities: Gates, threshold: float = 0.5) -> Architecture:
        """All options above the threshold; the likeliest where nothing would be no answer."""
        kept = {}
        for choice in self.choices:
            count = len(choice.options)
            given = probabilities.get(choice.name)
            shares = [torch.inf] * count if given is None else mean_score(given)
            kept[choice.name] = kept_of(choice, [share > threshold for share in shares])
            if not kept[choice.name] and not self._first(choice).may_be_empty:
                kept[choice.name] = (choice.options[max(range(count), key=shares.__getitem__)],)
        return self.architecture(kept)

    def check(self, architecture: Architecture) -> None:
        super().check(architecture)
        for choice in self.choices:
            kept = architecture.options[choice.name]
            if ZERO in kept:
                raise foreign(f"'{ZERO}' is kept of {choice.name}, where nothing must be")
            if not kept and not self._first(choice).may_be_empty:
                raise foreign(f"nothing is kept of {choice.name}")

    def _first(self, choice: Choice) -> Decision:
        return self.skeleton.decisions[choice.name][0]


def kept_of(choice: Choice, marks: list[bool]) -> tuple[str, ...]:
    """The options that are marked, without zero: no connection is nothing kept."""
    pairs = zip(choice.options, marks, strict=True)
    return tuple(option for option, mark in pairs if mark and option != ZERO)


def distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Each row once, and how often it is there."""
    if len(rows) == 1:
        return rows, torch.ones(1, dtype=torch.long)
    found, counts = torch.unique(rows, dim=0, return_counts=True)
    return found, counts
