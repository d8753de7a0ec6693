"""What the posterior knows of every candidate besides its probability: mean, variance, entropy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ardor.architecture import Architecture, Choice, FellWith, Probabilities
from ardor.reporting.cells import told_by_operations
from ardor.reporting.certainty import Names
from ardor.reporting.format import percent, short

Strengths = Mapping[str, Mapping[str, Mapping[str, float]]]  # choice -> option -> quantity

ENTROPY = "entropy"  # the quantity at which a method prunes: where it is not above zero
_WORDS = {"snr": "SNR", "prior": "probability before", "s": "own gamma"}
_MEANINGS = {
    "snr": "The SNR, signal to noise, is the mean divided by the variance.",
    "gamma": "Gamma is the variance of a switch, given all that it depends on; its own gamma is "
    "what it would have without that.",
    ENTROPY: "Where the entropy, in nats, is not above zero, a candidate is pruned.",
}


@dataclass(frozen=True)
class Candidate:
    """An option of a choice, with its probability and strengths."""

    choice: str
    option: str
    kept: bool
    probability: float | None
    strength: Mapping[str, float]  # by quantity; empty if it was removed, or the method has none
    fell: str = ""  # with what it fell, in words, if it would have stayed by itself


@dataclass(frozen=True)
class Strengthened:
    """The candidates of a cell, edge by edge, with a column for each quantity."""

    title: str
    columns: list[str]
    edges: Mapping[str, list[tuple[Candidate, str, list[str]]]]  # with its name, and numbers


def candidates(
    architecture: Architecture,
    choices: Sequence[Choice],
    probabilities: Probabilities,
    strengths: Strengths,
    fell: FellWith,
) -> Iterator[Candidate]:
    """Every candidate of every choice; of inputs, which operations tell, those with strengths."""
    names = Names(architecture, choices, probabilities)
    redundant = told_by_operations(choices) - strengths.keys()
    for choice in names.sorted({**architecture.options, **probabilities, **strengths}):
        if choice in redundant:
            continue
        kept, shares = architecture.options.get(choice, ()), probabilities.get(choice, {})
        known = strengths.get(choice, {})
        for option in dict.fromkeys([*shares, *known, *kept]):
            share, fallen = shares.get(option), fell.get(choice, {}).get(option, "")
            yield Candidate(choice, option, option in kept, share, known.get(option, {}), fallen)


def quantities(strengths: Strengths) -> dict[str, str]:
    """The quantities of strengths, each with its name in words."""
    found = dict.fromkeys(q for options in strengths.values() for s in options.values() for q in s)
    return {quantity: _WORDS.get(quantity, quantity) for quantity in found}


def meanings(strengths: Strengths) -> str:
    """What the quantities mean, and the probability beside them."""
    known = quantities(strengths)
    of = "being kept" if ENTROPY in known else "being the strongest of its edge"
    said = [_MEANINGS[quantity] for quantity in known if quantity in _MEANINGS]
    return " ".join([*said, f"The probability is that of {of}."])


def strength_tables(
    architecture: Architecture,
    choices: Sequence[Choice],
    probabilities: Probabilities,
    strengths: Strengths,
    fell: FellWith,
) -> Iterator[Strengthened]:
    """A table for each cell, with the candidates of each of its edges."""
    names, known = Names(architecture, choices, probabilities), quantities(strengths)
    tables: dict[str, dict[str, list[tuple[Candidate, str, list[str]]]]] = {}
    for one in candidates(architecture, choices, probabilities, strengths, fell):
        if one.choice in strengths:
            numbers = [one.strength.get(quantity) for quantity in known]
            words = ["" if x is None else short(x) for x in numbers]
            words.append("" if one.probability is None else percent(one.probability, 1))
            edges = tables.setdefault(names.group(one.choice), {})
            rows = edges.setdefault(names.row(one.choice), [])
            rows.append((one, names.column(one.choice, one.option), words))
    columns = [word[:1].upper() + word[1:] for word in (*known.values(), "probability")]
    return (Strengthened(title, columns, edges) for title, edges in tables.items())
