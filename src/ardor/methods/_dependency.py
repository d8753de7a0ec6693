"""What falls with what: the variance of every switch, given those that it depends on (BayesNAS).

An operation depends on the gate of its edge, on all that leads to its source, and on the option of
another choice that it stands in, as far as it has these. The gate of an edge depends on the same,
and on its operations: it is of no use without any.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from ardor.architecture import Choice, Place
from ardor.bayes import Gates
from ardor.bayes.relevance import BOUND, Rule, parallel, predecessors, series

Node = tuple[Place, int | None]
Needs = Mapping[str, Tensor]  # in words -> variance, (1, 1, 1)


@dataclass(frozen=True)
class Part:
    """Some options of a choice, side by side."""

    choice: Choice
    at: slice

    def of(self, gates: Gates) -> Tensor:
        """Their entries, (1, 1, options)."""
        return gates[self.choice.name][..., self.at]


@dataclass(frozen=True)
class Dependent:
    """The variance of every option; and with what those fell that would have stayed alone."""

    gamma: Gates
    fell_with: dict[str, dict[str, str]] = field(default_factory=dict)

    def settle(self, part: Part, s: Gates, needs: Needs) -> None:
        """gamma of some options from what they have by themselves, and from what they need."""
        own, gamma = part.of(s), series(part.of(s), *needs.values())
        part.of(self.gamma).copy_(gamma)
        fallen = ((own > BOUND) & (gamma <= BOUND)).flatten().tolist()
        for option, fell in zip(part.choice.options[part.at], fallen, strict=True):
            if fell:
                weakest = min(needs, key=lambda words: needs[words].item())
                self.fell_with.setdefault(part.choice.name, {})[option] = weakest


def dependent(choices: Iterable[Choice], s: Gates, there: Gates, rule: Rule = "print") -> Dependent:
    """gamma of every option from all s (eqs 6 and 8), from the inputs of each graph on.

    Options that are not `there`, as they have left the supernet, lead nowhere. Nor does what has
    fallen, so that all that depends on it falls as well, and not only what comes next.
    """
    named = {choice.name: choice for choice in choices}
    found = Dependent({name: each.clone() for name, each in s.items()})
    leading: dict[Node, Tensor] = {}  # the sum of s of all that leads to a node
    inputs = inputs_of_nodes(named.values())
    operations = [choice for choice in named.values() if choice.kind == "op"]
    for choice in sorted(operations, key=lambda choice: choice.target or 0):
        needs = {}
        if choice.inside is not None:
            outer, option = choice.inside
            needs[f"{outer}: {option}"] = part(named[outer], option).of(found.gamma)
        if (node := (choice.place, choice.source)) in leading:
            words = inputs[node].name if node in inputs else f"all that leads to node {node[1]}"
            needs[words] = predecessors(leading[node], rule)
        target = choice.place, choice.target
        gate = part(inputs[target], str(choice.source)) if target in inputs else None
        edge = {f"{gate.choice.name}: {choice.source}": gate.of(s)} if gate else {}
        found.settle(Part(choice, slice(None)), s, needs | edge)
        left = parallel(s[choice.name] * there[choice.name] * (found.gamma[choice.name] > BOUND))
        if gate:
            found.settle(gate, s, needs | {choice.name: left})
        if choice.place.complete and choice.source is not None:
            leading[target] = leading[target] + left if target in leading else left
    return found


def part(choice: Choice, option: str) -> Part:
    """One option of a choice."""
    at = choice.options.index(option)
    return Part(choice, slice(at, at + 1))


def inputs_of_nodes(choices: Iterable[Choice]) -> dict[Node, Choice]:
    """For each node the choice of its inputs, where the space has one: the gates of its edges."""
    inputs = (choice for choice in choices if choice.kind == "edge" and choice.target is not None)
    return {(choice.place, choice.target): choice for choice in inputs}
