"""What fell with what: in words, in drawings, in the report; and nothing where nothing did."""

import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from reporting.test_drawing import SHAPES, SVG, along, box, groups, overlap
from reporting.test_page import EVIL, Page, evil_choices
from standins.drawn import OPS, random_cells

from ardor.architecture import Architecture, Choice, FellWith, Place, choices_to_json
from ardor.reporting import draw, report
from ardor.reporting.fallen import Pruned, fallen, pruned
from ardor.reporting.format import operation
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import Nasbench201

SPACE = Cells(layout="N", states=2, ops="sep_conv_3x3,skip_connect,none")
KEPT = {
    **{"normal/>2": ("1",), "normal/0>2": (), "normal/1>2": ("skip_connect",)},
    **{"normal/>3": ("0",), "normal/0>3": ("sep_conv_3x3",)},
    **{"normal/1>3": (), "normal/2>3": ()},
}
FOUND = SPACE.architecture(KEPT)
FELL = {
    "normal/0>2": {"sep_conv_3x3": "normal/>2: 0"},
    "normal/2>3": {"sep_conv_3x3": "normal/>2", "skip_connect": "normal/1>2"},
    "normal/>3": {"2": "normal/>2"},
}


def entropies(kept: float = 0.4, pruned: float = -0.9) -> dict[str, Any]:
    """Strengths of a method that prunes by entropy."""
    return {
        choice.name: {
            option: {"switch": 1.0, "s": 1.0, "gamma": 0.2, "entropy": kept if on else pruned}
            for option in choice.options
            if choice.family(option) != "none"
            for on in [option in KEPT[choice.name]]
        }
        for choice in SPACE.choices
    }


def told(name: str) -> str:
    """What something fell with, in words."""
    (words,) = fallen(FOUND, SPACE.choices, {"normal/>3": {"2": name}})["normal/>3"].values()
    return words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("normal/0>2", "c−2 → 2"),
        ("normal/>2", "all into 2"),
        ("normal/>3: 2", "the edge 2 → 3"),
        ("normal/>3: 1", "the edge c−1 → 3"),
        ("normal/2>3: sep_conv_3x3", "sep conv 3×3 of 2 → 3"),
        ("the stem: as ever", "the stem: as ever"),
        ("", ""),
    ],
)
def test_what_it_fell_with_is_said_as_drawings_call_it(name: str, words: str) -> None:
    assert told(name) == words


def test_what_is_kept_all_the_same_or_is_unknown_did_not_fall() -> None:
    kept = {"normal/1>2": {"skip_connect": "normal/>2: 1"}}
    strange = {"normal/0>2": {"conv_9x9": "normal/>2"}, "reduce/0>2": {"skip_connect": "x"}}
    assert fallen(FOUND, SPACE.choices, {**kept, **strange}) == {}
    assert draw(FOUND, SPACE.choices, {}, {**kept, **strange}) == draw(FOUND, SPACE.choices)


def test_operations_and_edges_are_counted_and_no_connection_is_none_of_them() -> None:
    lost = pruned(FOUND, SPACE.choices, {}, FELL)
    assert lost == Pruned(operations=10, edges=5, pruned=11, fell=4)
    assert lost.words == (
        "11 of 15 operations and edges, 4 of them only because what they depend on was pruned"
    )
    one = Pruned(operations=6, edges=0, pruned=2, fell=1)
    assert one.words == "2 of 6 operations, 1 of them only because what it depends on was pruned"


def test_a_method_that_prunes_is_counted_even_if_nothing_fell_and_no_other_is() -> None:
    lost = pruned(FOUND, SPACE.choices, entropies(), {})
    assert lost is not None
    assert lost.words == "11 of 15 operations and edges"
    means = {"normal/0>2": {"sep_conv_3x3": {"mean": 1.0}}}
    assert pruned(FOUND, SPACE.choices, means, {}) is None
    assert pruned(FOUND, (), entropies(), FELL) is None


def falls(seed: int, kept: Architecture, choices: tuple[Choice, ...]) -> FellWith:
    """One to all operations of each second edge that is left out have fallen."""
    rng = random.Random(seed)
    links = [c for c in choices if c.source is not None and not kept.options[c.name]]
    return {
        c.name: dict.fromkeys(
            rng.sample(c.options, rng.randint(1, len(OPS))), f"{c.place.name}/0>2"
        )
        for c in links[::2]
    }


@pytest.mark.parametrize(("seed", "states", "most"), SHAPES)
def test_one_dashed_arrow_stands_for_all_that_fell_between_two_nodes(
    seed: int, states: int, most: int
) -> None:
    found, choices, known = random_cells(seed, states, most)
    fell = falls(seed, found, choices)
    drawing = draw(found, choices, known, fell)
    drawn = {g.get("data-choice"): g for *_, g in groups(drawing) if g.get("class") == "fell none"}
    assert drawn.keys() == fell.keys()
    for choice, options in fell.items():
        label, title = (drawn[choice].findtext(f"{SVG}{tag}") or "" for tag in ("text", "title"))
        names = [operation(o) for c in choices if c.name == choice for o in c.options]
        fallen_names = [name for name in names if name in map(operation, options)]
        few = len(options) <= 2
        assert label == (", ".join(fallen_names) if few else f"{len(options)} fell")
        assert title.splitlines()[1:] == [f"{name} fell with c−2 → 2" for name in fallen_names]
    boxes = [box(*entry) for entry in groups(drawing)]
    assert not any(overlap(a, b) for a, b in combinations(boxes, 2))
    root = ElementTree.fromstring(drawing)
    width, height = (float(root.attrib[key]) for key in ("width", "height"))
    assert all(a[0] >= 0 and a[1] >= 0 and a[2] <= width and a[3] <= height for a in boxes)
    for x, y, group in groups(drawing):
        path = group.find(f"{SVG}path")
        if path is not None:
            points = [(x + px, y + py) for px, py in along(path.attrib["d"])]
            for left, top, right, bottom in (b for b in boxes if b != box(x, y, group)):
                assert not any(left + 1 < a < right - 1 and top < b < bottom for a, b in points)


def test_what_fell_is_thinner_than_anything_kept_and_the_legend_says_what_it_is() -> None:
    known = {choice: dict.fromkeys(kept, 0.0) for choice, kept in KEPT.items()}
    drawing = draw(FOUND, SPACE.choices, known, FELL)
    widths: dict[bool, list[float]] = {True: [], False: []}
    for *_, group in groups(drawing):
        path = group.find(f"{SVG}path")
        if path is not None:
            fell = "fell" in group.attrib["class"]
            widths[fell].append(float(path.attrib["stroke-width"]))
            assert (path.get("stroke-dasharray") == "3 4") == fell
    assert len(widths[True]) == 2
    assert max(widths[True]) < min(widths[False])
    legend = "would have stayed by itself: fell with what it depends on"
    assert legend in drawing
    assert "3 more that fell" in drawing
    assert legend not in draw(FOUND, SPACE.choices, known)


def test_cells_with_one_input_and_layers_in_a_row_are_drawn_so_too() -> None:
    bench = Nasbench201().choices
    kept = {c.name: () if c.target == 2 else ("nor_conv_3x3",) for c in bench}
    (after,) = (c.name for c in bench if (c.source, c.target) == (2, 3))
    kept[after] = ()
    (into,) = (c.name for c in bench if (c.source, c.target) == (0, 2))
    fell = {after: {"skip_connect": into}}
    drawing = draw(Architecture.of("nasbench201", {}, kept), bench, {}, fell)
    assert "skip connect fell with in → 2" in drawing
    place = Place("", "", "layers")
    row = [Choice(f"layer{at}", "op", OPS[:3], 1, place, at, at + 1) for at in range(3)]
    none: dict[str, tuple[str, ...]] = {choice.name: () for choice in row}
    drawing = draw(Architecture.of("lab.mine", {}, none), row, {}, {"layer2": {OPS[0]: "layer0"}})
    assert "sep conv 3×3 fell with in → 1" in drawing
    assert [g.get("data-node") for *_, g in groups(drawing) if g.get("data-node")] == list("0123")


def written(folder: Path, **more: Any) -> Path:
    """A run folder with nothing but an architecture."""
    found = {**FOUND.to_json(), "choices": choices_to_json(SPACE.choices), **more}
    (folder / "architecture.json").write_text(json.dumps(found))
    return folder


def test_the_report_counts_what_fell_and_names_it_beside_its_numbers(tmp_path: Path) -> None:
    shares = {"normal/0>2": {"sep_conv_3x3": 0.25, "skip_connect": 0.125}}
    text = report(written(tmp_path, strengths=entropies(), fell_with=FELL, probabilities=shares))
    page = Page(text)
    sentence = "Pruned by the search: 11 of 15 operations and edges, 4 of them only because"
    assert sentence in page.text
    tables = text.split("<details>")[1:]
    assert [table.split("summary>")[1][:-2] for table in tables] == [
        "Normal cell: inputs of a node",
        "Normal cell: operation",
    ]
    for words in ("Switch", "Own gamma", "Gamma", "Entropy", "Probability", "-0.9", "25.0 %"):
        assert words in page.text, words
    assert 'sep conv 3×3<br><span class="soft">fell with the edge c−2 → 2</span>' in tables[1]
    assert '2<br><span class="soft">fell with all into 2</span>' in tables[0]
    assert "<td>c−1 ✓</td>" in tables[0]
    # On a phone each number is told by its own label, as there is no room for columns.
    assert tables[1].count('data-label="Own gamma">1</td>') == 10
    assert text.count("<br><span") == 4
    assert "The probability is that of being kept." in page.text
    assert "SNR" not in page.text
    assert 'class="fell none"' in text


def test_a_report_of_a_method_that_prunes_nothing_says_nothing_of_it(tmp_path: Path) -> None:
    means = {"normal/0>2": {"sep_conv_3x3": {"mean": 1.0, "snr": 2.0}}}
    page = Page(report(written(tmp_path, strengths=means)))
    assert "Pruned" not in page.text
    assert "fell" not in page.text
    assert "the mean divided by the variance" in page.text
    assert "that of being the strongest of its edge" in page.text


def test_a_stopped_search_tells_what_has_fallen_by_its_last_epoch(tmp_path: Path) -> None:
    line = {"stage": "search", "epoch": 1, "strengths": entropies()}
    fell = [{"normal/0>2": {"skip_connect": "normal/>2"}}, {"normal/0>2": {"sep_conv_3x3": "x"}}]
    lines = [{**line, "fell_with": fell[0]}, {**line, "epoch": 2, "fell_with": fell[1]}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    text = report(tmp_path, SPACE.choices)
    assert text.count("fell with") == 1
    assert "fell with x" in text
    assert "Pruned by the search" not in text


@pytest.mark.parametrize("strange", [3, [], {"normal/0>2": 3}, {"normal/0>2": {"none": 1.5}}])
def test_entries_that_are_no_names_are_passed_over(tmp_path: Path, strange: Any) -> None:
    text = report(written(tmp_path, fell_with=strange))
    assert "fell" not in Page(text).text


def test_names_of_strangers_do_no_harm(tmp_path: Path) -> None:
    choices = evil_choices()
    kept: dict[str, tuple[str, ...]] = {choice.name: () for choice in choices}
    found = {
        **Architecture.of(EVIL, {}, kept).to_json(),
        "choices": choices_to_json(choices),
        "fell_with": {choice.name: {EVIL: EVIL} for choice in choices},
        "strengths": {choice.name: {EVIL: {"entropy": -1.0}} for choice in choices},
    }
    (tmp_path / "architecture.json").write_text(json.dumps(found))
    text = report(tmp_path)
    page = Page(text)
    assert "script" not in page.tags
    assert page.text.count(f"fell with {EVIL}") == 5
