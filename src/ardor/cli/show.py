"""What 'ardor show' says of an architecture file: its cells, how sure, and its runners-up."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import FiniteFloat, TypeAdapter, ValidationError
from rich.console import Group
from rich.table import Table

from ardor.architecture import AgainstOdds, Architecture, against_odds, parse
from ardor.cli.tables import table
from ardor.errors import ArdorError
from ardor.reporting import table as edges
from ardor.reporting.certainty import Candidate, candidates, quantities
from ardor.reporting.format import number
from ardor.reporting.runners_up import others, verdict

T = TypeVar("T")
Numbers = dict[str, FiniteFloat]
COLUMNS = ("cell", "state", "from", "operation", "certainty")


def shown(content: Mapping[str, Any], *, every: bool, runners_up: int | None) -> Group:
    """The cells of an architecture file; its runners-up as well, if some are asked for."""
    cells = architecture_table(content, every=every)
    return Group(cells, *(others_table(content, runners_up) if runners_up else ()))


def architecture_table(content: Mapping[str, Any], *, every: bool = False) -> Table:
    """The kept operations of an architecture file, or every candidate, with what is known of each.

    A space without cells has its choices summed up, unless every candidate is asked for.
    """
    found = Architecture.from_json(content)
    sure = read(content, "probabilities", dict[str, Numbers])
    strong = read(content, "strengths", dict[str, dict[str, Numbers]])
    if not every and not any(map(parse, found.options)):
        return table("", COLUMNS, [(*row[:4], share(row[4])) for row in edges(found, sure)])
    words = quantities(strong)
    odd = {(one.choice, one.kept): one for one in against_odds(found.options, sure)}
    rows = [
        (*place(one), certainty(one, odd.get((one.choice, one.option)), mark=every))
        + tuple(compact(one.strength[q]) if q in one.strength else "" for q in words)
        for one in candidates(found, sure, strong)
        if every or one.kept
    ]
    return table("", (*COLUMNS, *words.values()), rows)


def place(one: Candidate) -> tuple[str, str, str, str]:
    """Cell, state and source of a candidate, and its operation."""
    cell, source, state = parse(one.choice) or (one.choice, "", "")
    return cell or "cell", state, source, one.option


def certainty(one: Candidate, odd: AgainstOdds | None, *, mark: bool) -> str:
    """How likely a candidate is, whether it is kept, and what is likelier where something is."""
    kept = " ✓" if mark and one.kept else ""
    likelier = f" ({odd.likelier}: {share(odd.likelier_probability)})" if odd else ""
    return share(one.probability) + kept + likelier


def share(probability: float | None) -> str:
    """A probability, if it is known."""
    return "" if probability is None else f"{probability:.0%}"


def compact(value: float) -> str:
    """Three digits, in few columns."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def others_table(content: Mapping[str, Any], count: int) -> tuple[str, str, str, Table]:
    """The likeliest other architectures, how likely each is, and in what it differs."""
    found = list(others(content.get("runners_up"), Architecture.from_json(content)))[:count]
    if not found:
        raise ArdorError(
            "the architecture file holds no runners-up",
            "new searches write them, if their method is a posterior over architectures: vinnas is",
        )
    rows = [(one.likelihood, one.share, Group(*one.apart)) for one in found]
    columns = ("beside the one found", "probability", "differs in")
    said = verdict(number(content.get("probability")), found)
    return "", said, "", table("", columns, rows)


def read(content: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Numbers in an architecture file by choice and option; an ArdorError if they are not."""
    try:
        return TypeAdapter(kind).validate_python(content.get(name, {}))
    except ValidationError as error:
        raise ArdorError(
            f"{name} of the architecture must be numbers, by choice and option",
            "put back the architecture.json that the search wrote",
        ) from error
