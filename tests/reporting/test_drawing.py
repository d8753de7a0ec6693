"""Cells as drawings and tables, read back with parsers: what is shown, and that it can be read."""

import re
from itertools import combinations
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from standins.drawn import CELLS, OPS, link, random_cells

from ardor.architecture import Architecture, Choice, Place
from ardor.reporting import draw, table
from ardor.reporting.cells import Edge, Probabilities, cells
from ardor.reporting.format import operation, percent
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import Nasbench201

SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float]


def groups(drawing: str) -> list[tuple[float, float, Element]]:
    """The groups of edges and nodes with the offset of their cell."""
    found = []

    def walk(element: Element, x: float, y: float) -> None:
        moved = re.fullmatch(r"translate\((.+),(.+)\)", element.get("transform", ""))
        x, y = (x + float(moved[1]), y + float(moved[2])) if moved else (x, y)
        if element.get("data-choice") or element.get("data-node"):
            found.append((x, y, element))
        for child in element:
            walk(child, x, y)

    walk(ElementTree.fromstring(drawing), 0.0, 0.0)
    return found


def box(x: float, y: float, group: Element) -> Box:
    rect = group.find(f"{SVG}rect")
    assert rect is not None
    left, top, width, height = (float(rect.attrib[k]) for k in ("x", "y", "width", "height"))
    return x + left, y + top, x + left + width, y + top + height


def overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def along(path: str) -> list[tuple[float, float]]:
    """Points of a path made of M, C and H."""
    points: list[tuple[float, float]] = []
    for command, numbers in re.findall(r"([MCH])([^MCH]*)", path):
        values = [float(n) for n in re.findall(r"-?[\d.]+", numbers)]
        if command == "M":
            points.append((values[0], values[1]))
            continue
        x0, y0 = points[-1]
        x1, y1, x2, y2, x3, y3 = (
            values if command == "C" else (x0, y0, values[0], y0, values[0], y0)
        )
        for t in (k / 20 for k in range(21)):
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3
            points.append((a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3))
    return points


SHAPES = [(seed, 2 + seed % 4, 1 + seed // 4 % 3) for seed in range(24)]


@pytest.mark.parametrize(("seed", "states", "most"), SHAPES)
def test_every_kept_operation_is_drawn_and_nothing_overlaps(
    seed: int, states: int, most: int
) -> None:
    architecture, choices, probabilities = random_cells(seed, states, most)
    drawing = draw(architecture, choices, probabilities)
    found = groups(drawing)
    drawn = [(g.get("data-choice"), g.get("data-operation")) for *_, g in found if g.get("class")]
    kept = [(choice, name) for choice, names in architecture.kept for name in names]
    assert sorted(drawn, key=str) == sorted(kept)
    for _, _, group in found:
        if group.get("class"):
            choice, name = group.attrib["data-choice"], group.attrib["data-operation"]
            label = f"{operation(name)} · {percent(probabilities[choice][name])}"
            assert group.findtext(f"{SVG}text") == label
    boxes = [box(*entry) for entry in found]
    assert not any(overlap(a, b) for a, b in combinations(boxes, 2))
    root = ElementTree.fromstring(drawing)
    whole = (0.0, 0.0, float(root.attrib["width"]), float(root.attrib["height"]))
    assert all(a[0] >= 0 and a[1] >= 0 and a[2] <= whole[2] and a[3] <= whole[3] for a in boxes)


@pytest.mark.parametrize(("seed", "states", "most"), SHAPES[::2])
def test_lines_run_through_no_node_and_no_foreign_label(seed: int, states: int, most: int) -> None:
    found = groups(draw(*random_cells(seed, states, most)))
    boxes = [box(*entry) for entry in found]
    for x, y, group in found:
        path = group.find(f"{SVG}path")
        if path is None:
            continue
        own = box(x, y, group)
        points = [(x + px, y + py) for px, py in along(path.attrib["d"])]
        for left, top, right, bottom in (b for b in boxes if b != own):
            assert not any(left + 1 < a < right - 1 and top < b < bottom for a, b in points)


def test_labels_have_room_for_their_text() -> None:
    """An em of 0.56 on average is what the widest common sans serif (DejaVu) needs."""
    for _, _, group in groups(draw(*random_cells(5, 4, 2))):
        rect, text = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        assert rect is not None
        assert text is not None
        width = 0.56 * float(text.attrib["font-size"]) * len(text.text or "")
        assert width < float(rect.attrib["width"]) - 6


def test_a_surer_edge_is_wider_and_every_candidate_is_told() -> None:
    kept = {"0>2": ("sep_conv_3x3",), "1>2": ("sep_conv_3x3",)}
    known = {
        "0>2": {"sep_conv_3x3": 0.9, "max_pool_3x3": 0.1},
        "1>2": {"sep_conv_3x3": 0.4, "max_pool_3x3": 0.35, "skip_connect": 0.25},
    }
    choices = [link(CELLS[""], source, 2) for source in (0, 1)]
    drawn = {
        g.attrib["data-choice"]: g
        for *_, g in groups(draw(Architecture.of("cells", {}, kept), choices, known))
        if g.get("data-choice")
    }
    lines = {choice: g.find(f"{SVG}path") for choice, g in drawn.items()}
    for name in ("stroke-width", "stroke-opacity"):
        wide, thin = (float(lines[c].attrib[name]) for c in ("0>2", "1>2"))  # type: ignore[union-attr]
        assert wide > thin
    told = drawn["1>2"].findtext(f"{SVG}title") or ""
    assert all(words in told for words in ("max pool 3×3 35.0 %", "skip connect 25.0 %", "✓ sep"))


def test_families_differ_in_more_than_colour() -> None:
    names = (
        "sep_conv_3x3",
        "dil_conv_3x3",
        "conv_7x1_1x7",
        "max_pool_3x3",
        "skip_connect",
        "noise",
    )
    choices = [link(CELLS[""], 0, 2 + at, names) for at in range(len(names))]
    kept = {choice.name: (name,) for choice, name in zip(choices, names, strict=True)}
    drawing = draw(Architecture.of("cells", {}, kept), choices)
    lines = [g.find(f"{SVG}path") for *_, g in groups(drawing) if g.get("data-choice")]
    assert len({line.get("stroke-dasharray") for line in lines if line is not None}) == 6
    text = "".join(ElementTree.fromstring(drawing).itertext())
    words = ("separable", "dilated", "full", "pooling", "skip", "noise")
    assert all(word in text for word in words)


def test_a_family_of_ones_own_is_drawn_as_what_it_says() -> None:
    choice = link(CELLS[""], 0, 2, ("blur", "warp"), "pool", "other")
    drawing = draw(Architecture.of("lab.mine", {}, {choice.name: ("blur",)}), [choice])
    (group,) = (g for *_, g in groups(drawing) if g.get("data-choice"))
    assert group.get("class") == "edge pool"
    assert "pooling" in "".join(ElementTree.fromstring(drawing).itertext())


def test_every_line_has_a_colour_without_the_style_sheet() -> None:
    root = ElementTree.fromstring(draw(*random_cells(3, 4, 2)))
    lines = [path for path in root.iter(f"{SVG}path") if path.get("class") == "line"]
    assert len(lines) > 10
    assert all(line.get("stroke") for line in lines)


def test_gone_edges_and_other_choices_are_not_drawn() -> None:
    kept = {"normal/0>2": ("skip_connect",), "normal/1>2": (), "normal/>2": ("0",), "b1/c1": ("7",)}
    normal = CELLS["normal"]
    inputs = Choice("normal/>2", "edge", ("0", "1"), place=normal, target=2)
    width = Choice("b1/c1", "width", tuple(map(str, range(8))))
    choices = [inputs, link(normal, 0, 2), link(normal, 1, 2), width]
    drawing = draw(Architecture.of("cells", {}, kept), choices)
    found = [g for *_, g in groups(drawing)]
    assert [g.get("data-choice") for g in found if g.get("data-choice")] == ["normal/0>2"]
    assert [g.get("data-node") for g in found if g.get("data-node")] == ["0", "1", "2", "out"]
    assert drawing.count('class="concat"') == 1
    assert "cell before last" in drawing
    assert "last cell" in drawing


def test_cells_of_their_own_come_in_network_order_under_their_names() -> None:
    space = Cells(layout="NNRN", states=1, shared=False)
    kept = {choice.name: choice.options[-1:] for choice in space.choices[::-1]}
    found = cells(Architecture.of("cells", {}, kept), space.choices)
    assert [c.title for c in found] == [
        *("Normal cell 0", "Normal cell 1", "Reduction cell 2", "Normal cell 3")
    ]


def test_a_cell_with_one_input_ends_in_its_last_node() -> None:
    choices = Nasbench201().choices
    architecture = Architecture.of("nasbench201", {}, {c.name: ("nor_conv_3x3",) for c in choices})
    found = groups(draw(architecture, choices))
    nodes = [g.attrib["data-node"] for *_, g in found if g.get("data-node")]
    assert nodes == ["0", "1", "2", "3"]
    (cell,) = cells(architecture, choices)
    assert [cell.word(node) for node in nodes] == ["in", "1", "2", "out"]


def test_layers_one_after_another_are_drawn_as_a_chain() -> None:
    place = Place("", "", "layers")
    choices = [
        Choice(f"layer{at}", "op", OPS[:3], 1, place, at, at + 1, ("conv", "skip", "other"))
        for at in range(3)
    ]
    kept = {choice.name: OPS[:1] for choice in choices}
    drawing = draw(Architecture.of("lab.mine", {}, kept), choices)
    found = groups(drawing)
    nodes = {g.attrib["data-node"]: box(x, y, g) for x, y, g in found if g.get("data-node")}
    assert list(nodes) == ["0", "1", "2", "3"]
    assert sorted(nodes, key=lambda node: nodes[node][0]) == list(nodes)
    assert 'class="concat"' not in drawing
    assert "Layers" in drawing


def test_without_cells_the_choices_are_listed() -> None:
    kept = {"block3/conv1": tuple(map(str, range(40))), "block3/branch": ("conv", "skip_connect")}
    architecture = Architecture.of("residual", {}, kept)
    known = {"block3/conv1": {str(i): 0.5 for i in range(64)}}
    choices = [
        Choice("block3/branch", "op", ("conv", "skip_connect", "none")),
        Choice("block3/conv1", "width", tuple(map(str, range(64)))),
    ]
    drawing = ElementTree.fromstring(draw(architecture, choices, known))
    text = [t.text for t in drawing.iter(f"{SVG}text")]
    assert text[2:] == ["block3/branch", "conv, skip connect", "block3/conv1",
                        "40 of 64: 0, 1, 2, 3, 4, 5, 6, 7, …"]  # fmt: skip
    assert draw(architecture, [], known) == draw(architecture, choices, known)
    rows = table(architecture, choices, known)
    assert [row[0] for row in rows] == ["block3/branch", "block3/conv1"]
    assert draw(Architecture.of("none", {}, {}), [])


def test_table_lists_kept_edges_by_cell_and_node() -> None:
    kept = {"reduce/0>2": ("max_pool_3x3",), "normal/2>10": ("skip_connect",),
            "normal/1>2": ("sep_conv_3x3", "skip_connect"), "normal/0>2": ()}  # fmt: skip
    known = {"normal/1>2": {"sep_conv_3x3": 0.75, "skip_connect": 0.6}}
    normal, reduce = CELLS["normal"], CELLS["reduce"]
    links = [(normal, 2, 10), (normal, 1, 2), (normal, 0, 2), (reduce, 0, 2)]
    choices = [link(*where) for where in links]
    assert table(Architecture.of("cells", {}, kept), choices, known) == [
        ("normal", "2", "1", "sep_conv_3x3", 0.75),
        ("normal", "2", "1", "skip_connect", 0.6),
        ("normal", "10", "2", "skip_connect", None),
        ("reduce", "2", "0", "max_pool_3x3", None),
    ]


@pytest.mark.parametrize(
    ("chances", "remark"),
    [
        ({"a": 0.7, "b": 0.3}, ""),
        ({"a": 0.55, "b": 0.45}, "close call"),
        ({"a": 0.4, "b": 0.1}, "close call"),
        ({"a": 0.4, "b": 0.6}, "against the odds: b is likelier"),
        ({"a": 0.9}, ""),
        ({}, ""),
    ],
)
def test_close_calls_are_said_in_words(chances: dict[str, float], remark: str) -> None:
    assert Edge("0>2", "0", "2", "a", ("a",), chances).remark == remark


def test_probabilities_may_be_absent() -> None:
    architecture, choices, _ = random_cells(2, 2)
    known: Probabilities = {}
    assert "%" not in "".join(
        text.text or ""
        for text in ElementTree.fromstring(draw(architecture, choices, known)).iter(f"{SVG}text")
    )
