"""How sure the posterior is: every candidate of every choice, its probability and strength."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ardor.architecture import Architecture, Probabilities, parse
from ardor.reporting.cells import Cell, cells, order
from ardor.reporting.format import operation, percent, short
from ardor.reporting.svg import add, render, svg

Strengths = Mapping[str, Mapping[str, Mapping[str, float]]]  # choice -> option -> quantity

_WORDS = {"snr": "SNR"}
_MANY = 12  # candidates; more than that are drawn as a strip, without a column of their own


@dataclass(frozen=True)
class Bar:
    """One candidate of one choice."""

    share: float
    words: str
    kept: bool


@dataclass(frozen=True)
class Bars:
    """Choices of one place that share their candidates: a row each, a column for each candidate."""

    title: str
    columns: list[str]
    rows: list[tuple[str, list[Bar | None]]]


@dataclass(frozen=True)
class Candidate:
    """An option of a choice, and all that is known of it."""

    choice: str
    option: str
    kept: bool
    probability: float | None
    strength: Mapping[str, float]  # by quantity; empty where it has left, or there is none


@dataclass(frozen=True)
class Strengthened:
    """The candidates of a cell, edge by edge, with a column for each quantity."""

    title: str
    columns: list[str]
    edges: Mapping[str, list[tuple[str, bool, list[str]]]]  # name -> operation, kept, numbers


@dataclass(frozen=True)
class Strip:
    """A choice with too many candidates for a table."""

    name: str
    words: str
    picture: str


def bars(architecture: Architecture, probabilities: Probabilities) -> Iterator[Bars]:
    """Tables of the choices with few candidates."""
    found = {cell.place: cell for cell in cells(architecture, probabilities)}
    groups: dict[tuple[str, str], list[str]] = {}
    for choice in _sorted(probabilities):
        if 0 < len(probabilities[choice]) <= _MANY:
            groups.setdefault(_group(choice, found), []).append(choice)
    for (title, _), choices in groups.items():
        yield _bars(title, choices, architecture, probabilities, found)


def strips(architecture: Architecture, probabilities: Probabilities) -> Iterator[Strip]:
    """Small pictures of the choices with many candidates, such as channels."""
    for choice in _sorted(probabilities):
        if len(probabilities[choice]) > _MANY:
            kept = architecture.options.get(choice, ())
            picture = _strip(choice, probabilities[choice], kept)
            words = f"{len(kept)} of {len(probabilities[choice])} kept"
            yield Strip(choice, words, picture)


def candidates(
    architecture: Architecture, probabilities: Probabilities, strengths: Strengths
) -> Iterator[Candidate]:
    """Every candidate of every choice but those of inputs, which follow from the operations."""
    for choice in _sorted({**architecture.options, **probabilities, **strengths}):
        parsed = parse(choice)
        if parsed and not parsed[1]:
            continue
        kept, shares = architecture.options.get(choice, ()), probabilities.get(choice, {})
        known = strengths.get(choice, {})
        for option in dict.fromkeys([*shares, *known, *kept]):
            yield Candidate(
                choice, option, option in kept, shares.get(option), known.get(option, {})
            )


def quantities(strengths: Strengths) -> dict[str, str]:
    """What strengths are given in, each in words."""
    found = dict.fromkeys(q for options in strengths.values() for s in options.values() for q in s)
    return {quantity: _WORDS.get(quantity, quantity) for quantity in found}


def strength_tables(
    architecture: Architecture, probabilities: Probabilities, strengths: Strengths
) -> Iterator[Strengthened]:
    """A table for each cell, with the candidates of each of its edges."""
    found = {cell.place: cell for cell in cells(architecture, probabilities)}
    tables: dict[str, dict[str, list[tuple[str, bool, list[str]]]]] = {}
    for one in candidates(architecture, probabilities, strengths):
        if one.choice in strengths:
            numbers = [one.strength.get(quantity) for quantity in quantities(strengths)]
            said = ["" if x is None else short(x) for x in numbers]
            said.append("" if one.probability is None else percent(one.probability, 1))
            edges = tables.setdefault(_group(one.choice, found)[0], {})
            rows = edges.setdefault(_row_name(one.choice, found), [])
            rows.append((operation(one.option), one.kept, said))
    columns = [*quantities(strengths).values(), "probability"]
    return (Strengthened(title, columns, edges) for title, edges in tables.items())


def taken_out(epochs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """After which epoch of the search what was taken out of the supernet."""
    for entry in epochs:
        left, options = entry.get("left"), dict[str, list[str]]()
        for name in left if isinstance(left, list) else ():
            choice, _, option = str(name).rpartition(": ")
            options.setdefault(choice, []).append(operation(option))
        if options:
            yield int(entry["epoch"]), "; ".join(f"{c}: {', '.join(o)}" for c, o in options.items())


def _sorted(choices: Iterable[str]) -> list[str]:
    def key(choice: str) -> tuple[object, ...]:
        place, source, target = parse(choice) or (choice, "", "-1")
        return (order(place), int(target), int(source or -1), choice)

    return sorted(choices, key=key)


def _group(choice: str, found: Mapping[str, Cell]) -> tuple[str, str]:
    parsed = parse(choice)
    if not parsed:
        return "Other choices", ""
    cell = found.get(parsed[0])
    title = cell.title if cell else f"Cell {parsed[0]}"
    return (f"{title}: operation", "op") if parsed[1] else (f"{title}: inputs of a node", "edge")


def _bars(
    title: str,
    choices: list[str],
    architecture: Architecture,
    probabilities: Probabilities,
    found: Mapping[str, Cell],
) -> Bars:
    columns = list(dict.fromkeys(option for c in choices for option in probabilities[c]))
    rows = []
    for choice in choices:
        kept, options = architecture.options.get(choice, ()), probabilities[choice]
        row = [
            Bar(min(1.0, max(0.0, options[name])), percent(options[name]), name in kept)
            if name in options
            else None
            for name in columns
        ]
        rows.append((_row_name(choice, found), row))
    parsed = parse(choices[0])
    cell = found.get(parsed[0]) if parsed and not parsed[1] else None
    return Bars(title, [cell.word(c) if cell else operation(c) for c in columns], rows)


def _row_name(choice: str, found: Mapping[str, Cell]) -> str:
    parsed = parse(choice)
    cell = found.get(parsed[0]) if parsed else None
    if not parsed or not cell:
        return choice
    _, source, target = parsed
    return f"{cell.word(source)} → {cell.word(target)}" if source else f"into {cell.word(target)}"


def _strip(choice: str, options: Mapping[str, float], kept: tuple[str, ...]) -> str:
    """A thin bar for each candidate, in gate order; those kept are underlined."""
    step = max(2.0, min(10.0, 640 / len(options)))
    root = svg(step * len(options), 38, f"{choice}: {len(kept)} of {len(options)} kept")
    for index, (name, share) in enumerate(options.items()):
        height = 1 + 31 * min(1.0, max(0.0, share))
        kind, x = "share kept" if name in kept else "share", step * index
        bar = add(root, "rect", class_=kind, x=x, y=33 - height, width=step * 0.8, height=height)
        note = ", kept" if name in kept else ""
        add(bar, "title", f"{operation(name)}: {percent(share, 1)}{note}")
        if name in kept:
            add(root, "rect", class_=kind, x=x, y=35.0, width=step, height=3.0)
    return render(root)
