"""The curve of pruning, or of compression, as a picture: accuracy against the parameters left."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from ardor.reporting.charts import nice_ticks, write
from ardor.reporting.format import count, number, percent, short
from ardor.reporting.svg import add, point, render, svg
from ardor.settings.sections import NOTHING

_WIDTH, _HEIGHT = 560.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 16.0, 34.0, 44.0
_STEPS = (1, 2, 5)  # of a tick, in each power of ten
_SAME = 1e-9  # thresholds that differ by less are equal


@dataclass(frozen=True)
class Network:
    """A point of the curve: of a threshold, or of a cycle in which groups have left."""

    threshold: float | None
    params: float
    accuracy: float
    macs: float | None = None  # multiply-adds for an image; older files do not have them
    cycle: int = 0

    @property
    def words(self) -> str:
        """The threshold or the cycle, for reading."""
        if self.threshold is None:
            return f"cycle {self.cycle}" if self.cycle else "the whole network"
        return "nothing leaves" if self.threshold >= NOTHING else f"{self.threshold:g}"

    @property
    def described(self) -> str:
        """What it has, and where it is from."""
        name = self.words if self.threshold is None else f"threshold {self.words}"
        return f"{percent(self.accuracy, 1)} with {count(self.params)} parameters, {name}"


def networks(content: Mapping[str, Any]) -> list[Network]:
    """The points in curve.json, without invalid ones: cycles in order, else the smallest first."""
    rows = content.get("points")
    found = [
        network
        for cycle, row in enumerate(rows if isinstance(rows, list) else [])
        if isinstance(row, Mapping) and (network := _network(row, cycle))
    ]
    if any(network.threshold is None for network in found):
        return found
    return sorted(found, key=lambda network: (network.params, network.threshold or 0.0))


def _network(row: Mapping[str, Any], cycle: int) -> Network | None:
    """A point of the curve; None if it is not valid."""
    params, accuracy, macs, threshold = (
        number(row.get(key)) for key in ("params", "accuracy", "macs", "threshold")
    )
    strange = threshold is None and "threshold" in row
    if params is None or params < 1 or accuracy is None or strange:
        return None
    return Network(threshold, params, accuracy, macs, cycle)


def taken(found: Sequence[Network], metrics: Mapping[str, Any]) -> Network | None:
    """The network that was taken: that of the threshold, or the last one of the final size."""
    threshold, params = number(metrics.get("threshold")), number(metrics.get("nonzero_params"))
    if threshold is not None:
        return next((n for n in found if same(n.threshold, threshold)), None)
    if not params or any(network.threshold is not None for network in found):
        return None
    # What is left learns on, and a few more weights may have become zero.
    return min(reversed(found), key=lambda n: abs(math.log(n.params / params)), default=None)


def way(found: Sequence[Network], taken: Network | None) -> list[Network]:
    """The networks that led to the one taken: no later cycle began with a larger one."""
    if any(network.threshold is not None for network in found):
        return list(found)
    cycles = found[: found.index(taken) + 1] if taken else found
    led: list[Network] = []
    for network in reversed(cycles):
        if not led or network.params >= led[0].params:
            led.insert(0, network)
    return led


def same(one: float | None, other: float) -> bool:
    """Whether two thresholds are equal."""
    return one is not None and abs(one - other) < _SAME


def chart(found: Sequence[Network], taken: Network | None) -> str:
    """An SVG; the network that was taken is emphasised."""
    least, most = (end(found, key=lambda network: network.params) for end in (min, max))
    root = svg(
        _WIDTH,
        _HEIGHT,
        f"accuracy by parameters: {percent(least.accuracy, 1)} with {count(least.params)}, "
        f"{percent(most.accuracy, 1)} with {count(most.params)}",
    )
    title = "Accuracy by parameters that are not zero"
    add(root, "text", title, class_="title", x=8.0, y=16.0, font_size=13.0)
    levels = nice_ticks(min(n.accuracy for n in found), max(n.accuracy for n in found))
    sizes = log_ticks(least.params, most.params)
    _draw_axes(root, levels, sizes)
    places = [(_x(n.params, sizes), _y(n.accuracy, levels)) for n in found]
    group = add(root, "g", class_="first")
    stayed = way(found, taken)
    line = [place for network, place in zip(found, places, strict=True) if network in stayed]
    path = "M" + " L".join(f"{point(x)},{point(y)}" for x, y in line)
    add(group, "path", d=path, class_="line", stroke_width=2.0)
    for network, (x, y) in zip(found, places, strict=True):
        own = network is taken
        place = add(root, "g", class_="second") if own else group
        dot = add(place, "circle", class_="head", cx=x, cy=y, r=6.0 if own else 3.0)
        more = ", taken" if own else "" if network in stayed else ", given up again"
        add(dot, "title", network.described + more)
    return render(root)


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten that enclose the range."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    ticks = [step * 10.0**power for power in powers for step in _STEPS]
    first = max(i for i, tick in enumerate(ticks) if tick <= low * (1 + _SAME))
    last = min(i for i, tick in enumerate(ticks) if tick >= high * (1 - _SAME))
    return ticks[first : max(last, first + 1) + 1]


def _x(params: float, ticks: Sequence[float]) -> float:
    share = math.log(params / ticks[0]) / math.log(ticks[-1] / ticks[0])
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(accuracy: float, ticks: Sequence[float]) -> float:
    share = (accuracy - ticks[0]) / (ticks[-1] - ticks[0])
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _draw_axes(root: Element, levels: Sequence[float], sizes: Sequence[float]) -> None:
    bottom = _HEIGHT - _BOTTOM
    for level in levels:
        y = _y(level, levels)
        across = f"M{point(_LEFT)},{point(y)} H{point(_WIDTH - _RIGHT)}"
        add(root, "path", d=across, class_="rule")
        write(root, f"{100 * level:.4g} %", _LEFT - 6, y + 4, "end")
    for size in sizes:
        x = _x(size, sizes)
        add(root, "path", d=f"M{point(x)},{point(bottom)} v4", class_="rule")
        write(root, short(size), x, bottom + 17, "middle")
    write(root, "parameters", (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, "middle")
