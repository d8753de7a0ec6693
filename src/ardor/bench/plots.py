"""Plots of benches: which lines, in which panels."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ardor.bench.panels import Panel, Scale, Series, figure
from ardor.reporting.format import number

ACROSS = 4  # panels side by side
WIDER = 3  # where a panel has many lines
APART = 0.02  # between contenders at the same time, of the width of a panel: bars would overlap


def closeness(accuracy: float) -> float:
    """Minus the logarithm of the error: near 100 percent a point counts more."""
    return -math.log(max(100.0 - accuracy, 5.0))  # no cell of the benchmark reaches 95 %


SHARES = Scale((0.0, 0.25, 0.5, 0.75, 1.0), label="{:.0%}".format)
ACCURACIES = Scale((0.0, 50.0, 80.0, 90.0, 93.0, 95.0), place=closeness)


def plots(result: Mapping[str, Any]) -> dict[str, str]:
    """Name -> SVG: what a bench's result shows epoch by epoch, or against time."""
    if result.get("measure") == "truth":
        # A search that decides only at its end has nothing to draw.
        worth = [run for run in series(result["runs"], "epochs", "test_accuracy") if run["points"]]
        return {"accuracy": accuracy(worth)} if worth else {}
    if result.get("measure") == "rivals":
        return {"accuracy": rivals(result["table"])}
    followed = result.get("measure") in ("searches", "followed")
    return {"collapse": collapse(result["runs"])} if followed else {}


def accuracy(runs: Series) -> str:
    """A panel for each method: the accuracy of its cells epoch by epoch, on one scale for all."""
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        by_method.setdefault(run["method"], []).append(run)
    panels = [
        Panel(method, own, "epoch", "true test accuracy, %", ACCURACIES)
        for method, own in by_method.items()
    ]
    return figure([panels[at : at + ACROSS] for at in range(0, len(panels), ACROSS)])


def collapse(runs: Sequence[Mapping[str, Any]]) -> str:
    """Panels by space or length: what is kept without anything to learn, and the curvature below.

    The rows of the runs are named after method and panel, "darts-s1".
    """
    spaces: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        method, _, space = run["method"].rpartition("-")
        spaces.setdefault(space.upper(), []).append({**run, "method": method})
    by_space = sorted(spaces.items())
    words = "skips or noise, of all kept"
    kept = {space: series(own, "seen", "skip_share", "noise_share") for space, own in by_space}
    bend = {space: series(own, "seen", "curvature") for space, own in by_space}
    return figure(
        [
            [Panel(space, own, "epoch", words, SHARES) for space, own in kept.items()],
            [Panel(space, own, "epoch", "curvature") for space, own in bend.items()],
        ]
    )


def rivals(table: Sequence[Mapping[str, Any]]) -> str:
    """A panel for each set of images: the accuracy of each contender against its time."""
    sets: dict[str, list[Mapping[str, Any]]] = {}
    for row in table:
        sets.setdefault(row["images"], []).append(row)
    names = list(dict.fromkeys(row["contender"] for row in table))
    panels = [contest(images, rows, names) for images, rows in sets.items()]
    return figure([panels[at : at + WIDER] for at in range(0, len(panels), WIDER)])


def contest(images: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Panel:
    """The panel of a set: contenders side by side at each time, in percent with their intervals."""
    times = sorted({row["minutes"] for row in rows})
    step = APART * (times[-1] - times[0] or 1.0)
    lines = []
    for at, name in enumerate(names):
        own = sorted((r for r in rows if r["contender"] == name), key=lambda r: r["minutes"])
        across = [r["minutes"] + step * (at - (len(names) - 1) / 2) for r in own]
        middles, halves = ([100 * r[key] for r in own] for key in ("accuracy", "interval"))
        ends = [(max(0.0, m - h), min(100.0, m + h)) for m, h in zip(middles, halves, strict=True)]
        points = list(zip(across, middles, strict=True))
        intervals = [(x, *both) for x, both in zip(across, ends, strict=True)]
        lines.append({"method": name, "points": points, "intervals": intervals})
    return Panel(images, lines, "CPU minutes", "test accuracy, %", x_ticks=times)


def series(runs: Sequence[Mapping[str, Any]], under: str, *keys: str) -> list[dict[str, Any]]:
    """Each run with the sum of its values under some keys, epoch by epoch, where it is a number."""
    found = []
    for run in runs:
        points = []
        for epoch in run[under]:
            values = [v for key in keys if (v := number(epoch.get(key, 0.0))) is not None]
            if len(values) == len(keys):
                points.append((epoch["epoch"], sum(values)))
        found.append({"method": run["method"], "seed": run["seed"], "points": points})
    return found
