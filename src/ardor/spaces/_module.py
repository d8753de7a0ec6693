"""A function that builds any module with choices inside, as a space.

The choices are found by walking the module in order; everything else follows from them.
"""

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice, Decisions, Options
from ardor.bayes import Gates
from ardor.errors import ArdorError, reported
from ardor.layers.choices import Decision
from ardor.layers.conversion import batch_statistics_, not_in_place_, with_weights_of_
from ardor.layers.operations import ZERO
from ardor.spaces._base import Space, foreign, mean_score
from ardor.spaces._graph import MOST_WEIGHTS
from ardor.spaces._modulenet import ModuleNet
from ardor.spaces._nested import enclosing, groups, placed, within_reach
from ardor.spaces._skeleton import learn_sizes_, skeleton


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
        decisions = self.skeleton.decisions
        found = [
            Choice(
                name,
                first.kind,
                first.options,
                1 + len(others),
                families=first.families,
                inside=inside,
            )
            for name, inside in enclosing(self.skeleton.module).items()
            for first, *others in [decisions[name]]
        ]
        return placed(found)

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
            kept = within_reach(self.choices, architecture.options)
            for name, decisions in net.decisions.items():
                for decision in decisions:
                    decision.keep_(kept[name])
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
        return self.architecture({name: kept for each in counts for name, kept in next(iter(each))})

    def strongest_of_each(self, draws: Gates) -> list[Counter[Decisions]]:
        """How often what is kept of each outermost choice and of those inside it.

        One that is not scored is left open.
        """
        return [self._strongest(group, draws) for group in groups(self.choices)]

    def _strongest(self, group: Sequence[Choice], draws: Gates) -> Counter[Decisions]:
        marks = self._marks(group, draws)
        count = max(map(len, marks))
        joined = torch.cat([rows.expand(count, -1) for rows in marks], 1)
        found: Counter[Decisions] = Counter()
        for row, times in zip(*(part.tolist() for part in distinct(joined)), strict=True):
            each = iter(row)
            kept = ((c.name, kept_of(c, [*islice(each, len(c.options))])) for c in group)
            found[tuple(kept)] += times
        return found

    def _marks(self, group: Sequence[Choice], draws: Gates) -> list[Tensor]:
        """Which options each draw keeps, (draws | 1, options) for each choice."""
        marks: dict[str, Tensor] = {}
        for choice in group:
            rows = torch.ones(1, len(choice.options), dtype=torch.bool)
            if choice.name in draws:
                rows = self._first(choice.name).strongest(draws[choice.name][:, 0])
            if choice.inside is not None:
                outer, option = choice.inside
                rows = rows & marks[outer][:, self._first(outer).options.index(option), None]
            marks[choice.name] = rows
        return list(marks.values())

    def subset(self, probabilities: Gates, threshold: float = 0.5) -> Architecture:
        """All options above the threshold; the likeliest where nothing would be no answer.

        An option inside which nothing is left that could be an answer goes with what stood there.
        """
        shares = {c.name: self._shares(c, probabilities.get(c.name)) for c in self.choices}
        kept = {
            choice.name: kept_of(choice, [share > threshold for share in shares[choice.name]])
            for choice in self.choices
        }
        for choice in reversed(self.choices):  # from the innermost outwards
            if choice.inside is not None and not self.is_answer(choice, kept):
                outer, option = choice.inside
                kept[outer] = tuple(other for other in kept[outer] if other != option)
        for choice in self.choices:
            if choice.is_reached(kept) and not self.is_answer(choice, kept):
                best = max(range(len(choice.options)), key=shares[choice.name].__getitem__)
                kept[choice.name] = (choice.options[best],)
        return self.architecture(kept)

    def _shares(self, choice: Choice, given: Tensor | None) -> list[float]:
        return [torch.inf] * len(choice.options) if given is None else mean_score(given)

    def is_answer(self, choice: Choice, kept: Options) -> bool:
        """Whether what is kept of a choice can be an answer, if the choice is reached."""
        return bool(kept[choice.name]) or self._first(choice.name).may_be_empty

    def architecture(self, kept: dict[str, tuple[str, ...]]) -> Architecture:
        """The value of these decisions; nothing is kept of a choice inside what is left out."""
        return super().architecture(within_reach(self.choices, kept))

    def check(self, architecture: Architecture) -> None:
        super().check(architecture)
        kept = within_reach(self.choices, architecture.options)
        for choice in self.choices:
            if ZERO in kept[choice.name]:
                raise foreign(f"'{ZERO}' is kept of {choice.name}, where nothing must be")
            if choice.is_reached(kept) and not self.is_answer(choice, kept):
                raise foreign(f"nothing is kept of {choice.name}")

    def _first(self, name: str) -> Decision:
        return self.skeleton.decisions[name][0]


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
