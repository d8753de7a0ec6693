"""Plots of benches: lines by method and seed, where their values are, in SVG that is valid XML."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from ardor.bench.panels import COLOURS, DASHES, Axes, Panel, figure, styles_of
from ardor.bench.plots import ACCURACIES, SHARES, plots

SVG = "{http://www.w3.org/2000/svg}"
METHODS = ("darts", "vinnas")


def run(method: str, seed: int, *values: float | None, **more: Any) -> dict[str, Any]:
    seen = [
        {"epoch": 4 + at, "skip_share": 0.25 * seed, "curvature": value}
        for at, value in enumerate(values)
    ]
    return {"method": method, "seed": seed, "seen": seen, **more}


def searches() -> dict[str, Any]:
    rows = [f"{method}-s{space}" for method in METHODS for space in (1, 2, 3, 4)]
    runs = [run(row, seed, 0.1, 0.4 + seed, 2.0) for row in rows for seed in range(3)]
    return {"measure": "searches", "runs": runs}


def read(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def drawn(root: ElementTree.Element) -> list[tuple[str, ElementTree.Element]]:
    """Every line of a run and what it is called."""
    paths = root.iter(f"{SVG}path")
    return [(title.text or "", p) for p in paths if (title := p.find(f"{SVG}title")) is not None]


def places(path: ElementTree.Element) -> list[tuple[float, float]]:
    pairs = re.findall(r"([\d.]+),([\d.]+)", path.attrib["d"])
    return [(float(x), float(y)) for x, y in pairs]


def alone(runs: list[dict[str, Any]], title: str = "", y: str = "value") -> str:
    return figure([[Panel(title, runs, "epoch", y)]])


def words(root: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def test_a_panel_for_each_space_and_measure_with_a_line_for_each_run() -> None:
    (name,), (text,) = zip(*plots(searches()).items(), strict=True)
    root = read(text)
    assert name == "collapse"
    groups = root.findall(f"{SVG}g")
    titles = [[word for word in words(group) if re.fullmatch(r"S\d", word)] for group in groups]
    assert titles == [["S1"], ["S2"], ["S3"], ["S4"]] * 2
    expected = [f"{method}, seed {seed}" for method in METHODS for seed in range(3)]
    assert all([called for called, _ in drawn(group)] == expected for group in groups)
    assert set(METHODS) <= set(words(root))  # the legend
    assert {"0%", "100%", "epoch", "curvature"} <= set(words(root))


def test_lines_of_a_method_look_alike_and_unlike_those_of_others() -> None:
    looks: dict[str, set[tuple[str, str]]] = {}
    for called, path in drawn(read(plots(searches())["collapse"])):
        look = path.attrib["stroke"], path.attrib["stroke-dasharray"]
        looks.setdefault(called.split(",")[0], set()).add(look)
    assert {method: len(own) for method, own in looks.items()} == dict.fromkeys(METHODS, 1)
    (one,), (other,) = looks.values()
    assert one[0] != other[0]
    assert one[1] != other[1]  # also without colour
    many = styles_of(f"method {k}" for k in range(len(COLOURS) * len(DASHES)))
    assert len(set(many.values())) == 35


def test_points_stand_where_the_axes_say() -> None:
    values = [(1, 10.0), (2, 30.0), (3, 20.0), (5, 50.0)]
    runs = [{"method": "darts", "seed": 0, "points": values}]
    ((_, path),) = drawn(root := read(alone(runs)))
    found = places(path)
    across = [(x - found[0][0]) / (found[-1][0] - found[0][0]) for x, _ in found]
    assert across == pytest.approx([(x - 1) / 4 for x, _ in values], abs=0.002)
    # A line through the labels of the axis gives back the values.
    (group,) = root.findall(f"{SVG}g")
    labels = {
        float(t.text or ""): float(t.attrib["y"]) - 4
        for t in group.iter(f"{SVG}text")
        if t.attrib["text-anchor"] == "end"
    }
    (low, bottom), (high, top) = min(labels.items()), max(labels.items())
    back = [low + (bottom - y) / (bottom - top) * (high - low) for _, y in found]
    assert back == pytest.approx([value for _, value in values], abs=0.1)
    assert low <= 10
    assert high >= 50


def test_noise_counts_with_skips_and_what_was_not_finite_is_left_out() -> None:
    seen = run("darts-s4", 0, 1.0, None, 3.0)
    for epoch in seen["seen"]:
        epoch |= {"skip_share": 0.25, "noise_share": 0.5}
    root = read(plots({"measure": "searches", "runs": [seen]})["collapse"])
    shares, curvatures = (places(path) for _, path in drawn(root))
    axes = Axes.of(Panel("", [], "", "", SHARES))
    assert [y for _, y in shares] == pytest.approx([axes.at(0, 0.75)[1]] * 3, abs=0.06)
    assert len(curvatures) == 2


def test_the_truth_of_searches_is_a_panel_for_each_method() -> None:
    epochs = [{"epoch": e, "test_accuracy": 80.0 + e} for e in (1, 2, 3)]
    names = [f"method{k}" for k in range(5)]
    runs = [{"method": m, "seed": s, "epochs": epochs} for s in (0, 1) for m in names]
    at_its_end = {"method": "rsps", "seed": 0, "epochs": []}
    assert plots({"measure": "truth", "runs": [at_its_end]}) == {}
    found = plots({"measure": "truth", "runs": [*runs, at_its_end]})
    assert list(found) == ["accuracy"]
    root = read(found["accuracy"])
    groups = root.findall(f"{SVG}g")
    lines = [[called for called, _ in drawn(group)] for group in groups]
    assert lines == [[f"{name}, seed {seed}" for seed in (0, 1)] for name in names]
    assert [name in words(group) for name, group in zip(names, groups, strict=True)] == [True] * 5
    assert root.findall(f"{SVG}text") == []  # no legend: each panel says whose it is


def measured(images: str, minutes: float, contender: str, accuracy: float) -> dict[str, Any]:
    row = {"images": images, "minutes": minutes, "contender": contender}
    return {**row, "accuracy": accuracy, "interval": 0.02}


def test_rivals_have_a_panel_for_each_set_and_a_line_with_intervals_for_each_contender() -> None:
    names = ("ardor", "cnn")
    rows = [
        measured(images, minutes, name, 0.99 - 0.2 * at - 0.1 * (minutes == 1))
        for images in ("digits", "signs", "cifar10-600", "fashion")
        for minutes in (5.0, 1.0)  # a line goes from the short time to the long one all the same
        for at, name in enumerate(names)
    ]
    (name,), (text,) = zip(*plots({"measure": "rivals", "table": rows}).items(), strict=True)
    root = read(text)
    assert name == "accuracy"
    groups = root.findall(f"{SVG}g")
    assert [words(group)[-2] for group in groups] == ["digits", "signs", "cifar10-600", "fashion"]
    assert set(names) <= set(words(root))  # the legend
    for group in groups:
        lines = dict(drawn(group))
        assert list(lines) == list(names)
        assert {"1", "5", "CPU minutes", "test accuracy, %"} <= set(words(group))
        assert "2" not in words(group)  # nothing was measured there
        for line in lines.values():
            (x, low), (later, high) = places(line)
            assert x < later
            assert low > high  # more accurate: nearer to the top
        bars = [path for path in group.iter(f"{SVG}path") if " V" in path.attrib["d"]]
        assert len(bars) == 4
        dots = [float(dot.attrib["cx"]) for dot in group.iter(f"{SVG}circle")]
        assert len(dots) == len(set(dots)) == 4  # side by side: no bar hides another


def test_an_interval_ends_at_all_images() -> None:
    row = measured("digits", 1.0, "cnn", 0.995)
    root = read(plots({"measure": "rivals", "table": [row]})["accuracy"])
    assert "100" in words(root)
    assert not {"101", "102"} & set(words(root))


def test_accuracies_have_more_room_the_fewer_errors_are_left() -> None:
    axes = Axes.of(Panel("", [], "", "", ACCURACIES))
    heights = [axes.at(0, accuracy)[1] for accuracy in (0, 50, 80, 90, 92, 94, 94.37)]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] == axes.bottom
    halved = [axes.at(0, 100 - error)[1] for error in (80, 40, 20, 10)]
    steps = [low - high for low, high in zip(halved, halved[1:], strict=False)]
    assert steps == pytest.approx([steps[0]] * 3)  # an error half as large is as far each time


def test_other_benches_and_no_epochs_have_nothing_to_draw() -> None:
    assert plots({"measure": "networks", "runs": []}) == {}
    assert plots({"bench": "digits", "runs": []}) == {}  # an older result
    root = read(plots({"measure": "searches", "runs": [run("random-s1", 0)]})["collapse"])
    assert drawn(root) == []


@pytest.mark.parametrize(
    ("points", "shown"),
    [
        ([(1, 0.0), (30, 1.0)], ["10", "20", "30"]),
        ([(4, 0.0), (6, 1.0)], ["4", "5", "6"]),
        ([(7, 0.5)], ["7"]),
        ([(0, -2.0), (2000, 3e6)], ["0", "500", "1000", "1500", "2000"]),
    ],
)
def test_ticks_are_round_and_within(points: list[tuple[int, float]], shown: list[str]) -> None:
    root = read(alone([{"method": "a", "seed": 0, "points": points}]))
    (group,) = root.findall(f"{SVG}g")
    ticks = [t.text for t in group.iter(f"{SVG}text") if t.attrib["text-anchor"] == "middle"]
    assert [t for t in ticks if t and t[0].isdigit()] == shown


def test_names_are_escaped_and_the_text_is_the_same_each_time() -> None:
    runs = [{"method": "<a & b>", "seed": 0, "points": [(1, 1.0), (2, 2.0)]}]
    runs += [{**runs[0], "method": "c"}]
    text = alone(runs, y="5 < 6")
    assert {"<a & b>", "5 < 6"} <= set(words(read(text)))
    assert text == alone(runs, y="5 < 6")


def test_a_long_legend_takes_more_lines_and_stays_inside() -> None:
    runs = [{"method": f"method{k}", "seed": 0, "points": [(1, 1.0)]} for k in range(12)]
    root = read(alone(runs))
    names = [t for t in root.findall(f"{SVG}text") if (t.text or "").startswith("method")]
    assert len({t.attrib["y"] for t in names}) > 1
    assert all(float(t.attrib["x"]) + 60 < float(root.attrib["width"]) for t in names)
