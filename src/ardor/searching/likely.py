"""The posterior in plain numbers by name: probabilities, strengths, runners-up.

If a posterior decides each state of a cell independently, the probability of an architecture is the
product over states, each estimated from counts of draws. Products also cover architectures of a
large space that are too unlikely to be drawn even once.
"""

import heapq
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ardor.architecture import Architecture, Decisions
from ardor.bayes import Gates
from ardor.methods import Method
from ardor.spaces import mean_score

DRAWS = 20_000
RUNNERS_UP = 20
LARGEST = 700.0  # a larger exponent would overflow a float


@dataclass(frozen=True)
class Likely:
    """An architecture, and how likely it is, also compared with the one found."""

    architecture: Architecture
    log_probability: float  # as the probability of many states can be too small for a float
    log_times: float = 0.0  # log of how many times as likely as the one found
    log_error: float = 0.0  # standard error of that, from the number of draws

    @property
    def probability(self) -> float:
        """Its share of the posterior."""
        return rounded(math.exp(self.log_probability))

    @property
    def times_as_likely(self) -> float:
        """How many times as likely it is as the one found."""
        return rounded(math.exp(min(LARGEST, self.log_times)))

    @property
    def standard_error(self) -> float:
        """Of the times, by how often each decision was drawn."""
        return rounded(self.times_as_likely * self.log_error)


def probabilities(method: Method) -> dict[str, dict[str, float]]:
    """Choice -> option -> probability; without widths, which may have thousands of options."""
    return named(method, method.probabilities())


def widths(method: Method) -> dict[str, float]:
    """Width choice -> the expected number of channels that are kept."""
    names = {choice.name for choice in method.choices("width")}
    shares = method.probabilities()
    return {name: rounded(sum(mean_score(shares[name]))) for name in shares if name in names}


def strengths(method: Method) -> dict[str, dict[str, dict[str, float]]]:
    """Choice -> option -> quantity -> its value to six digits; without removed options."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for quantity, gates in method.strengths().items():
        for choice, options in named(method, gates).items():
            for option, value in options.items():
                if math.isfinite(value):
                    of_option = found.setdefault(choice, {}).setdefault(option, {})
                    of_option[quantity] = rounded(value)
    return found


def named(method: Method, gates: Gates) -> dict[str, dict[str, float]]:
    """Choice -> option -> number; without widths."""
    options = {choice.name: choice.options for choice in method.choices("op", "edge")}
    return {
        name: dict(zip(options[name], mean_score(gate), strict=True))
        for name, gate in gates.items()
        if name in options
    }


def rounded(value: float) -> float:
    """A number to six digits, to keep files short."""
    return float(f"{value:.6g}")


def without(
    names: Collection[str], counts: Sequence[Counter[Decisions]]
) -> list[Counter[Decisions]]:
    """The counts of the other choices alone."""
    if not names:
        return [*counts]
    found = []
    for count in counts:
        others: Counter[Decisions] = Counter()
        for decisions, times in count.items():
            others[tuple(pair for pair in decisions if pair[0] not in names)] += times
        found.append(others)
    return [others for others in found if any(others)]


def likeliest(
    found: Architecture, counts: Sequence[Counter[Decisions]], count: int = RUNNERS_UP
) -> tuple[Likely, ...]:
    """The found architecture, then the likeliest others, from counts of draws; () without counts.

    The found one counts as one more draw: a method that selects by more than strength may find one
    that was never drawn, and it would else be impossible. The others keep the same as the found one
    in choices that are not counted.
    """
    taken = [tuple((name, found.options[name]) for name, _ in next(iter(c))) for c in counts]
    states = [c + Counter([own]) for c, own in zip(counts, taken, strict=True)]
    own = _likely(found, states, taken, taken)
    others = (kept for kept in by_likelihood(states) if kept != taken)
    ranked = (_likely(found, states, kept, taken) for kept in islice(others, count))
    return (own, *ranked) if counts else ()


def _likely(
    found: Architecture,
    states: Sequence[Counter[Decisions]],
    kept: list[Decisions],
    taken: list[Decisions],
) -> Likely:
    """The architecture that keeps these options of each state, and its likelihood."""
    decided = {name: names for decision in kept for name, names in decision}
    options = {**found.options, **decided}
    drawn = [(s[mine], s[own]) for s, mine, own in zip(states, kept, taken, strict=True)]
    apart = [pair for pair, a, b in zip(drawn, kept, taken, strict=True) if a != b]
    return Likely(
        Architecture.of(found.space, dict(found.settings), options),
        sum(math.log(n / s.total()) for (n, _), s in zip(drawn, states, strict=True)),
        sum(math.log(n / own) for n, own in apart),
        math.sqrt(sum(1 / n + 1 / own for n, own in apart)),
    )


def by_likelihood(states: Sequence[Counter[Decisions]]) -> Iterator[list[Decisions]]:
    """Combinations of a decision for each state, the largest product of their counts first.

    Lazily, with a heap: the next best after a combination goes one step down in a single state.
    """
    orders = [sorted(state.items(), key=lambda pair: (-pair[1], pair[0])) for state in states]

    def entry(places: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        return -math.prod(o[at][1] for o, at in zip(orders, places, strict=True)), places

    first = (0,) * len(orders)
    waiting, seen = [entry(first)], {first}
    while waiting:
        _, places = heapq.heappop(waiting)
        yield [order[at][0] for order, at in zip(orders, places, strict=True)]
        for state, at in enumerate(places):
            down = (*places[:state], at + 1, *places[state + 1 :])
            if at + 1 < len(orders[state]) and down not in seen:
                seen.add(down)
                heapq.heappush(waiting, entry(down))
