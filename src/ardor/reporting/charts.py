"""Charts of a search or a training: one small line chart for each logged term."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from ardor.architecture import Choice
from ardor.reporting.format import number, percent, short, term
from ardor.reporting.svg import add, point, render, svg, text_width

Points = list[tuple[int, float]]

_WIDTH, _HEIGHT = 360.0, 216.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 12.0, 48.0, 40.0
_FIRST = ("accuracy", "nll", "certainty", "loss")
_SHARES = ("accuracy", "certainty", "ece", "skip_share", "pool_share", "none_share")
_CELLS = 2  # kinds of cells with a line of their own
_DOTS = 80


def charts(epochs: Sequence[Mapping[str, Any]], choices: Sequence[Choice] = ()) -> list[str]:
    """An SVG for each term of a stage: the most important first, penalties last."""
    series = _series(epochs, {choice.place.name: choice.place.title for choice in choices})
    names = sorted(series, key=lambda name: (*(name != first for first in _FIRST), name))
    return [chart(name, series[name]) for name in names]


def chart(name: str, lines: Mapping[str, Points]) -> str:
    """One chart; a line for each of "training images" and "held-out images"."""
    root = svg(_WIDTH, _HEIGHT, _described(name, lines))
    title = term(name)
    add(root, "text", title[:1].upper() + title[1:], class_="title", x=8.0, y=16.0, font_size=13.0)
    every = [p for points in lines.values() for p in points]
    x_range = (min(e for e, _ in every), max(e for e, _ in every))
    ticks = nice_ticks(min(v for _, v in every), max(v for _, v in every))
    _draw_axes(root, name, ticks, x_range)
    for index, (label, points) in enumerate(lines.items()):
        _draw_series(root, name, label, _placed(points, ticks, x_range), points, index)
    _draw_legend(root, list(lines))
    return render(root)


def nice_ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Round numbers that enclose the range."""
    span = high - low
    if span <= 1e-9 * max(abs(low), abs(high)):  # a flat line
        span = abs(high) / 2 or 1.0
    raw = span / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * k for k in range(first, max(last, first + 1) + 1)]


def _series(
    epochs: Sequence[Mapping[str, Any]], titles: Mapping[str, str]
) -> dict[str, dict[str, Points]]:
    """Term -> line -> (epoch, value), without values that are not finite numbers."""
    series: dict[str, dict[str, Points]] = {}
    for entry in epochs:
        groups = {
            "training images": entry.get("train"),
            "held-out images": entry.get("held_out"),
            "posterior": {"certainty": entry.get("certainty")},
            **_watched(entry.get("watch"), titles),
        }
        for label, terms in groups.items():
            for name, raw in terms.items() if isinstance(terms, Mapping) else ():
                if (value := number(raw)) is not None:
                    points = series.setdefault(str(name), {}).setdefault(label, [])
                    points.append((int(entry["epoch"]), value))
    return series


def _watched(watch: Any, titles: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """Figures of the collapse monitor: for each kind of cell, or for all if there are many."""
    if not isinstance(watch, Mapping):
        return {}
    cells = watch.get("cells")
    if not isinstance(cells, Mapping) or len(cells) > _CELLS:
        return {"all cells": watch}
    kinds = {titles.get(str(place), str(place)): seen for place, seen in cells.items()}
    return {"mean gates": {"curvature": watch.get("curvature")}, **kinds}


def _described(name: str, lines: Mapping[str, Points]) -> str:
    ends = [
        f"{label} from {_say(name, p[0][1])} to {_say(name, p[-1][1])}"
        for label, p in lines.items()
    ]
    return f"{term(name)} by epoch: {'; '.join(ends)}"


def _say(name: str, value: float) -> str:
    return percent(value, 1) if name in _SHARES else short(value)


def _placed(
    points: Points, ticks: list[float], x_range: tuple[int, int]
) -> list[tuple[float, float]]:
    return [(_x(epoch, x_range), _y(value, ticks)) for epoch, value in points]


def _x(epoch: float, x_range: tuple[int, int]) -> float:
    first, last = x_range
    share = (epoch - first) / (last - first) if last > first else 0.5
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, ticks: list[float]) -> float:
    share = (value - ticks[0]) / (ticks[-1] - ticks[0])
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _draw_axes(root: Element, name: str, ticks: list[float], x_range: tuple[int, int]) -> None:
    for tick in ticks:
        y = _y(tick, ticks)
        across = f"M{point(_LEFT)},{point(y)} H{point(_WIDTH - _RIGHT)}"
        add(root, "path", d=across, class_="rule")
        words = f"{100 * tick:.4g} %" if name in _SHARES else short(tick)
        write(root, words, _LEFT - 6, y + 4, "end")
    bottom = _HEIGHT - _BOTTOM
    epochs = sorted(
        {round(t) for t in nice_ticks(*x_range) if x_range[0] <= round(t) <= x_range[1]}
    )
    for epoch in epochs or [x_range[0]]:
        x = _x(epoch, x_range)
        add(root, "path", d=f"M{point(x)},{point(bottom)} v4", class_="rule")
        write(root, str(epoch), x, bottom + 17, "middle")
    write(root, "epoch", (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, "middle")


def write(root: Element, words: str, x: float, y: float, anchor: str) -> None:
    """A word at an axis."""
    add(root, "text", words, class_="soft", x=x, y=y, font_size=11.0, text_anchor=anchor)


def _draw_series(
    root: Element,
    name: str,
    label: str,
    places: Sequence[tuple[float, float]],
    points: Points,
    index: int,
) -> None:
    group = add(root, "g", class_="first" if index == 0 else "second")
    path = "M" + " L".join(f"{point(x)},{point(y)}" for x, y in places)
    add(group, "path", d=path, class_="line", stroke_width=2.0, stroke_dasharray=_dash(index))
    every = math.ceil(len(points) / _DOTS)
    for (x, y), (epoch, value) in list(zip(places, points, strict=True))[::-every]:
        alone = "head" if len(points) == 1 else "dot"
        dot = add(group, "circle", class_=alone, cx=x, cy=y, r=5.0)
        add(dot, "title", f"epoch {epoch}, {label}: {_say(name, value)}")


def _draw_legend(root: Element, labels: list[str]) -> None:
    x = 8.0
    for index, label in enumerate(labels):
        group = add(root, "g", class_="first" if index == 0 else "second")
        add(
            group,
            "path",
            d=f"M{point(x)},30 h22",
            class_="line",
            stroke_width=2.0,
            stroke_dasharray=_dash(index),
        )
        add(group, "text", label, class_="soft", x=x + 27, y=34.0, font_size=11.0)
        x += 27 + text_width(label, 11) + 16


def _dash(index: int) -> str:
    """The dashes of a line: held-out lines are dashed, not only of another colour."""
    return "6 3" if index else "none"
