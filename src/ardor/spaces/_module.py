"""A function that builds any module with choices inside, as a space.

The choices are found by walking the module in order; everything else follows from them. What a
blank image does on its way through the supernet is seen once, where nothing is computed.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice, Decisions, Place
from ardor.bayes import Gates
from ardor.errors import ArdorError
from ardor.layers.choices import Decision, LayerChoice, WidthChoice
from ardor.layers.conversion import batch_statistics_, not_in_place_, with_weights_of_
from ardor.layers.mixed import Mixed
from ardor.layers.operations import ZERO
from ardor.spaces._base import Net, Space, foreign, mean_score
from ardor.spaces._graph import MOST_WEIGHTS

NETWORK = Place("network", "network", "network")
# Layers that give zeros where they are given zeros.
QUIET = (
    nn.Identity,
    nn.Dropout,
    nn.Dropout2d,
    nn.ReLU,
    nn.ReLU6,
    nn.Hardswish,
    nn.SiLU,
    nn.GELU,
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveMaxPool2d,
)


class ModuleNet(Net):
    """A person's own module, supernet or network, whose choices learn of the gates."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.decisions = by_name(module)

    def heads(self, images: Tensor, gates: Gates | None = None) -> tuple[Tensor, ...]:
        with self._under(gates or {}):
            found = self.module(images)
        return found if isinstance(found, tuple) else (found,)

    def weight_norms(self, choice: Choice) -> Tensor:
        return torch.stack([decision.weight_norms() for decision in self.decisions[choice.name]])

    def take_out(self, choice: Choice, option: str) -> None:
        for decision in self.decisions[choice.name]:
            decision.take_out(option)

    def idle(self) -> list[tuple[nn.ModuleDict, str]]:
        """Candidates that bring only zeros, but the last of a layer: something must give them."""
        found = []
        for mixed in (module for module in self.modules() if isinstance(module, Mixed)):
            quiet = [name for name, module in mixed.candidates.items() if silent(module)]
            kept = 1 if len(quiet) == len(mixed.candidates) else 0
            found += [(mixed.candidates, name) for name in quiet[kept:]]
        return found

    @contextmanager
    def _under(self, gates: Mapping[str, Tensor]) -> Iterator[None]:
        """The choices, for a while, under these gates, each copy under its own."""
        given = [
            (decision, gate[copy if len(gate) > 1 else 0])
            for name, gate in gates.items()
            for copy, decision in enumerate(self.decisions.get(name, []))
        ]
        try:
            for decision, gate in given:
                decision.gates = gate
            yield
        finally:
            for decision, _ in given:
                decision.gates = None


def by_name(module: nn.Module) -> dict[str, list[Decision]]:
    """The choices of a module, in order; those of the same name side by side."""
    found: dict[str, list[Decision]] = {}
    for decision in (part for part in module.modules() if isinstance(part, Decision)):
        found.setdefault(decision.name, []).append(decision)
    return found


def silent(module: nn.Module) -> bool:
    """Whether a candidate surely gives only zeros: it ends in a BatchNorm that makes them."""
    last = ends(module)
    return isinstance(last, nn.BatchNorm2d) and not (
        last.weight is None or last.weight.any() or last.bias.any()
    )


def ends(module: nn.Module) -> nn.Module:
    """The last layer of a row that does not leave zeros as they are."""
    while isinstance(module, nn.Sequential):
        loud = [layer for layer in module if not isinstance(layer, QUIET)]
        if not loud:
            break
        module = loud[-1]
    return module


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
            step = {"source": node, "target": node + 1} if first.kind == "op" else {}
            node += len(step) // 2
            found.append(
                Choice(
                    name,
                    first.kind,
                    first.options,
                    1 + len(others),
                    place=NETWORK,
                    families=first.families,
                    **step,
                )
            )
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
        with reported(f"build of '{self.name}'", f"call it yourself: {self._call()}"):
            module = type(self).function(self.image, self.classes, **settings)
        if not isinstance(module, nn.Module):
            raise ArdorError(
                f"build of '{self.name}' gives {module!r:.60}; must be a module",
                "it ends with 'return' and a torch.nn.Module",
            )
        not_in_place_(module)
        return module

    def _call(self) -> str:
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


@functools.lru_cache(maxsize=16)
def skeleton(space: ModuleSpace) -> ModuleNet:
    """The supernet without numbers, checked, once blank images have gone through it."""
    net = unnumbered(space)
    check_decisions(space.name, net.decisions)
    with (
        seen(net),
        torch.no_grad(),
        reported(
            f"forward of '{space.name}' on blank images",
            f"try it yourself: {space._call()}(torch.zeros(2, *{space.image}))",
        ),
    ):
        logits = net.eval()(torch.zeros(2, *space.image, device="meta"))
    if not isinstance(logits, Tensor) or logits.shape != (2, space.classes):
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ArdorError(
            f"forward of '{space.name}' gives {shape} for 2 images; "
            f"must be logits, (2, {space.classes})",
            "the last layer must have as many outputs as there are classes",
        )
    return net


def unnumbered(space: ModuleSpace) -> ModuleNet:
    """The supernet on torch's device without numbers; some builders need numbers to get there."""
    with torch.random.fork_rng(devices=[]):
        with suppress(ArdorError), torch.device("meta"):
            return ModuleNet(space.made())
        return ModuleNet(space.made()).to("meta")


def check_decisions(space: str, decisions: Mapping[str, list[Decision]]) -> None:
    """An ArdorError unless there are choices, alike where they share a name."""
    if not decisions:
        raise ArdorError(
            f"the space '{space}' has no choices",
            "put an ardor.LayerChoice, InputChoice or WidthChoice into the module",
        )
    for name, same in decisions.items():
        if len({(decision.kind, decision.options) for decision in same}) > 1:
            raise ArdorError(
                f"choices of the space '{space}' share the name '{name}' and have other options",
                "what has the same name is decided once: give them different names",
            )


@contextmanager
def seen(net: ModuleNet) -> Iterator[None]:
    """Has each choice know the sizes of what it gives, from the images that come through."""
    last: dict[int, nn.Conv2d | nn.Linear] = {}  # channels -> the layer that gave so many

    def note(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(module, Decision):
            module.sizes[tuple(inputs[0].shape[2:])] = tuple(output.shape[1:])
        if isinstance(module, WidthChoice) and output.shape[1] in last:
            module.made_by = (last[output.shape[1]],)
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            last[output.shape[1]] = module

    hooks = [module.register_forward_hook(note) for module in net.modules()]
    hooks += [module.register_forward_pre_hook(check_given) for module in net.modules()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def check_given(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    """An ArdorError where what comes to a choice does not suit it."""
    if isinstance(module, LayerChoice):
        check_alike(module, *inputs)
    elif isinstance(module, WidthChoice) and inputs[0].shape[1] != len(module.options):
        raise ArdorError(
            f"choice '{module.name}' is over {len(module.options)} channels; "
            f"must be over {inputs[0].shape[1]}, as many as come to it",
            "what passes through is (batch, channels, ...)",
        )


def check_alike(layer: LayerChoice, x: Tensor) -> None:
    """An ArdorError unless all candidates of a layer give the same size."""
    named = layer.mixed.candidates.items()
    sizes = {option: tuple(candidate(x).shape[1:]) for option, candidate in named}
    if len(set(sizes.values())) > 1:
        words = ", ".join(f"{option} {size}" for option, size in sizes.items())
        raise ArdorError(
            f"candidates of choice '{layer.name}' give different sizes: {words}",
            "they are added up: each must give as many channels, rows and columns",
        )


def learn_sizes_(net: ModuleNet, other: ModuleNet) -> None:
    """What another net's choices know of sizes, and of the layers before them."""
    names = {id(module): name for name, module in other.named_modules()}
    for own, theirs in zip(net.decisions.values(), other.decisions.values(), strict=True):
        for mine, known in zip(own, theirs, strict=True):
            mine.sizes = dict(known.sizes)
            if isinstance(mine, WidthChoice) and isinstance(known, WidthChoice):
                found = [net.get_submodule(names[id(layer)]) for layer in known.made_by]
                mine.made_by = tuple(x for x in found if isinstance(x, (nn.Conv2d, nn.Linear)))


@contextmanager
def reported(what: str, hint: str) -> Iterator[None]:
    """Has whatever goes wrong in a person's own code said in a line."""
    try:
        yield
    except ArdorError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raise ArdorError(f"{what} fails: {type(error).__name__}: {words:.200}", hint) from error
