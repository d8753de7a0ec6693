"""The layout of a cell: nodes and labels in columns from left to right (Sugiyama et al. 1981).

Nodes are in even columns, the label of a line in the odd column before its target; a line that
crosses a column has a spot of its own there, and bends only between columns. So no line runs
through a node or another line's label, and no two labels overlap, in any cell.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ardor.reporting.cells import Cell, Edge, Fallen
from ardor.reporting.svg import point, text_width

FONT, SMALL = 13.0, 10.5
LABEL_HEIGHT, HEAD = 24.0, 8.0
_PORT, _APART, _PASSING = 11.0, 10.0, 4.0
_SWEEPS = 12


@dataclass(eq=False)
class Spot:
    """Room in a column for a node, a label or a crossing line; x and y are its middle."""

    column: int
    width: float
    height: float
    name: str = ""  # of a node
    x: float = 0.0
    y: float = 0.0
    before: list["Spot"] = field(default_factory=list)
    after: list["Spot"] = field(default_factory=list)


@dataclass(eq=False)
class Line:
    """A line from node to node; `edge` and `label` are None from a state to the output."""

    spots: list[Spot]
    edge: Edge | Fallen | None = None
    label: Spot | None = None
    path: str = ""
    tip: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Plan:
    """A cell laid out, with its upper left corner at (0, 0)."""

    nodes: dict[str, Spot]
    lines: list[Line]
    width: float
    height: float


def lay_out(cell: Cell, label: Callable[[Edge | Fallen], str]) -> Plan:
    """The plan of a cell whose edges carry the texts that `label` gives."""
    nodes = _nodes(cell)
    lines = [_line(nodes, edge, label(edge)) for edge in cell.links]
    if cell.out not in cell.states:
        lines += [_through(nodes[state], nodes[cell.out]) for state in cell.states]
    columns = _columns(nodes, lines)
    _order(columns, [nodes[name] for name in cell.inputs])
    for node in nodes.values():
        node.height = max(node.height, _PORT * max(len(node.before), len(node.after)) + 8)
    _spread(columns)
    width, height = _place(columns)
    _draw_paths(lines, columns)
    return Plan(nodes, lines, width, height)


def _nodes(cell: Cell) -> dict[str, Spot]:
    """A node for each name, one rank after the last of those it reads."""
    ranks = dict.fromkeys(cell.inputs, 0)
    for state in cell.states:
        sources = [ranks[edge.source] for edge in cell.links if edge.target == state]
        ranks[state] = 1 + max(sources, default=0)
    if cell.out not in cell.states:
        ranks[cell.out] = 1 + max(ranks.values())
    return {name: _node(cell, name, 2 * rank) for name, rank in ranks.items()}


def _node(cell: Cell, name: str, column: int) -> Spot:
    alike = cell.inputs if name in cell.inputs else (name,)
    captions = [cell.caption(node) for node in alike]
    width = max(44.0, *(text_width(caption, SMALL) + 16 for caption in captions))
    return Spot(column, width, 44.0 if captions[0] else 38.0, name)


def _line(nodes: dict[str, Spot], edge: Edge | Fallen, text: str) -> Line:
    target = nodes[edge.target]
    label = Spot(target.column - 1, text_width(text, FONT) + 18, LABEL_HEIGHT)
    line = _through(nodes[edge.source], target, label)
    line.edge, line.label = edge, label
    return line


def _through(source: Spot, target: Spot, label: Spot | None = None) -> Line:
    passed = range(source.column + 1, target.column)
    spots = [source, *(Spot(column, 0.0, _PASSING) for column in passed), target]
    if label:
        spots[-2] = label
    for left, right in zip(spots, spots[1:], strict=False):
        left.after.append(right)
        right.before.append(left)
    return Line(spots)


def _columns(nodes: dict[str, Spot], lines: list[Line]) -> list[list[Spot]]:
    spots = dict.fromkeys([*nodes.values(), *(spot for line in lines for spot in line.spots)])
    columns: list[list[Spot]] = [[] for _ in range(1 + max(spot.column for spot in spots))]
    for spot in spots:
        columns[spot.column].append(spot)
    return [column for column in columns if column]


def _order(columns: list[list[Spot]], inputs: Sequence[Spot]) -> None:
    """Sort the columns so that few lines cross; the first input stays above the second."""
    best, fewest = [list(column) for column in columns], float("inf")
    _number(columns)
    for sweep in range(2 * _SWEEPS):
        forward = sweep % 2 == 0
        for column in columns if forward else columns[::-1]:
            column.sort(key=lambda spot: _mean(spot.before if forward else spot.after, spot.y))
            _number([column])
        crossed = _crossings(columns)
        if crossed < fewest:
            best, fewest = [list(column) for column in columns], crossed
    upside_down = best[0].index(inputs[0]) > best[0].index(inputs[-1])
    columns[:] = [column[::-1] for column in best] if upside_down else best


def _number(columns: Iterable[list[Spot]]) -> None:
    for column in columns:
        for index, spot in enumerate(column):
            spot.y = index - (len(column) - 1) / 2


def _mean(spots: Sequence[Spot], otherwise: float) -> float:
    return sum(spot.y for spot in spots) / len(spots) if spots else otherwise


def _crossings(columns: list[list[Spot]]) -> int:
    total = 0
    for column in columns:
        links = sorted((spot.y, right.y) for spot in column for right in spot.after)
        ends = [end for _, end in links]
        total += sum(a > b for i, a in enumerate(ends) for b in ends[i + 1 :])
    return total


def _spread(columns: list[list[Spot]]) -> None:
    """Sets y: each spot near the mean of those it is connected to, with gaps between spots."""
    for column in columns:
        _settle(column, [(0.0, 1.0)] * len(column))
    for sweep in range(4 * _SWEEPS):
        for column in columns if sweep % 2 else columns[::-1]:
            _settle(column, [_pull(spot) for spot in column])
    top = min(spot.y - spot.height / 2 for column in columns for spot in column)
    for column in columns:
        for spot in column:
            spot.y -= top


def _pull(spot: Spot) -> tuple[float, float]:
    """The y that the neighbours of a spot pull it to, and the weight of the pull."""
    # Weights 1 / distance make least squares into least distance: one clear bend, no long wobble.
    weights, middle = [(1e-3, spot.y)], spot.name == ""
    for other in spot.before + spot.after:
        priority = 4.0 if middle and other.name == "" else 1.0
        weights.append((priority / (abs(other.y - spot.y) + 1.0), other.y))
    total = sum(weight for weight, _ in weights)
    return sum(weight * y for weight, y in weights) / total, total


def _settle(column: list[Spot], wanted: Sequence[tuple[float, float]]) -> None:
    """Sets y as near to the wanted (y, weight) as gaps allow, by pooling adjacent violators."""
    offsets, blocks = [0.0], list[tuple[float, float, int]]()
    for above, below in zip(column, column[1:], strict=False):
        offsets.append(offsets[-1] + (above.height + below.height) / 2 + _APART)
    for (want, weight), offset in zip(wanted, offsets, strict=True):
        mean, size = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, more, spots = blocks.pop()
            mean = (mean * weight + other * more) / (weight + more)
            weight, size = weight + more, size + spots
        blocks.append((mean, weight, size))
    places = [mean for mean, _, size in blocks for _ in range(size)]
    for spot, place, offset in zip(column, places, offsets, strict=True):
        spot.y = place + offset


def _place(columns: list[list[Spot]]) -> tuple[float, float]:
    """Sets x, with more room between columns where lines are steep; returns width and height."""
    x = 0.0
    for column in columns:
        width = max(spot.width for spot in column)
        for spot in column:
            spot.x = x + width / 2
        climbs = (abs(right.y - spot.y) for spot in column for right in spot.after)
        between = min(80.0, max(20.0, 0.35 * max(climbs, default=0.0)))
        x += width + (0.0 if column is columns[-1] else between)
    return x, max(spot.y + spot.height / 2 for column in columns for spot in column)


def _draw_paths(lines: list[Line], columns: list[list[Spot]]) -> None:
    half = {column[0].column: max(spot.width for spot in column) / 2 for column in columns}
    starts = _ports(lines, 0, 1)
    ends = _ports(lines, -1, -2)
    for line in lines:
        source, *between, target = line.spots
        x, y = source.x + source.width / 2, starts[line]
        steps = [f"M{point(x)},{point(y)}"]
        for spot in between:
            left, right = spot.x - half[spot.column], spot.x + half[spot.column]
            steps += [_curve(x, y, left, spot.y), f"H{point(right)}"]
            x, y = right, spot.y
        line.tip = (target.x - target.width / 2, ends[line])
        line.path = " ".join([*steps, _curve(x, y, line.tip[0] - HEAD, line.tip[1])])


def _ports(lines: list[Line], end: int, next_to_it: int) -> dict[Line, float]:
    """The y at which each line touches its node, ordered so that lines do not cross there."""
    ports: dict[Line, float] = {}
    for node in dict.fromkeys(line.spots[end] for line in lines):
        mine = [line for line in lines if line.spots[end] is node]
        mine.sort(key=lambda line: line.spots[next_to_it].y)
        for index, line in enumerate(mine):
            ports[line] = node.y + _PORT * (index - (len(mine) - 1) / 2)
    return ports


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = point((x + to_x) / 2)
    return f"C{middle},{point(y)} {middle},{point(to_y)} {point(to_x)},{point(to_y)}"
