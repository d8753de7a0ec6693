"""How sure the posterior is: every candidate of every choice, its probability and strength."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ardor.architecture import Architecture, Choice, Probabilities
from ardor.reporting.cells import Cell, cells, heading, order
from ardor.reporting.format import operation, percent
from ardor.reporting.svg import add, render, svg

_MANY = 12  # candidates: more are drawn as a strip, and not as columns of a table


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
class Strip:
    """A choice with too many candidates for a table."""

    name: str
    words: str
    picture: str


class Names:
    """The names of choices and of their nodes for people."""

    def __init__(
        self, architecture: Architecture, choices: Sequence[Choice], probabilities: Probabilities
    ) -> None:
        self.choices = {choice.name: choice for choice in choices}
        self.position = {name: at for at, name in enumerate(self.choices)}
        self.cells = {cell.place: cell for cell in cells(architecture, choices, probabilities)}

    def sorted(self, names: Iterable[str]) -> list[str]:
        """In the order of the network; unknown names come last."""
        return sorted(
            names, key=lambda name: (self.position.get(name, len(self.position)), order(name))
        )

    def linked(self, name: str) -> Choice | None:
        """The choice of that name, if it leads to a node."""
        choice = self.choices.get(name)
        return None if choice is None or choice.target is None else choice

    def cell(self, name: str) -> Cell | None:
        """The cell that a choice is made in."""
        choice = self.linked(name)
        return self.cells.get(choice.place) if choice else None

    def group(self, name: str) -> str:
        """The heading under which a choice is shown."""
        choice = self.linked(name)
        if not choice:
            return "Other choices"
        what = "inputs of a node" if choice.source is None else "operation"
        return f"{heading(choice.place)}: {what}"

    def row(self, name: str) -> str:
        """The name of a choice in its group."""
        choice, cell = self.linked(name), self.cell(name)
        if not choice or not cell:
            return name
        target = cell.word(str(choice.target))
        return (
            f"into {target}"
            if choice.source is None
            else f"{cell.word(str(choice.source))} → {target}"
        )

    def column(self, name: str, option: str) -> str:
        """The name of an option of a choice; for inputs that of the node."""
        choice, cell = self.linked(name), self.cell(name)
        inputs = choice and choice.source is None
        return cell.word(option) if cell and inputs else operation(option)


def bars(
    architecture: Architecture, choices: Sequence[Choice], probabilities: Probabilities
) -> Iterator[Bars]:
    """Tables of the choices with few candidates."""
    names = Names(architecture, choices, probabilities)
    groups: dict[str, list[str]] = {}
    for choice in names.sorted(probabilities):
        if 0 < len(probabilities[choice]) <= _MANY:
            groups.setdefault(names.group(choice), []).append(choice)
    for title, group in groups.items():
        yield _bars(title, group, architecture, probabilities, names)


def strips(
    architecture: Architecture, choices: Sequence[Choice], probabilities: Probabilities
) -> Iterator[Strip]:
    """Small pictures of the choices with many candidates, such as channels."""
    for choice in Names(architecture, choices, probabilities).sorted(probabilities):
        if len(probabilities[choice]) > _MANY:
            kept = architecture.options.get(choice, ())
            picture = _strip(choice, probabilities[choice], kept)
            words = f"{len(kept)} of {len(probabilities[choice])} kept"
            yield Strip(choice, words, picture)


def taken_out(epochs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """Epochs after which options left the supernet, with their names."""
    for entry in epochs:
        left, options = entry.get("left"), dict[str, list[str]]()
        for name in left if isinstance(left, list) else ():
            choice, _, option = str(name).rpartition(": ")
            options.setdefault(choice, []).append(operation(option))
        if options:
            yield int(entry["epoch"]), "; ".join(f"{c}: {', '.join(o)}" for c, o in options.items())


def _bars(
    title: str,
    choices: list[str],
    architecture: Architecture,
    probabilities: Probabilities,
    names: Names,
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
        rows.append((names.row(choice), row))
    return Bars(title, [names.column(choices[0], option) for option in columns], rows)


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
