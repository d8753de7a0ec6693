"""The pruning curve as a picture: accuracy against the parameters that remain."""

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
    """A point of the curve."""

    threshold: float
    params: float
    accuracy: float
    macs: float | None = None  # multiply-adds for an image; older files do not have them

    @property
    def words(self) -> str:
        """The threshold, for reading."""
        return "nothing leaves" if self.threshold >= NOTHING else f"{self.threshold:g}"


def networks(content: Mapping[str, Any]) -> list[Network]:
    """The points in curve.json, smallest first, without invalid ones."""
    rows = content.get("points")
    found = []
    for row in rows if isinstance(rows, list) else []:
        values = row if isinstance(row, Mapping) else {}
        threshold, params, accuracy, macs = (
            number(values.get(key)) for key in ("threshold", "params", "accuracy", "macs")
        )
        if threshold is not None and params is not None and accuracy is not None and params >= 1:
            found.append(Network(threshold, params, accuracy, macs))
    return sorted(found, key=lambda network: (network.params, network.threshold))


def chart(found: Sequence[Network], taken: float | None) -> str:
    """An SVG; the point with the threshold `taken` is emphasised."""
    least, most = found[0], found[-1]
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
    path = "M" + " L".join(f"{point(x)},{point(y)}" for x, y in places)
    add(group, "path", d=path, class_="line", stroke_width=2.0)
    for network, (x, y) in zip(found, places, strict=True):
        own = taken is not None and abs(network.threshold - taken) < _SAME
        place = add(root, "g", class_="second") if own else group
        dot = add(place, "circle", class_="head", cx=x, cy=y, r=6.0 if own else 3.0)
        words = f"{percent(network.accuracy, 1)} with {count(network.params)} parameters, threshold"
        add(dot, "title", f"{words} {network.words}" + (", taken" if own else ""))
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
