"""The picture of an architecture: its cells as graphs, or a list if its space has no cells."""

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from ardor.architecture import Architecture, Choice, Probabilities
from ardor.reporting.cells import Cell, Edge, cells, order, summary
from ardor.reporting.format import FAMILIES, operation, percent
from ardor.reporting.layout import FONT, HEAD, SMALL, Line, Plan, Spot, lay_out
from ardor.reporting.svg import add, clean, point, render, resize, stylesheet, svg, text_width

_MARGIN, _TITLE, _ROW = 20.0, 34.0, 26.0
_INK = "#57606a"  # for viewers that do not support the variables of the style sheet
# Families differ in dashes too, not only in colour.
_DASHES = {
    "dilated": "10 4",
    "conv": "14 4 2 4",
    "pool": "2 4",
    "skip": "6 4",
    "none": "1 7",
    "noise": "2 2 6 2",
}


def draw(
    architecture: Architecture,
    choices: Sequence[Choice],
    probabilities: Probabilities | None = None,
) -> str:
    """A standalone SVG of all cells, one below the other."""
    return render(picture(architecture, choices, probabilities))


def picture(
    architecture: Architecture,
    choices: Sequence[Choice],
    probabilities: Probabilities | None = None,
) -> Element:
    """The picture as an element, whose size can be read."""
    found = cells(architecture, choices, probabilities)
    root = svg(0, 0, _described(architecture, found))
    add(root, "style", stylesheet())
    if any(cell.edges for cell in found):
        width, height = _draw_cells(root, found)
    else:
        width, height = _draw_list(root, architecture.options, probabilities or {})
    resize(root, width + 2 * _MARGIN, height + _MARGIN)
    return root


def _described(architecture: Architecture, found: list[Cell]) -> str:
    parts = [f"{cell.title.lower()} with {len(cell.edges)} operations" for cell in found]
    return f"Architecture of space {architecture.space}: " + (", ".join(parts) or "list of choices")


def _draw_cells(root: Element, found: list[Cell]) -> tuple[float, float]:
    width, y = 0.0, _MARGIN
    for cell in found:
        group = add(root, "g", transform=f"translate({point(_MARGIN)},{point(y)})", class_="cell")
        add(group, "text", cell.title, class_="title", x=0.0, y=FONT, font_size=FONT + 2)
        inner = add(group, "g", transform=f"translate(0,{point(_TITLE)})")
        plan = lay_out(cell, label)
        _draw_plan(inner, cell, plan)
        width, y = max(width, plan.width), y + _TITLE + plan.height + _MARGIN
    width = max(width, 520.0)
    return width, y + _draw_legend(root, found, width, y)


def label(edge: Edge) -> str:
    """The text on an edge: "sep conv 3×3 · 71 %"."""
    words = operation(edge.operation)
    return words if edge.probability is None else f"{words} · {percent(edge.probability)}"


def _draw_plan(group: Element, cell: Cell, plan: Plan) -> None:
    # The surest last, so that they are on top where lines cross.
    for line in sorted(plan.lines, key=lambda line: (line.edge is not None, _certainty(line.edge))):
        _draw_line(group, cell, line)
    for name, spot in plan.nodes.items():
        _draw_node(group, cell, name, spot)


def _certainty(edge: Edge | None) -> float:
    """The probability of an edge in [0, 1]; 0.5 if unknown."""
    chance = edge.probability if edge else None
    return 0.5 if chance is None else min(1.0, max(0.0, chance))


def _draw_line(parent: Element, cell: Cell, line: Line) -> None:
    kind = line.edge.family if line.edge else "concat"
    group = add(parent, "g", class_=f"edge {kind}" if line.edge else "concat")
    sure = _certainty(line.edge)
    stroke = 1.5 + 3.5 * sure if line.edge else 1.25
    drawn = add(group, "path", d=line.path, class_="line", fill="none", stroke=_INK)
    drawn.set("stroke-width", point(stroke))
    if line.edge:
        drawn.set("stroke-opacity", point(0.55 + 0.45 * sure))
        drawn.set("stroke-dasharray", _DASHES.get(kind, "none"))
    (x, y), half = line.tip, 2.5 + stroke / 2
    head = f"M{point(x)},{point(y)} l{-HEAD},{point(-half)} v{point(2 * half)}Z"
    add(group, "path", d=head, class_="head", fill=_INK)
    if line.edge and line.label:
        _draw_label(group, cell, line.edge, line.label)


def _draw_label(group: Element, cell: Cell, edge: Edge, spot: Spot) -> None:
    group.set("data-choice", clean(edge.choice))
    group.set("data-operation", clean(edge.operation))
    add(group, "title", _tooltip(cell, edge))
    x, y = spot.x - spot.width / 2, spot.y - spot.height / 2
    pill = add(group, "rect", class_="pill", x=x, y=y, width=spot.width, height=spot.height)
    for name, value in (("rx", "12"), ("fill", "#fff"), ("stroke", _INK)):
        pill.set(name, value)
    pill.set("stroke-width", "1.5")
    _write(group, label(edge), spot.x, spot.y + 4.5, FONT)


def _tooltip(cell: Cell, edge: Edge) -> str:
    """All candidates of the edge, the likeliest first."""
    head = f"{cell.word(edge.source)} → {cell.word(edge.target)}: {label(edge)}"
    ranked = sorted(edge.candidates.items(), key=lambda pair: -pair[1])
    lines = [
        f"{'✓' if name in edge.kept else '–'} {operation(name)} {percent(p, 1)}"
        for name, p in ranked
    ]
    return "\n".join([head, *lines])


def _draw_node(parent: Element, cell: Cell, name: str, spot: Spot) -> None:
    group = add(parent, "g", data_node=name)
    caption = cell.caption(name)
    kind = "node" if caption else "node state"
    add(group, "title", f"{cell.word(name)}: {caption or f'state {name}, the sum of what enters'}")
    add(
        group, "rect", class_=kind, fill="#fff", stroke=_INK, rx=10.0 if caption else 18.0,
        x=spot.x - spot.width / 2, y=spot.y - spot.height / 2, width=spot.width, height=spot.height,
        stroke_width=1.5,
    )  # fmt: skip
    _write(group, cell.word(name), spot.x, spot.y + (-2.0 if caption else 5.0), FONT, "title")
    if caption:
        _write(group, caption, spot.x, spot.y + 13, SMALL, "soft")


def _write(
    parent: Element, words: str, x: float, y: float, size: float, kind: str = "text"
) -> None:
    add(parent, "text", words, class_=kind, x=x, y=y, font_size=size, text_anchor="middle")


def _draw_legend(root: Element, found: list[Cell], width: float, y: float) -> float:
    """Draws the families that occur, wrapped to the width; returns the height."""
    edges = [edge for cell in found for edge in cell.edges]
    present = {edge.family for edge in edges}
    x, row = _MARGIN, y + 12
    for kind in filter(present.__contains__, FAMILIES):
        room = 44 + text_width(FAMILIES[kind], 12) + 18
        if x + room > width + _MARGIN and x > _MARGIN:
            x, row = _MARGIN, row + 22
        group = add(root, "g", class_=kind)
        path = f"M{point(x)},{point(row - 4)} h36"
        line = add(group, "path", d=path, class_="line", fill="none", stroke=_INK)
        line.set("stroke-width", "3")
        line.set("stroke-dasharray", _DASHES.get(kind, "none"))
        add(group, "text", FAMILIES[kind], x=x + 44, y=row, font_size=12.0, class_="soft")
        x += room
    if any(edge.candidates for edge in edges):
        row += 22
        words = "Percentages are posterior probabilities; a wider line is a surer one."
        add(root, "text", words, x=_MARGIN, y=row, font_size=12.0, class_="soft")
    return row - y + 4


def _draw_list(
    root: Element, options: Mapping[str, tuple[str, ...]], known: Probabilities
) -> tuple[float, float]:
    """Choice and kept options, line by line."""
    rows = [("choice", "kept")]
    rows += [(name, summary(options[name], known.get(name))) for name in sorted(options, key=order)]
    split = _MARGIN + max(text_width(name, FONT) for name, _ in rows) + 24
    for index, (name, kept) in enumerate(rows):
        y = _MARGIN + _ROW * index
        kind = "text" if index else "title"
        group = add(root, "g", class_="row")
        add(group, "text", name, class_=kind, x=_MARGIN, y=y + FONT, font_size=FONT)
        add(group, "text", kept, class_=kind, x=split, y=y + FONT, font_size=FONT)
        add(
            group,
            "title",
            f"{name}: {', '.join(options.get(name, ()))}" if index else "kept options",
        )
    width = split - _MARGIN + max(text_width(kept, FONT) for _, kept in rows)
    for index in range(len(rows)):
        y = _MARGIN + _ROW * index + 19.5
        add(
            root,
            "path",
            d=f"M{point(_MARGIN)},{point(y)} h{point(width)}",
            class_="rule",
            stroke="#ccc",
        )
    return width, _MARGIN + _ROW * len(rows)
