"""What the images changed: the likeliest option of each decision before any was seen, and after."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ardor.architecture import Architecture, Choice, Probabilities
from ardor.reporting.cells import told_by_operations
from ardor.reporting.certainty import Names
from ardor.reporting.format import operation, percent
from ardor.reporting.strengths import Strengths

PRIOR = "prior"  # the quantity among the strengths: the probability before any image was seen
_ALIKE = 1e-3  # by how much probabilities differ that are called alike


@dataclass(frozen=True)
class Change:
    """A decision before and after; options are None where several are equally likely."""

    cell: str
    name: str
    before: tuple[str | None, float]
    after: tuple[str | None, float]

    @property
    def changed(self) -> bool:
        """Whether another option is the likeliest now."""
        return None not in (self.before[0], self.after[0]) and self.before[0] != self.after[0]

    @property
    def remark(self) -> str:
        """What happened to it."""
        if self.before[0] is None and self.after[0] is not None:
            return "no favourite before"
        return "changed" if self.changed else ""

    @property
    def words(self) -> tuple[str, str]:
        """Before and after: the option and its probability."""
        before, after = (_said(*one) for one in (self.before, self.after))
        return before, after


def prior(
    architecture: Architecture,
    choices: Sequence[Choice],
    probabilities: Probabilities,
    strengths: Strengths,
    *,
    searched: bool,
) -> dict[str, Any]:
    """What the template shows of it; nothing where the method has no prior."""
    if not any(PRIOR in numbers for of in strengths.values() for numbers in of.values()):
        return {"prior": None}
    if not searched:
        alone = "There was no search: the prior, which other images gave, decided alone."
        return {"prior": alone, "changes": []}
    found = list(changes(Names(architecture, choices, probabilities), probabilities, strengths))
    many = sum(one.changed for one in found)
    verb = "has" if many <= 1 else "have"
    sentence = f"Of {len(found)} decisions, {many or 'none'} {verb} changed the likeliest option."
    return {"prior": sentence, "changes": found}


def changes(names: Names, probabilities: Probabilities, strengths: Strengths) -> Iterator[Change]:
    """Every decision with a prior and a posterior, except inputs: operations tell those."""
    redundant = told_by_operations([*names.choices.values()])
    for choice in names.sorted(strengths.keys() & probabilities.keys()):
        known = {
            o: quantity[PRIOR] for o, quantity in strengths[choice].items() if PRIOR in quantity
        }
        if known and probabilities[choice] and choice not in redundant:
            cell = names.cell(choice)
            yield Change(
                cell.title if cell else "",
                names.row(choice),
                likeliest(known),
                likeliest(probabilities[choice]),
            )


def likeliest(shares: Mapping[str, float]) -> tuple[str | None, float]:
    """The likeliest option and its probability; None for an option if several are alike."""
    option, most = max(shares.items(), key=lambda pair: pair[1])
    alike = sum(math.isclose(share, most, rel_tol=_ALIKE) for share in shares.values())
    return (option if alike == 1 else None), most


def _said(option: str | None, share: float) -> str:
    name = "several alike" if option is None else operation(option)
    return f"{name}, {percent(share)}"
