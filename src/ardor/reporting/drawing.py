"""The picture of an architecture: its cells as graphs, or a list if its space has no cells."""

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from ardor.architecture import Architecture, Choice, FellWith, Probabilities
from ardor.reporting.cells import Cell, Edge, Fallen, cells, order, summary
from ardor.reporting.fallen import fallen
from ardor.reporting.format import operation, percent
from ardor.reporting.layout import FONT, HEAD, SMALL, Line, Plan, Spot, lay_out
from ardor.reporting.legend import DASHES, INK, MARGIN, THIN, dashed, legend
from ardor.reporting.svg import add, clean, point, render, resize, stylesheet, svg, text_width

_TITLE, _ROW = 34.0, 26.0
_NAMED = 2  # operations that fell between two nodes: more are counted


def draw(
    architecture: Architecture,
    choices: Sequence[Choice],
    probabilities: Probabilities | None = None,
    fell_with: FellWith | None = None,
) -> str:
    """A standalone SVG of all cells, one below the other."""
    return render(picture(architecture, choices, probabilities, fell_with))


def picture(
    architecture: Architecture,
    choices: Sequence[Choice],
    probabilities: Probabilities | None = None,
    fell_with: FellWith | None = None,
) -> Element:
    """The picture as an element, whose size can be read."""
    fell = fallen(architecture, choices, fell_with or {})
    found = cells(architecture, choices, probabilities, fell)
    root = svg(0, 0, _described(architecture, found))
    add(root, "style", stylesheet())
    if any(cell.links for cell in found):
        width, height = _draw_cells(root, found)
    else:
        width, height = _draw_list(root, architecture.options, probabilities or {})
    resize(root, width + 2 * MARGIN, height + MARGIN)
    return root


def _described(architecture: Architecture, found: list[Cell]) -> str:
    parts = [f"{cell.title.lower()} with {len(cell.edges)} operations" for cell in found]
    if fell := sum(len(edge.operations) for cell in found for edge in cell.fallen):
        parts.append(f"{fell} more that fell with what they depend on")
    return f"Architecture of space {architecture.space}: " + (", ".join(parts) or "list of choices")


def _draw_cells(root: Element, found: list[Cell]) -> tuple[float, float]:
    width, y = 0.0, MARGIN
    for cell in found:
        group = add(root, "g", transform=f"translate({point(MARGIN)},{point(y)})", class_="cell")
        add(group, "text", cell.title, class_="title", x=0.0, y=FONT, font_size=FONT + 2)
        inner = add(group, "g", transform=f"translate(0,{point(_TITLE)})")
        plan = lay_out(cell, label)
        _draw_plan(inner, cell, plan)
        width, y = max(width, plan.width), y + _TITLE + plan.height + MARGIN
    width = max(width, 520.0)
    return width, y + legend(root, found, width, y)


def label(edge: Edge | Fallen) -> str:
    """The text on an edge: "sep conv 3×3 · 71 %"; of what fell the names, or how many they are."""
    if isinstance(edge, Fallen):
        names = list(edge.operations)
        return ", ".join(map(operation, names)) if len(names) <= _NAMED else f"{len(names)} fell"
    words = operation(edge.operation)
    return words if edge.probability is None else f"{words} · {percent(edge.probability)}"


def _draw_plan(group: Element, cell: Cell, plan: Plan) -> None:
    # The surest last, so that they are on top where lines cross.
    for line in sorted(plan.lines, key=_rank):
        if isinstance(line.edge, Fallen):
            _draw_fallen(group, cell, line, line.edge)
        else:
            _draw_line(group, cell, line, line.edge)
    for name, spot in plan.nodes.items():
        _draw_node(group, cell, name, spot)


def _rank(line: Line) -> tuple[bool, float]:
    """The order in which lines are drawn: first what is no kept operation."""
    return (True, _certainty(line.edge)) if isinstance(line.edge, Edge) else (False, 0.0)


def _certainty(edge: Edge | None) -> float:
    """The probability of an edge in [0, 1]; 0.5 if unknown."""
    chance = edge.probability if edge else None
    return 0.5 if chance is None else min(1.0, max(0.0, chance))


def _draw_line(parent: Element, cell: Cell, line: Line, edge: Edge | None) -> None:
    kind = edge.family if edge else "concat"
    group = add(parent, "g", class_=f"edge {kind}" if edge else "concat")
    sure = _certainty(edge)
    stroke = 1.5 + 3.5 * sure if edge else 1.25
    drawn = add(group, "path", d=line.path, class_="line", fill="none", stroke=INK)
    drawn.set("stroke-width", point(stroke))
    if edge:
        drawn.set("stroke-opacity", point(0.55 + 0.45 * sure))
        drawn.set("stroke-dasharray", DASHES.get(kind, "none"))
    _draw_head(group, line, stroke)
    if edge and line.label:
        group.set("data-choice", clean(edge.choice))
        group.set("data-operation", clean(edge.operation))
        add(group, "title", _tooltip(cell, edge))
        _draw_label(group, label(edge), line.label)


def _draw_fallen(parent: Element, cell: Cell, line: Line, edge: Fallen) -> None:
    """A thin dashed arrow: what would stand here if all that it depends on did."""
    group = add(parent, "g", class_="fell none", data_choice=edge.choice)
    dashed(group, line.path)
    _draw_head(group, line, THIN)
    between = f"{cell.word(edge.source)} → {cell.word(edge.target)}"
    told = [f"{operation(name)} fell with {what}" for name, what in edge.operations.items()]
    add(group, "title", "\n".join([between, *told]))
    if line.label:
        _draw_label(group, label(edge), line.label, "soft")


def _draw_head(group: Element, line: Line, stroke: float) -> None:
    (x, y), half = line.tip, 2.5 + stroke / 2
    head = f"M{point(x)},{point(y)} l{-HEAD},{point(-half)} v{point(2 * half)}Z"
    add(group, "path", d=head, class_="head", fill=INK)


def _draw_label(group: Element, words: str, spot: Spot, kind: str = "text") -> None:
    x, y = spot.x - spot.width / 2, spot.y - spot.height / 2
    pill = add(group, "rect", class_="pill", x=x, y=y, width=spot.width, height=spot.height)
    for name, value in (("rx", "12"), ("fill", "#fff"), ("stroke", INK)):
        pill.set(name, value)
    pill.set("stroke-width", "1.5" if kind == "text" else "0.75")
    _write(group, words, spot.x, spot.y + 4.5, FONT, kind)


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
        group, "rect", class_=kind, fill="#fff", stroke=INK, rx=10.0 if caption else 18.0,
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


def _draw_list(
    root: Element, options: Mapping[str, tuple[str, ...]], known: Probabilities
) -> tuple[float, float]:
    """Choice and kept options, line by line."""
    rows = [("choice", "kept")]
    rows += [(name, summary(options[name], known.get(name))) for name in sorted(options, key=order)]
    split = MARGIN + max(text_width(name, FONT) for name, _ in rows) + 24
    for index, (name, kept) in enumerate(rows):
        y = MARGIN + _ROW * index
        kind = "text" if index else "title"
        group = add(root, "g", class_="row")
        add(group, "text", name, class_=kind, x=MARGIN, y=y + FONT, font_size=FONT)
        add(group, "text", kept, class_=kind, x=split, y=y + FONT, font_size=FONT)
        add(
            group,
            "title",
            f"{name}: {', '.join(options.get(name, ()))}" if index else "kept options",
        )
    width = split - MARGIN + max(text_width(kept, FONT) for _, kept in rows)
    for index in range(len(rows)):
        y = MARGIN + _ROW * index + 19.5
        add(
            root,
            "path",
            d=f"M{point(MARGIN)},{point(y)} h{point(width)}",
            class_="rule",
            stroke="#ccc",
        )
    return width, MARGIN + _ROW * len(rows)
