"""Runners-up in words: the likeliest other architectures, and in what they differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ardor.architecture import Architecture, Choice
from ardor.reporting.cells import order, told_by_operations
from ardor.reporting.format import number, operation, percent, scientific


@dataclass(frozen=True)
class Other:
    """An architecture that was not taken."""

    times: float  # how many times as likely as the one taken
    error: float  # of the times, one standard error
    probability: float | None
    apart: tuple[str, ...]  # the decisions that differ

    @property
    def likelihood(self) -> str:
        """How many times as likely as the one found, in words."""
        times = f"{self.times:,.0f}" if 100 <= self.times < 1e4 else scientific(self.times)
        spread = f" ± {scientific(float(f'{self.error:.1g}'))}" if self.error else ""
        return f"{times}{spread} times as likely"

    @property
    def likelier(self) -> bool:
        """Whether it is likelier than the one found by more than two standard errors."""
        return self.times - 2 * self.error > 1

    @property
    def share(self) -> str:
        """Its probability in words."""
        return _share(self.probability)


def others(content: Any, taken: Architecture, choices: Sequence[Choice]) -> Iterator[Other]:
    """The valid entries of "runners_up" in an architecture file."""
    for entry in content if isinstance(content, list) else ():
        if not isinstance(entry, Mapping):
            continue
        times, kept = number(entry.get("times_as_likely")), entry.get("kept")
        if times is not None and times >= 0 and isinstance(kept, Mapping):
            error = abs(number(entry.get("standard_error")) or 0.0)
            share = number(entry.get("probability"))
            yield Other(times, error, share, tuple(apart(kept, taken, choices)))


def apart(kept: Mapping[str, Any], taken: Architecture, choices: Sequence[Choice]) -> Iterator[str]:
    """Every decision in which it differs from the architecture taken, in words."""
    named = {str(name): options for name, options in kept.items() if isinstance(options, list)}
    links = {choice.name: choice for choice in choices if choice.source is not None}
    for name in sorted(named.keys() - told_by_operations(choices), key=order):
        options, instead = list(map(str, named[name])), taken.options.get(name, ())
        if set(options) != set(instead):
            where = between(links[name]) if name in links else name
            yield f"{where}: {_all(options)}, not {_all(instead)}"


def between(link: Choice) -> str:
    """The place of an operation: "normal 0 → 2"."""
    return f"{link.place.name} {link.source} → {link.target}".strip()


def verdict(probability: float | None, found: Sequence[Other]) -> str:
    """How likely the one found is, and whether it is the likeliest."""
    likelier = sum(other.likelier for other in found)
    own = "" if probability is None else f", with a probability of {_share(probability)}"
    if not likelier:
        tied = any(other.times > 1 for other in found)
        place = "among the likeliest" if tied else "the likeliest"
        return f"The architecture found is {place}{own}."
    verb = "is" if likelier == 1 else "are"
    return (
        f"{likelier} of these {verb} likelier than the architecture found{own}: "
        "it was decided by more than the strength of its operations."
    )


def _share(probability: float | None) -> str:
    if probability is None:
        return ""
    return percent(probability, 1) if probability >= 0.001 else scientific(probability)


def _all(options: Sequence[str]) -> str:
    return " and ".join(map(operation, options)) or "nothing"
