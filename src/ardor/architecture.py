"""Choices and architectures: plain values, and their JSON. Standard library only."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from ardor.errors import ArdorError

FORMAT = 1
Decisions = tuple[
    tuple[str, tuple[str, ...]], ...
]  # the kept options of some choices, by their names
Options = Mapping[str, tuple[str, ...]]  # choice -> its kept options
Probabilities = Mapping[str, Mapping[str, float]]  # choice -> option -> probability
# The sorts of operations; "none" is no connection at all, "other" what none of them fits.
Family = Literal["conv", "separable", "dilated", "pool", "skip", "none", "noise", "other"]
FAMILIES: tuple[Family, ...] = get_args(Family)

# Families of operations by what their names hold, in this order: "dil_sep_conv_3x3" is dilated.
_SIGNS = (
    ("none", ("none", "zero")),
    ("dilated", ("dil",)),
    ("separable", ("sep", "depthwise", "dw_")),
    ("pool", ("pool",)),
    ("skip", ("skip", "identity")),
    ("conv", ("conv",)),
)
_LINK = re.compile(r"(?:(?P<place>.+)/)?(?P<source>\d*)>(?P<target>\d+)")


@dataclass(frozen=True)
class Place:
    """A part of a net in which choices are made: a cell, all cells of a kind, or the whole net."""

    name: str = ""  # "normal3"; different for every place of a space
    kind: str = ""  # "normal": the same for places that are built alike
    title: str = "cell"  # "normal cell 3", for people
    shrinks: bool = False  # whether it halves the image, where pools are to be expected


@dataclass(frozen=True)
class Choice:
    """One decision of a space; never with a single option, which would have no gradient."""

    name: str  # "normal/0>2": key of gates, checkpoints and reports; no dots
    kind: Literal["op", "edge", "width"]
    options: tuple[str, ...]  # in gate order
    copies: int = 1  # places in the net that share it, e.g. the six normal cells
    place: Place = Place()
    source: int | None = None  # the node that it reads; None where inputs or widths are chosen
    target: int | None = None  # the node that it leads to; links run forward
    families: tuple[str, ...] = ()  # of the options, in their order; () where that says nothing

    def __post_init__(self) -> None:
        if "." in self.name or len(set(self.options)) < 2 or self.copies < 1:
            raise ValueError(f"not a choice: {self}")


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
        """From mappings, with lists made tuples so that the value can be hashed."""
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
            "kept": {name: list(options) for name, options in self.kept},
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


def _options(kept: Any) -> tuple[str, ...]:
    """The kept options of a choice; a TypeError unless they are a list of names."""
    if not isinstance(kept, (list, tuple)) or not all(isinstance(name, str) for name in kept):
        raise TypeError(f"not a list of options: {kept!r}")
    return tuple(kept)


def not_one(reason: str) -> ArdorError:
    """The error for a file that holds no architecture."""
    return ArdorError(
        f"not an architecture: {reason}",
        "an architecture file is what 'ardor search' writes as architecture.json",
    )


def parse(choice: str) -> tuple[str, str, str] | None:
    """Place, source and target; source is "" where inputs are chosen; None for other names."""
    match = _LINK.fullmatch(choice)
    if not match:
        return None
    place, source, target = match["place"] or "", match["source"], match["target"]
    # Links run forward, or a drawing would have no left and right.
    return None if source and int(source) >= int(target) else (place, source, target)


def kind_of(place: str) -> str:
    """What cells of a kind have in common: "normal" of "normal3"."""
    return place.rstrip("0123456789")


def cell_name(place: str) -> str:
    """What a place is called: "normal3" is "normal cell 3"."""
    kind = kind_of(place)
    word = {"normal": "normal cell", "reduce": "reduction cell"}.get(kind)
    return f"{word} {place[len(kind) :]}".strip() if word else f"cell {place}".strip()


def family(operation: str) -> str:
    """The sort that an operation belongs to, by its name; "other" where that does not tell."""
    name = operation.lower()
    return next((key for key, signs in _SIGNS if any(s in name for s in signs)), "other")


def certainty(kept: Options, probabilities: Probabilities) -> float:
    """The mean probability of what is kept; 0 where nothing is known of it."""
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


def against_odds(kept: Options, probabilities: Probabilities) -> list[AgainstOdds]:
    """Where the rule of a method keeps what its own posterior calls unlikely.

    No connection at all is never the likelier one: most rules leave it out of the comparison.
    """
    found = []
    for choice, options in kept.items():
        shares = probabilities.get(choice, {})
        others = {o: p for o, p in shares.items() if o not in options and family(o) != "none"}
        likelier = max(others, key=others.__getitem__, default="")
        found += [
            AgainstOdds(choice, option, shares[option], likelier, others[likelier])
            for option in options
            if likelier and option in shares and shares[option] < others[likelier]
        ]
    return found


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
