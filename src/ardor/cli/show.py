"""The output of 'ardor show': the cells of an architecture, certainties, and runners-up."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import FiniteFloat, TypeAdapter, ValidationError
from rich.console import Group
from rich.table import Table

from ardor.architecture import (
    AgainstOdds,
    Architecture,
    Choice,
    FellWith,
    against_odds,
    choices_from_json,
)
from ardor.cli.tables import layers_table, table
from ardor.errors import ArdorError
from ardor.reporting import table as edges
from ardor.reporting.cells import leads_to, told_by_operations
from ardor.reporting.compression import sentences
from ardor.reporting.fallen import fallen, pruned
from ardor.reporting.format import number, said
from ardor.reporting.read import read as read_run
from ardor.reporting.runners_up import others, verdict
from ardor.reporting.strengths import Candidate, Strengths, candidates, quantities

T = TypeVar("T")
Numbers = dict[str, FiniteFloat]
COLUMNS = ("cell", "state", "from", "operation", "certainty")
HEADS = {"probability before": "before"}  # beside "certainty", in a table of 80 columns
NO_ROOM = "s"  # a strength for which 80 columns are too few: that something fell tells the same


def shown(content: Mapping[str, Any], *, every: bool, runners_up: int | None) -> Group:
    """The cells of an architecture file, and `runners_up` others if it is not None."""
    choices = choices_of(content)
    if not choices and not content.get("kept"):
        name = said(str(content.get("space")))
        return Group(f"{name} is a network: nothing in it was chosen")
    cells = architecture_table(content, choices, every=every)
    lost = pruned(
        Architecture.from_json(content), choices, strengths_of(content), fell_with(content)
    )
    return Group(
        cells,
        *(("", f"pruned: {lost.words}") if lost else ()),
        *(others_table(content, choices, runners_up) if runners_up else ()),
    )


def smaller(run: Path) -> list[str | Table]:
    """What a run that made a network smaller has left of it, and of each of its layers."""
    if not (run / "layers.json").exists():
        return []
    found = read_run(run)
    return ["", *sentences(found.metrics, found.config), "", layers_table(found.layers)]


def choices_of(content: Mapping[str, Any]) -> Sequence[Choice]:
    """The choices of an architecture file; if an older one has none, those of its space.

    There are none if the space is a module that may not be imported.
    """
    found = Architecture.from_json(content)
    if "choices" in content:
        return choices_from_json(content["choices"])
    from ardor import spaces

    try:
        return spaces.of(found).choices
    except ArdorError:
        return ()


def architecture_table(
    content: Mapping[str, Any], choices: Sequence[Choice], *, every: bool
) -> Table:
    """The kept operations of an architecture file, or every candidate, with their certainties.

    For a space without cells choices are summarised, unless `every` candidate is shown.
    """
    found = Architecture.from_json(content)
    sure = read(content, "probabilities", dict[str, Numbers])
    strong, fell = strengths_of(content), fallen(found, choices, fell_with(content))
    told = told_by_operations(choices)
    links = {c.name: c for c in choices if c.source is not None or c.name in told}
    if not every and not links:
        listed = edges(found, choices, sure)
        return table("", COLUMNS, [(*row[:4], share(row[4])) for row in listed])
    words = {key: word for key, word in quantities(strong).items() if key != NO_ROOM}
    inner = leads_to(choices)
    odd = {(one.choice, one.kept): one for one in against_odds(choices, found.options, sure)}
    channels = {choice.name: choice for choice in choices if choice.kind == "width"}
    hidden = {*channels, *told}
    rows = [
        (
            *place(one, links.get(one.choice), inner.get((one.choice, one.option))),
            certainty(one, odd.get((one.choice, one.option)), mark=every),
        )
        + tuple(compact(one.strength[q]) if q in one.strength else "" for q in words)
        for one in candidates(found, choices, sure, strong, fell)
        if every or (one.kept and one.choice not in hidden)
    ]
    rows += [] if every else widths(found, list(channels.values()), len(words))
    return table("", (*COLUMNS, *(HEADS.get(word, word) for word in words.values())), rows)


def widths(found: Architecture, channels: Sequence[Choice], more: int) -> list[tuple[str, ...]]:
    """A row for each choice of channels of which some have left, with as many empty columns."""
    return [
        (choice.name, "", "", f"{len(kept)} of {len(choice.options)}", *[""] * (1 + more))
        for choice in channels
        if len(kept := found.options.get(choice.name, ())) < len(choice.options)
    ]


def place(one: Candidate, link: Choice | None, inner: int | None) -> tuple[str, str, str, str]:
    """Cell, state and source of a candidate, and its operation; an option of inputs is an edge.

    `inner` is a state on the way, where other choices begin inside the option.
    """
    if link is None:
        return one.choice, "", "", one.option
    edge = link.source is None
    source, what = (one.option, "edge") if edge else (str(link.source), one.option)
    state = link.target if inner is None else inner
    return link.place.name or "cell", str(state), source, what


def certainty(one: Candidate, odd: AgainstOdds | None, *, mark: bool) -> str:
    """How likely a candidate is, whether it is kept or fell, and a likelier one if there is any."""
    kept = " ✓" if mark and one.kept else " fell" if one.fell else ""
    likelier = f" ({odd.likelier}: {share(odd.likelier_probability)})" if odd else ""
    return share(one.probability) + kept + likelier


def share(probability: float | None) -> str:
    """A probability, if it is known."""
    return "" if probability is None else f"{probability:.0%}"


def compact(value: float) -> str:
    """A number in few characters: three digits, two of a small one."""
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.2g}"


def others_table(
    content: Mapping[str, Any], choices: Sequence[Choice], count: int
) -> tuple[str, str, str, Table]:
    """The likeliest other architectures, how likely each is, and in what it differs."""
    taken = Architecture.from_json(content)
    found = list(others(content.get("runners_up"), taken, choices))[:count]
    if not found:
        raise ArdorError(
            "the architecture file holds no runners-up",
            "new searches write them, if their method is a posterior over architectures: vinnas is",
        )
    rows = [(one.likelihood, one.share, Group(*one.apart)) for one in found]
    columns = ("beside the one found", "probability", "differs in")
    summary = verdict(number(content.get("probability")), found)
    return "", summary, "", table("", columns, rows)


def strengths_of(content: Mapping[str, Any]) -> Strengths:
    """The strengths in an architecture file."""
    return read(content, "strengths", dict[str, dict[str, Numbers]])


def fell_with(content: Mapping[str, Any]) -> FellWith:
    """What fell with what, in an architecture file."""
    return read(content, "fell_with", dict[str, dict[str, str]], "names of choices")


def read(content: Mapping[str, Any], name: str, kind: type[T], what: str = "numbers") -> T:
    """What an architecture file has by choice and option; an ArdorError if it is anything else."""
    try:
        return TypeAdapter(kind).validate_python(content.get(name, {}))
    except ValidationError as error:
        raise ArdorError(
            f"{name} of the architecture must be {what}, by choice and option",
            "put back the architecture.json that the search wrote",
        ) from error
