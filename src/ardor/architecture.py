"""Choices and architectures: plain values, and their JSON. Standard library only."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from reprlib import repr as short
from typing import Any, Literal, TypeVar, get_args

from ardor.errors import ArdorError

FORMAT = 1
MANY = 33  # numbered options are written as ranges from so many on: the channels of a layer
Decisions = tuple[
    tuple[str, tuple[str, ...]], ...
]  # the kept options of some choices, by their names
Options = Mapping[str, tuple[str, ...]]  # choice -> its kept options
Probabilities = Mapping[str, Mapping[str, float]]  # choice -> option -> probability
FellWith = Mapping[str, Mapping[str, str]]  # choice -> option -> the choice that it fell with
# The sorts of operations; "none" is no connection at all, "other" fits no other sort.
Family = Literal["conv", "separable", "dilated", "pool", "skip", "none", "noise", "other"]
FAMILIES: tuple[Family, ...] = get_args(Family)
Kind = Literal["op", "edge", "width"]
MOST_OPTIONS = 2**20  # of a choice in a file: far more channels than any layer has
T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """A part of a net in which choices are made: a cell, all cells of a kind, or the whole net."""

    name: str = ""  # "normal3"; different for every place of a space
    kind: str = ""  # "normal": the same for places that are built alike
    title: str = "cell"  # "normal cell 3", for people
    shrinks: bool = False  # whether it halves the image: pools are normal there
    joins: bool = False  # whether it reads two cells and outputs all its nodes, not only the last
    complete: bool = False  # whether nothing reaches a node but by the choices that lead there


@dataclass(frozen=True)
class Choice:
    """One decision of a space; never with a single option, which would have no gradient."""

    name: str  # "normal/0>2": key of gates, checkpoints and reports; no dots
    kind: Kind
    options: tuple[str, ...]  # in gate order; those of a width are numbers
    copies: int = 1  # places in the net that share it, e.g. the six normal cells
    place: Place = Place()
    source: int | None = None  # the node that it reads; None for choices of inputs and widths
    target: int | None = None  # the node that it leads to
    families: tuple[Family, ...] = ()  # of the options, in their order; () if unknown
    # The choice, and the option of it, that it stands in: it leaves with that option.
    inside: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if "." in self.name or len(set(self.options)) < 2 or self.copies < 1:
            raise ValueError(
                f"no choice {self.name!r}: it must have two options, a copy, and no dot in its name"
            )
        if self.families and len(self.families) != len(self.options):
            raise ValueError(f"choice {self.name!r} must have a family for each option")
        # Links run forward, or a drawing would have no left and right.
        if self.source is not None and (self.target is None or self.source >= self.target):
            raise ValueError(f"choice {self.name!r} must lead to a later node than it reads")

    def family(self, option: str) -> Family:
        """The family of an option; "other" if it has none."""
        if not self.families or option not in self.options:
            return "other"
        return self.families[self.options.index(option)]

    def is_reached(self, kept: Options) -> bool:
        """Whether the option that it stands in is kept; what is around that is not asked."""
        return self.inside is None or self.inside[1] in kept.get(self.inside[0], ())


@dataclass(frozen=True)
class Architecture:
    """A point of a space: the space's name and settings, and the kept options of every choice."""

    space: str
    settings: tuple[tuple[str, Any], ...]
    kept: Decisions

    @classmethod
    def of(
        cls, space: str, settings: Mapping[str, Any], kept: Mapping[str, tuple[str, ...]]
    ) -> "Architecture":
        """An architecture from mappings; lists become tuples, so that it can be hashed."""
        frozen = tuple((key, _frozen(value)) for key, value in sorted(settings.items()))
        return cls(space, frozen, tuple((key, tuple(kept[key])) for key in sorted(kept)))

    @cached_property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        """Choice name -> kept options."""
        return dict(self.kept)

    def to_json(self) -> dict[str, Any]:
        """The content of `architecture.json`."""
        return {
            "format": FORMAT,
            "space": self.space,
            "settings": dict(self.settings),
            "kept": {name: written(options) for name, options in self.kept},
        }

    @classmethod
    def from_json(cls, content: Any) -> "Architecture":
        """The architecture that `to_json` wrote; an ArdorError if it is anything else."""
        if not isinstance(content, Mapping):
            raise not_one(f"it is {content!r}")
        try:
            if content["format"] != FORMAT:
                raise ArdorError(
                    f"architecture format {content['format']!r}; this version reads {FORMAT}",
                    "use the version of Ardor that wrote the file",
                )
            kept = {name: _options(kept) for name, kept in content["kept"].items()}
            return cls.of(str(content["space"]), dict(content["settings"]), kept)
        except KeyError as error:
            raise not_one(f"it has no {error}") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise not_one("'kept' and 'settings' must be objects, with lists of options") from error

    def __str__(self) -> str:
        return json.dumps(self.to_json(), sort_keys=True)


def written(options: tuple[str, ...]) -> list[str] | str:
    """Kept options as files have them: a list, or ranges of many numbers, such as "0-31,40"."""
    numbers = [int(name) for name in options if name.isdecimal() and name.isascii()]
    if len(options) < MANY or tuple(map(str, sorted(set(numbers)))) != options:
        return list(options)
    ends = [n for n, after in zip(numbers, [*numbers[1:], None], strict=True) if n + 1 != after]
    starts = [n for n, before in zip(numbers, [None, *numbers], strict=False) if n - 1 != before]
    pairs = zip(starts, ends, strict=True)
    return ",".join(str(start) if start == end else f"{start}-{end}" for start, end in pairs)


def _options(kept: Any) -> tuple[str, ...]:
    """The kept options of a choice; a TypeError or ValueError unless they are as `written`."""
    if isinstance(kept, str):
        return tuple(map(str, _ranges(kept)))
    if not isinstance(kept, (list, tuple)) or not all(isinstance(name, str) for name in kept):
        raise TypeError(f"{short(kept)} is no list of options")
    return tuple(kept)


def _ranges(written: str) -> list[int]:
    """The numbers of "0-31,40"; a ValueError unless they rise."""
    found: list[int] = []
    for part in written.split(","):
        first, dash, last = part.partition("-")
        start, end = int(first), int(last if dash else first)
        if not (found[-1] if found else -1) < start <= end < MOST_OPTIONS:
            raise ValueError(f"no range of options: {part}")
        found += range(start, end + 1)
    return found


def not_one(reason: str) -> ArdorError:
    """The error for a file that holds no architecture."""
    return ArdorError(
        f"not an architecture: {reason}",
        "an architecture file is what 'ardor search' writes as architecture.json",
    )


def choices_to_json(choices: Iterable[Choice]) -> list[dict[str, Any]]:
    """The entry "choices" of architecture files; of widths only the number of options."""
    return [
        {
            **asdict(c),
            "options": len(c.options) if c.kind == "width" else list(c.options),
            "families": list(c.families),
        }
        for c in choices
    ]


def choices_from_json(content: Any) -> tuple[Choice, ...]:
    """The choices that `choices_to_json` wrote; an ArdorError if they are anything else."""
    try:
        found = tuple(map(_choice, _typed(content, list)))
    except KeyError as error:
        raise _no_choices(f"one has no {error}") from error
    except (TypeError, ValueError) as error:
        raise _no_choices(str(error)) from error
    if len({choice.name for choice in found}) < len(found):
        raise _no_choices("two have the same name")
    check_inside(found)
    return found


def check_inside(choices: Iterable[Choice]) -> None:
    """An ArdorError unless each choice stands in none, or in an option of one before it."""
    before: dict[str, tuple[str, ...]] = {}
    for choice in choices:
        outer, option = choice.inside or ("", "")
        if choice.inside is not None and option not in before.get(outer, ()):
            raise _no_choices(f"{short(choice.name)} stands in no option of a choice before it")
        before[choice.name] = choice.options


def _choice(entry: Any) -> Choice:
    """One choice of a file; a TypeError, ValueError or KeyError if it is none."""
    kind = _one_of(entry["kind"], get_args(Kind))
    options = _numbers(entry["options"]) if kind == "width" else _options(entry["options"])
    source, target = (_typed(entry[name], int, type(None)) for name in ("source", "target"))
    families = tuple(_one_of(family, FAMILIES) for family in _options(entry["families"]))
    name, copies, place = _typed(entry["name"], str), _typed(entry["copies"], int), entry["place"]
    place, inside = _place(place), _inside(entry.get("inside"))
    return Choice(name, kind, options, copies, place, source, target, families, inside)


def _inside(entry: Any) -> tuple[str, str] | None:
    """The choice and option that a choice of a file stands in; none in older files."""
    if entry is None:
        return None
    outer, option = _options(entry)
    return outer, option


def _place(entry: Any) -> Place:
    """The place of a choice in a file."""
    name, kind, title = (_typed(entry[key], str) for key in ("name", "kind", "title"))
    shrinks, joins = (_typed(entry[key], bool) for key in ("shrinks", "joins"))
    complete = _typed(entry.get("complete", False), bool)  # older files do not say it
    return Place(name, kind, title, shrinks, joins, complete)


def _numbers(count: Any) -> tuple[str, ...]:
    """The options of a width of so many channels."""
    if _typed(count, int) > MOST_OPTIONS:
        raise ValueError(f"{count} options; must be at most {MOST_OPTIONS}")
    return tuple(map(str, range(count)))


def _typed(value: Any, *types: type[T]) -> T:
    """The value, if its type is exactly one of these: True is not an int here."""
    if type(value) not in types:
        raise TypeError(f"{short(value)} is no {types[0].__name__}")
    return value  # type: ignore[no-any-return]


def _one_of(value: Any, known: tuple[T, ...]) -> T:
    """The value, if it is known."""
    if value not in known:
        raise ValueError(f"{short(value)} must be one of {', '.join(map(str, known))}")
    return value  # type: ignore[no-any-return]


def _no_choices(reason: str) -> ArdorError:
    """The error for choices in a file that are not valid."""
    return ArdorError(
        f"the choices of the architecture are broken: {reason}",
        "put back the architecture.json that the search wrote",
    )


def certainty(kept: Options, probabilities: Probabilities) -> float:
    """The mean probability of the kept options; 0 if none is known."""
    known = [
        probabilities[choice][option]
        for choice, options in kept.items()
        for option in options
        if option in probabilities.get(choice, {})
    ]
    return sum(known) / len(known) if known else 0.0


@dataclass(frozen=True)
class AgainstOdds:
    """A kept option that the posterior holds less likely than one that was left out."""

    choice: str
    kept: str
    probability: float
    likelier: str
    likelier_probability: float


def against_odds(
    choices: Iterable[Choice], kept: Options, probabilities: Probabilities
) -> list[AgainstOdds]:
    """The kept options that are less likely than one left out, by the method's own posterior.

    "none" is never counted as the likelier one: most rules leave it out of the comparison.
    """
    found = []
    for choice in choices:
        options, shares = kept.get(choice.name, ()), probabilities.get(choice.name, {})
        taken = set(options)
        nothing = {o for o, f in zip(choice.options, choice.families, strict=False) if f == "none"}
        others = {o: p for o, p in shares.items() if o not in taken and o not in nothing}
        likelier = max(others, key=others.__getitem__, default="")
        found += [
            AgainstOdds(choice.name, option, shares[option], likelier, others[likelier])
            for option in options
            if likelier and option in shares and shares[option] < others[likelier]
        ]
    return found


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
