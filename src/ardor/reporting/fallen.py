"""What a search has pruned, and what of it fell only because what it depends on was pruned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ardor.architecture import Architecture, Choice, FellWith
from ardor.reporting.certainty import Names
from ardor.reporting.format import operation
from ardor.reporting.strengths import ENTROPY, Strengths, quantities


@dataclass(frozen=True)
class Pruned:
    """How many operations and edges there were, are pruned, and fell with something else."""

    operations: int
    edges: int
    pruned: int
    fell: int

    @property
    def words(self) -> str:
        """The numbers in a sentence: "31 of 98 operations and edges, 12 of them only ..."."""
        them = "operations and edges" if self.edges else "operations"
        said = f"{self.pruned} of {self.operations + self.edges} {them}"
        depend = "it depends" if self.fell == 1 else "they depend"
        only = f", {self.fell} of them only because what {depend} on was pruned"
        return said + (only if self.fell else "")


def fallen(
    architecture: Architecture, choices: Sequence[Choice], fell_with: FellWith
) -> dict[str, dict[str, str]]:
    """Choice -> option -> what it fell with, in words.

    Without what is kept all the same, as its node would have no input, and what is in no choice.
    """
    names = Names(architecture, choices, {})
    found = {}
    for choice in choices:
        fell, kept = fell_with.get(choice.name, {}), architecture.options.get(choice.name, ())
        options = [o for o in choice.options if o in fell and o not in kept]
        if options:
            found[choice.name] = {option: _in_words(names, fell[option]) for option in options}
    return found


def pruned(
    architecture: Architecture,
    choices: Sequence[Choice],
    strengths: Strengths,
    fell_with: FellWith,
) -> Pruned | None:
    """What was pruned; None where a method chooses the best, and prunes nothing by a bound."""
    fell = fallen(architecture, choices, fell_with)
    if not choices or not (fell or ENTROPY in quantities(strengths)):
        return None
    counts = {"op": 0, "edge": 0}
    kept = 0
    for choice in choices:
        if choice.kind in counts:
            there = {option for option in choice.options if choice.family(option) != "none"}
            counts[choice.kind] += len(there)
            kept += len(there.intersection(architecture.options.get(choice.name, ())))
    left_out = sum(counts.values()) - kept
    return Pruned(counts["op"], counts["edge"], left_out, sum(map(len, fell.values())))


def _in_words(names: Names, said: str) -> str:
    """A choice, or "choice: option", with its nodes as drawings call them; else as it is."""
    if said in names.choices:
        row = names.row(said)
        return f"all {row}" if _of_inputs(names.choices, said) else row
    name, _, option = said.rpartition(": ")
    if name not in names.choices:
        return said
    if _of_inputs(names.choices, name):
        return f"the edge {names.column(name, option)} → {names.row(name).removeprefix('into ')}"
    return f"{operation(option)} of {names.row(name)}"


def _of_inputs(choices: Mapping[str, Choice], name: str) -> bool:
    """Whether a choice is one of inputs to a node."""
    return choices[name].source is None and choices[name].target is not None
