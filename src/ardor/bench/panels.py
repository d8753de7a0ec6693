"""Panels of a plot as SVG: a line for each run, coloured and dashed by method, under a legend."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from ardor.reporting.charts import nice_ticks
from ardor.reporting.format import short
from ardor.reporting.svg import add, point, render, svg, text_width

# A run: its "method", its "seed" if it is one of several, and its "points", (x, y) each; perhaps
# "intervals", (x, low, high) each, around points that are then dots.
Series = Sequence[Mapping[str, Any]]

WIDTH, HEIGHT = 300.0, 200.0  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 64.0, 14.0, 30.0, 44.0
LEGEND, GAP = 22.0, 20.0  # the height of a line of it, and the room between two names
INK, SOFT, RULE, PAPER = "#1b1f24", "#57606a", "#d0d7de", "#ffffff"
FONT = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"
# Seven of the colours of Okabe and Ito, which the colour-blind can tell apart; and five dashes.
# As 5 and 7 have no divisor in common, 35 methods differ in one or the other.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
DASHES = ("none", "7 3", "2 2", "9 3 2 3", "12 4")


@dataclass(frozen=True)
class Scale:
    """The division of an axis: at given ticks, or at round numbers."""

    ticks: Sequence[float] = ()
    place: Callable[[float], float] = float  # grows with the value
    label: Callable[[float], str] = short


PLAIN = Scale()


@dataclass(frozen=True)
class Panel:
    """One pair of axes and the lines between them."""

    title: str
    series: Series
    x: str
    y: str
    scale: Scale = PLAIN
    x_ticks: Sequence[float] = ()  # instead of round numbers


@dataclass(frozen=True)
class Axes:
    """The positions of values in a panel."""

    xs: tuple[float, float]
    ticks: Sequence[float]  # of the values, from the least to the largest
    scale: Scale
    given: Sequence[float] = ()  # ticks across
    right: float = WIDTH - RIGHT
    bottom: float = HEIGHT - BOTTOM

    @classmethod
    def of(cls, panel: Panel) -> "Axes":
        """The axes that hold all of a panel's points."""
        points = [p for run in panel.series for p in run["points"]] or [(0, 0.0), (1, 1.0)]
        xs, ys = zip(*points, strict=True)
        ends = [
            end for run in panel.series for _, *both in run.get("intervals", ()) for end in both
        ]
        values = [*ys, *ends]
        ticks = panel.scale.ticks or nice_ticks(min(values), max(values))
        return cls((min(xs), max(xs)), ticks, panel.scale, panel.x_ticks)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point."""
        first, last = self.xs
        low, value, high = map(self.scale.place, (self.ticks[0], y, self.ticks[-1]))
        across = (x - first) / (last - first) if last > first else 0.5
        return (
            LEFT + across * (self.right - LEFT),
            self.bottom - (value - low) / (high - low) * (self.bottom - TOP),
        )

    def x_ticks(self) -> Sequence[float]:
        """Round numbers between the ends, whole ones if there are two; else the first end."""
        if self.given:
            return self.given
        first, last = self.xs
        inside = [tick for tick in nice_ticks(first, last) if first <= tick <= last]
        whole = [tick for tick in inside if tick == round(tick)]
        return whole if len(whole) > 1 else inside or [first]


def figure(rows: Sequence[Sequence[Panel]]) -> str:
    """Panels in rows, under one legend where a panel has lines of several methods."""
    panels = [[run["method"] for run in panel.series] for row in rows for panel in row]
    styles = styles_of(method for panel in panels for method in panel)
    width = WIDTH * max(map(len, rows))
    several = any(len(set(panel)) > 1 for panel in panels)
    names = list(legend(styles, width)) if several else []
    top = names[-1][2] + LEGEND if names else 0.0
    height = top + HEIGHT * len(rows)
    root = svg(width, height, described(rows, list(styles)))
    root.set("font-family", FONT)
    add(root, "rect", fill=PAPER, x=0.0, y=0.0, width=width, height=height)
    for name, x, y in names:
        draw_line(root, f"M{point(x)},{point(y + 11)} h28", styles[name])
        write(root, name, x + 34, y + 15, "start", INK)
    for line, row in enumerate(rows):
        for column, panel in enumerate(row):
            place = f"translate({point(column * WIDTH)},{point(top + line * HEIGHT)})"
            draw_panel(add(root, "g", transform=place), panel, styles)
    return render(root)


def styles_of(methods: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Method -> colour and dash, in the order in which they come."""
    names = dict.fromkeys(methods)
    return {n: (COLOURS[k % len(COLOURS)], DASHES[k % len(DASHES)]) for k, n in enumerate(names)}


def legend(names: Iterable[str], width: float) -> Iterator[tuple[str, float, float]]:
    """Each name and where it stands, in as many lines as it takes."""
    x, y = LEFT, 4.0
    for name in names:
        room = 34 + text_width(name, 12)
        if x > LEFT and x + room > width:
            x, y = LEFT, y + LEGEND
        yield name, x, y
        x += room + GAP


def described(rows: Sequence[Sequence[Panel]], methods: Sequence[str]) -> str:
    """The description for screen readers."""
    panels = [" ".join(filter(None, [panel.title, panel.y])) for row in rows for panel in row]
    return f"{'; '.join(panels)} by {rows[0][0].x}, for {', '.join(methods)}"


def draw_panel(group: Element, panel: Panel, styles: Mapping[str, tuple[str, str]]) -> None:
    """Axes, then a line for each run, with its intervals."""
    axes = Axes.of(panel)
    draw_axes(group, panel, axes)
    for run in panel.series:
        places = [axes.at(x, y) for x, y in run["points"]]
        if places:
            path = "M" + " L".join(f"{point(x)},{point(y)}" for x, y in places)
            line = draw_line(group, path, styles[run["method"]])
            seed = f", seed {run['seed']}" if "seed" in run else ""
            add(line, "title", f"{run['method']}{seed}")
        if intervals := run.get("intervals"):
            draw_intervals(group, axes, intervals, places, styles[run["method"]][0])


def draw_intervals(
    group: Element,
    axes: Axes,
    intervals: Sequence[tuple[float, float, float]],
    places: Sequence[tuple[float, float]],
    colour: str,
) -> None:
    """A bar through each point, which is a dot."""
    for (x, low, high), (across, middle) in zip(intervals, places, strict=True):
        ends = [axes.at(x, end)[1] for end in (low, high)]
        path = f"M{point(across)},{point(ends[0])} V{point(ends[1])}"
        add(group, "path", d=path, stroke=colour, stroke_width=1.2)
        add(group, "circle", cx=across, cy=middle, r=2.8, fill=colour)


def draw_axes(group: Element, panel: Panel, axes: Axes) -> None:
    """Rules, ticks and their labels."""
    bottom, middle = axes.bottom, (LEFT + axes.right) / 2
    for tick in axes.ticks:
        y = axes.at(axes.xs[0], tick)[1]
        add(group, "path", d=f"M{point(LEFT)},{point(y)} H{point(axes.right)}", stroke=RULE)
        write(group, panel.scale.label(tick), LEFT - 6, y + 4, "end")
    for tick in axes.x_ticks():
        x = axes.at(tick, axes.ticks[0])[0]
        add(group, "path", d=f"M{point(x)},{point(bottom)} v4", stroke=SOFT)
        write(group, short(tick), x, bottom + 17, "middle")
    write(group, panel.x, middle, bottom + BOTTOM - 10, "middle")
    write(group, panel.title, middle, 18.0, "middle", INK)
    side = write(group, panel.y, 0.0, 0.0, "middle")
    side.set("transform", f"translate(14,{point((TOP + bottom) / 2)}) rotate(-90)")


def draw_line(parent: Element, path: str, style: tuple[str, str]) -> Element:
    """A line in the colour and dash of its method."""
    colour, dash = style
    dress = {"fill": "none", "stroke": colour, "stroke_dasharray": dash}
    return add(parent, "path", d=path, stroke_width=1.6, stroke_linejoin="round", **dress)


def write(parent: Element, words: str, x: float, y: float, anchor: str, ink: str = SOFT) -> Element:
    """A text element."""
    return add(parent, "text", words, x=x, y=y, fill=ink, font_size=12.0, text_anchor=anchor)
