"""The net of any module: the module itself, whose choices are set under gates for a call."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ardor.architecture import Choice
from ardor.bayes import Gates
from ardor.layers.choices import Decision, LayerChoice
from ardor.layers.mixed import Mixed
from ardor.spaces._base import Net

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
        self.empty_what_left_()

    def empty_what_left_(self) -> None:
        """Has choices that stood inside a candidate that has left keep nothing, and no weights."""
        there = {id(module) for module in self.module.modules()}
        for decision in (one for same in self.decisions.values() for one in same):
            if id(decision) not in there:
                for option in decision.options:
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
    """Whether a candidate surely gives only zeros: it ends in a layer that makes them.

    Or it ends in a choice that keeps nothing, or only such candidates.
    """
    last = ends(module)
    if isinstance(last, LayerChoice):
        return all(map(silent, last.mixed.candidates.values()))
    if not isinstance(last, (nn.BatchNorm2d, nn.Conv2d)) or last.weight is None:
        return False
    return not (last.weight.any() or (last.bias is not None and last.bias.any()))


def ends(module: nn.Module) -> nn.Module:
    """The last layer of a row that does not leave zeros as they are."""
    while isinstance(module, nn.Sequential):
        loud = [layer for layer in module if not isinstance(layer, QUIET)]
        if not loud:
            break
        module = loud[-1]
    return module
