"""What falls with what: the variance of every switch, given those that it depends on (BayesNAS).

An operation depends on the gate of its edge, on all that leads to its source, and on the option of
another choice that it stands in, as far as it has these. The gate of an edge depends on the same,
and on its operations: it is of no use without any.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ardor.architecture import Choice, Place
from ardor.bayes import Gates
from ardor.bayes.relevance import BOUND, Rule, parallel, predecessors, series

Node = tuple[Place, int | None]
Needs = Mapping[str, Tensor]  # as `Method.fell_with` names them -> variance, (1, 1, 1)


@dataclass(frozen=True)
class Part:
    """Some options of a choice, side by side."""

    choice: Choice
    at: slice

    def of(self, gates: Gates) -> Tensor:
        """Their entries, (1, 1, options)."""
        return gates[self.choice.name][..., self.at]


class Dependent:
    """The variance of every option (eqs 6 and 8), and what it fell with if it alone would stay.

    Goes through the choices from the inputs on. Options that are not `there`, as they have left the
    supernet, lead nowhere. Nor does what has fallen, so that all that depends on it falls as well,
    and not only what comes next.
    """

    def __init__(
        self, choices: Sequence[Choice], s: Gates, there: Gates, rule: Rule = "print"
    ) -> None:
        self.choices = {choice.name: choice for choice in choices}
        self.s, self.there, self.rule = s, there, rule
        self.gamma = {name: each.clone() for name, each in s.items()}
        self.fell_with: dict[str, dict[str, str]] = {}
        self.inputs = {target(c): c for c in choices if c.kind == "edge" and c.target is not None}
        self.leading: dict[Node, Tensor] = {}  # the sum of s of all that leads to a node
        operations = [choice for choice in choices if choice.kind == "op"]
        for choice in sorted(operations, key=lambda choice: choice.target or 0):
            self._visit(choice)

    def _visit(self, choice: Choice) -> None:
        """Settles an edge: its operations, then its gate, then what it brings to its target."""
        needs, gate = self._needs(choice), self._gate(choice)
        shut = {f"{gate.choice.name}: {choice.source}": gate.of(self.s)} if gate else {}
        self._settle(Part(choice, slice(None)), {**needs, **shut})
        stays = self.there[choice.name] * (self.gamma[choice.name] > BOUND)
        brought = parallel(self.s[choice.name] * stays)
        if gate:
            self._settle(gate, {**needs, choice.name: brought})
        if choice.place.complete and choice.source is not None:
            before = self.leading.get(target(choice))
            self.leading[target(choice)] = brought if before is None else before + brought

    def _needs(self, choice: Choice) -> Needs:
        """What both the operations of an edge and its gate depend on."""
        needs = {}
        if choice.inside is not None:
            outer, option = choice.inside
            needs[f"{outer}: {option}"] = part(self.choices[outer], option).of(self.gamma)
        source = choice.place, choice.source
        if source in self.leading:
            inputs = self.inputs.get(source)
            words = inputs.name if inputs else f"all that leads to node {choice.source}"
            needs[words] = predecessors(self.leading[source], self.rule)
        return needs

    def _gate(self, choice: Choice) -> Part | None:
        """The gate of an edge, if the space has a choice of inputs there."""
        inputs = self.inputs.get(target(choice))
        return part(inputs, str(choice.source)) if inputs else None

    def _settle(self, part: Part, needs: Needs) -> None:
        """gamma of some options, from what they have by themselves and from what they need."""
        own, gamma = part.of(self.s), series(part.of(self.s), *needs.values())
        part.of(self.gamma).copy_(gamma)
        fallen = ((own > BOUND) & (gamma <= BOUND)).flatten().tolist()
        for option, fell in zip(part.choice.options[part.at], fallen, strict=True):
            if fell:
                weakest = min(needs, key=lambda words: needs[words].item())
                self.fell_with.setdefault(part.choice.name, {})[option] = weakest


def target(choice: Choice) -> Node:
    """The node that a choice leads to."""
    return choice.place, choice.target


def part(choice: Choice, option: str) -> Part:
    """One option of a choice."""
    at = choice.options.index(option)
    return Part(choice, slice(at, at + 1))
