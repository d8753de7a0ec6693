"""The report and its drawings, read back with parsers: what is shown, and that it can be read."""

import json
import random
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from ardor.architecture import Architecture, family
from ardor.errors import ArdorError
from ardor.report import draw, report, table
from ardor.report.curves import nice_ticks
from ardor.report.edges import Edge, Probabilities, cells
from ardor.report.svg import stylesheet
from ardor.report.words import (
    count,
    duration,
    operation,
    percent,
    scientific,
    setting,
    short,
)

OPS = (
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "conv_7x1_1x7",
)
SVG = "{http://www.w3.org/2000/svg}"
EVIL = "<script>alert('x')</script>\"&]]>"
Box = tuple[float, float, float, float]


def softmaxed(rng: random.Random, options: tuple[str, ...] = OPS) -> dict[str, float]:
    weights = {option: rng.random() ** 4 for option in options}
    return {option: weight / sum(weights.values()) for option, weight in weights.items()}


def random_cells(
    seed: int, states: int, most: int = 1
) -> tuple[Architecture, dict[str, dict[str, float]]]:
    """Two cells; each state has one to all possible inputs, each up to `most` operations."""
    rng = random.Random(seed)
    kept = {}
    for place in ("normal", "reduce"):
        for target in range(2, 2 + states):
            inputs = rng.sample(range(target), rng.randint(1, target))
            for source in range(target):
                chosen = rng.sample(OPS, rng.randint(1, most)) if source in inputs else []
                kept[f"{place}/{source}>{target}"] = tuple(chosen)
    return Architecture.of("cells", {"cells": 8}, kept), {c: softmaxed(rng) for c in kept}


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
    architecture, probabilities = random_cells(seed, states, most)
    drawing = draw(architecture, probabilities)
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
    drawn = {
        g.attrib["data-choice"]: g
        for *_, g in groups(draw(Architecture.of("cells", {}, kept), known))
        if g.get("data-choice")
    }
    lines = {choice: g.find(f"{SVG}path") for choice, g in drawn.items()}
    for name in ("stroke-width", "stroke-opacity"):
        wide, thin = (float(lines[c].attrib[name]) for c in ("0>2", "1>2"))  # type: ignore[union-attr]
        assert wide > thin
    told = drawn["1>2"].findtext(f"{SVG}title") or ""
    assert all(words in told for words in ("max pool 3×3 35.0 %", "skip connect 25.0 %", "✓ sep"))


def test_families_differ_in_more_than_colour() -> None:
    names = ("sep_conv_3x3", "dil_conv_3x3", "conv_3x3", "max_pool_3x3", "skip_connect")
    kept = {f"0>{2 + i}": (name,) for i, name in enumerate(names)}
    drawing = draw(Architecture.of("cells", {}, kept))
    lines = [g.find(f"{SVG}path") for *_, g in groups(drawing) if g.get("data-choice")]
    assert len({line.get("stroke-dasharray") for line in lines if line is not None}) == 5
    text = "".join(ElementTree.fromstring(drawing).itertext())
    assert all(word in text for word in ("separable", "dilated", "full", "pooling", "skip"))


def test_gone_edges_and_other_choices_are_not_drawn() -> None:
    kept = {"normal/0>2": ("skip_connect",), "normal/1>2": (), "normal/>2": ("0",), "b1/c1": ("7",)}
    drawing = draw(Architecture.of("cells", {}, kept))
    found = [g for *_, g in groups(drawing)]
    assert [g.get("data-choice") for g in found if g.get("data-choice")] == ["normal/0>2"]
    assert [g.get("data-node") for g in found if g.get("data-node")] == ["0", "1", "2", "out"]
    assert drawing.count('class="concat"') == 1
    assert "cell before last" in drawing
    assert "last cell" in drawing


def test_cells_of_their_own_come_in_network_order_under_their_names() -> None:
    kept = {f"{place}/0>2": ("skip_connect",) for place in ("normal10", "reduce2", "normal1")}
    found = cells(Architecture.of("cells", {}, kept))
    assert [c.title for c in found] == ["Normal cell 1", "Reduction cell 2", "Normal cell 10"]


def test_a_cell_with_one_input_ends_in_its_last_node() -> None:
    kept = {f"{s}>{t}": ("nor_conv_3x3",) for t in range(1, 4) for s in range(t)}
    architecture = Architecture.of("nasbench201", {}, kept)
    nodes = [g.attrib["data-node"] for *_, g in groups(draw(architecture)) if g.get("data-node")]
    assert nodes == ["0", "1", "2", "3"]
    assert [cells(architecture)[0].word(node) for node in nodes] == ["in", "1", "2", "out"]


def test_without_cells_the_choices_are_listed() -> None:
    kept = {"block3/conv1": tuple(map(str, range(40))), "block3/branch": ("conv", "skip_connect")}
    architecture = Architecture.of("residual", {}, kept)
    known = {"block3/conv1": {str(i): 0.5 for i in range(64)}}
    text = [t.text for t in ElementTree.fromstring(draw(architecture, known)).iter(f"{SVG}text")]
    assert text[2:] == ["block3/branch", "conv, skip connect", "block3/conv1",
                        "40 of 64: 0, 1, 2, 3, 4, 5, 6, 7, …"]  # fmt: skip
    rows = table(architecture, known)
    assert [row[0] for row in rows] == ["block3/branch", "block3/conv1"]
    assert draw(Architecture.of("none", {}, {}))


def test_table_lists_kept_edges_by_cell_and_node() -> None:
    kept = {"reduce/0>2": ("max_pool_3x3",), "normal/2>10": ("skip_connect",),
            "normal/1>2": ("sep_conv_3x3", "skip_connect"), "normal/0>2": ()}  # fmt: skip
    known = {"normal/1>2": {"sep_conv_3x3": 0.75, "skip_connect": 0.6}}
    assert table(Architecture.of("cells", {}, kept), known) == [
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


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails on tags that do not close."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


FILES = ("config.json", "architecture.json", "log.jsonl", "metrics.json")


def write_run(folder: Path, name: str = "mnist") -> Path:
    architecture, known = random_cells(1, 3)
    known["normal/>2"] = {"0": 0.9, "1": 0.8}
    kept = architecture.to_json()["kept"]
    found = {
        **architecture.to_json(),
        "probabilities": known,
        "candidates": [{"kept": kept, "held_out_accuracy": 0.91, "held_out_nll": 0.31}],
    }
    config = {
        "format": 1, "command": f"ardor run {name}", "seed": 7, "versions": {"torch": "2.13.0"},
        "data": {"name": name, "classes": [name] * 30}, "space": {"name": "cells", "cells": 8},
        "method": {"name": "vinnas", "prior": None, "deep": {"er": 0.25}}, "search": {},
    }  # fmt: skip
    metrics = {
        "format": 1, "test_accuracy": 0.9862, "trained_test_accuracy": 0.98, "test_ece": 0.02,
        "params": 12345, "nonzero_params": 2345, "macs": 1234567, "onnx_max_difference": 1.5e-6,
        "stages": {"search": {"seconds": 80, "peak_memory_mb": 500}, "train": {"seconds": 5}},
    }  # fmt: skip
    lines = [epoch_line(stage, e) for stage in ("search", "train") for e in range(1, 5)]
    texts = (json.dumps(config), json.dumps(found), "\n".join(lines), json.dumps(metrics))
    for file, text in zip(FILES, texts, strict=True):
        (folder / file).write_text(text)
    return folder


def epoch_line(stage: str, epoch: int, accuracy: float | None = None) -> str:
    value = 0.5 + epoch / 10 if accuracy is None else accuracy
    terms = {"loss": 2.0 / epoch, "nll": 1.0 / epoch, "accuracy": value, "kl_gates": 1e5 * epoch}
    chances = {"normal/0>2": {"sep_conv_3x3": 0.6, "skip_connect": 0.4}}
    line = {"stage": stage, "epoch": epoch, "epochs": 4, "seconds": 3.25, "rate": 0.001,
            "train": terms, "held_out": {"accuracy": value - 0.05}, "certainty": 0.2 * epoch,
            "probabilities": chances}  # fmt: skip
    return json.dumps(line)


def test_the_page_tells_what_was_found_and_at_what_cost(tmp_path: Path) -> None:
    page = Page(report(write_run(tmp_path)))
    for words in (
        "vinnas on mnist", "98.6 %", "98.0 % before pruning", "2,345", "of 12,345, 19.0 %",
        "1,234,567", "agrees", "1 min 25 s", "1 min 20 s", "500 MB", "What was found",
        "close call", "How sure", "How the search went", "Search, 4 epochs", "Training, 4 epochs",
        "KL of the gates", "the mean over choices of the largest probability", "What it cost",
        "Settings", "deep.er", "not set", "… 10 more", "ardor run mnist", "torch 2.13.0",
        "Normal cell: inputs of a node", "91.0 %", "nothing: this one was taken",
        "epoch 4, held-out images: 85.0 %",
    ):  # fmt: skip
        assert words in page.text, words
    assert page.tags.count("h1") == page.tags.count("main") == 1
    pictures = page.tags.count("svg")
    assert pictures == 1 + 5 + 5  # the cells, and five terms in each stage
    assert sum(key == "aria-label" for key, _ in page.attributes) >= pictures


@pytest.mark.parametrize("source", ["flowers", "/data/flowers/", "flowers.npz"])
def test_the_title_names_method_and_images(tmp_path: Path, source: str) -> None:
    config = {"method": {"name": "darts"}, "data": {"source": source}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert f"<h1>darts on {Path(source).name}</h1>" in report(tmp_path)


@pytest.mark.parametrize("missing", FILES)
def test_what_is_missing_is_left_out(tmp_path: Path, missing: str) -> None:
    (write_run(tmp_path) / missing).unlink()
    text = Page(report(tmp_path)).text
    section = {"config.json": "Settings", "architecture.json": "What was found",
               "log.jsonl": "How the search went", "metrics.json": "What it cost"}  # fmt: skip
    assert [name for name in section.values() if name not in text] == [section[missing]]


def test_an_empty_folder_and_empty_files_make_a_page(tmp_path: Path) -> None:
    assert "nothing to report yet" in Page(report(tmp_path)).text
    for file in FILES:
        (tmp_path / file).write_text("" if file == "log.jsonl" else "{}")
    assert tmp_path.name in Page(report(tmp_path)).text


def test_a_stopped_search_shows_its_last_probabilities(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(epoch_line("search", 1))
    text = Page(report(tmp_path)).text
    assert "c−2 → 2" in text
    assert "60 %" in text
    assert "3.2 s" in text


def test_cut_off_and_repeated_log_lines(tmp_path: Path) -> None:
    lines = [epoch_line("search", 1), epoch_line("search", 2, 0.111), epoch_line("search", 2, 0.7)]
    strange = ["", "5", '{"epoch": 9}', '{"stage": "search", "epoch": Infinity}']
    cut = epoch_line("search", 3)[:70]
    (tmp_path / "log.jsonl").write_text("\n".join([*lines, *strange, cut]))
    text = Page(report(tmp_path)).text
    assert "Search, 2 epochs" in text
    assert "70.0 %" in text
    assert "11.1 %" not in text


def test_numbers_that_are_none_do_not_stop_the_page(tmp_path: Path) -> None:
    broken = epoch_line("train", 1).replace("2.0", "NaN").replace("1.0", "null")
    (tmp_path / "log.jsonl").write_text(broken)
    (tmp_path / "metrics.json").write_text('{"test_accuracy": NaN, "params": null, "stages": 3}')
    text = Page(report(tmp_path)).text
    assert "Training, 1 epoch" in text
    assert "Test accuracy" not in text


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "metrics.json").write_text(content)
    with pytest.raises(ArdorError, match=r"metrics\.json"):
        report(tmp_path)
    with pytest.raises(ArdorError, match="no run folder"):
        report(tmp_path / "absent")


def test_strings_of_the_user_are_escaped(tmp_path: Path) -> None:
    write_run(tmp_path, EVIL)
    kept = {f"{EVIL}/0>2": (EVIL,), f"{EVIL}/1>2": ("skip_connect",), EVIL: (EVIL,)}
    architecture = Architecture.of(EVIL, {}, kept)
    known = {choice: {EVIL: 0.75, "a\x00\ud800": 0.25} for choice in kept}
    assert ElementTree.fromstring(draw(Architecture.of("a", {}, {"\x00/0>2": ("\x01",)}), known))
    drawing = draw(architecture, known)
    texts = [element.text or "" for element in ElementTree.fromstring(drawing).iter()]
    assert sum(EVIL in text for text in texts) >= 3
    found = {**architecture.to_json(), "probabilities": known}
    (tmp_path / "architecture.json").write_text(json.dumps(found))
    (tmp_path / "log.jsonl").write_text(epoch_line(EVIL, 1).replace("kl_gates", "<b>"))
    page = Page(report(tmp_path))
    assert not {"script", "b"} & set(page.tags)
    assert page.text.count(EVIL) >= 8
    listed = draw(Architecture.of(EVIL, {}, {EVIL: (EVIL,)}))
    assert EVIL in "".join(ElementTree.fromstring(listed).itertext())


def test_nothing_is_fetched_from_elsewhere(tmp_path: Path) -> None:
    html = report(write_run(tmp_path))
    assert set(re.findall(r"https?://[^\"'\s<]*", html)) == {"http://www.w3.org/2000/svg"}
    assert not {"script", "link", "img", "iframe"} & set(Page(html).tags)
    assert not re.search(r"url\(|@import|\b(?:src|href)=", html)


def schemes() -> tuple[dict[str, str], dict[str, str]]:
    light, dark = stylesheet().split("@media screen and (prefers-color-scheme: dark)")
    pattern = r"--(\w+): (#[0-9a-f]{6})"
    return dict(re.findall(pattern, light)), dict(re.findall(pattern, dark))


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_both_schemes_are_there_and_readable(tmp_path: Path) -> None:
    light, dark = schemes()
    assert light.keys() == dark.keys()
    for scheme in (light, dark):
        for ground in (scheme["paper"], scheme["panel"]):
            assert all(contrast(scheme[ink], ground) >= 4.5 for ink in ("ink", "soft", "warn"))
            lines = scheme.keys() - {"paper", "panel", "rule"}
            assert all(contrast(scheme[line], ground) >= 3 for line in lines)
    for text in (draw(*random_cells(0, 2)), report(write_run(tmp_path))):
        assert "prefers-color-scheme: dark" in text
        assert "font-family: system-ui" in text


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (operation("conv_7x1_1x7"), "conv 7×1 1×7"),
        (percent(0.714), "71 %"),
        (percent(0.9862, 1), "98.6 %"),
        (percent(0.9999, 1), ">99.9 %"),
        (percent(0.001), "<1 %"),
        (percent(1.0), "100 %"),
        (percent(0.0), "0 %"),
        (count(12345), "12,345"),
        (duration(80), "1 min 20 s"),
        (duration(59.97), "1 min 0 s"),
        (duration(3.21), "3.2 s"),
        (duration(3720), "1 h 2 min"),
        (short(123456), "123 k"),
        (short(-2.5), "-2.5"),
        (scientific(1.2e-6).replace("\xa0", " "), "1.2 × 10⁻⁶"),
        (setting([1, True, None]), "1, yes, not set"),
        (family("dil_sep_conv_3x3"), "dilated"),
        (family("warp"), "other"),
    ],
)
def test_words(said: str, words: str) -> None:
    assert said == words


@pytest.mark.parametrize("limits", [(0, 1), (0.3, 0.3), (0, 0), (-3, 1e6), (1, 1 + 2e-16), (2, 9)])
def test_ticks_enclose_their_range(limits: tuple[float, float]) -> None:
    ticks = nice_ticks(*limits)
    assert ticks[0] <= limits[0] + 1e-9
    assert ticks[-1] >= limits[1] - 1e-9
    assert ticks[0] < ticks[-1]
    assert len(ticks) <= 7


def test_importing_the_report_does_not_load_torch() -> None:
    code = "import sys, ardor.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_probabilities_may_be_absent() -> None:
    architecture, _ = random_cells(2, 2)
    known: Probabilities = {}
    assert "%" not in "".join(
        text.text or ""
        for text in ElementTree.fromstring(draw(architecture, known)).iter(f"{SVG}text")
    )
