"""The picture and the table of layers before and after a network was made smaller."""

from typing import Any
from xml.etree import ElementTree

import pytest

from ardor.reporting.layers import chart, described, layers, rows

NAME = "{http://www.w3.org/2000/svg}"
EVIL = '<script>"&]]>'


def row(name: str, before: tuple[int, int], after: tuple[int, int] | None) -> dict[str, Any]:
    words = ("outputs", "weights")
    return {
        "layer": name,
        "before": dict(zip(words, before, strict=True)),
        "after": dict(zip(words, after, strict=True)) if after else {},
    }


FOUND = layers({
    "layers": [
        row("module.1", (300, 19200), (150, 4800)),
        row("module.block.conv", (64, 576), None),
        row("module.3.mixed.candidates.sep.0", (10, 1000), (10, 1)),
    ]
})  # fmt: skip


def bars(picture: str) -> list[list[float]]:
    """The widths of outline and filling of each bar."""
    found: list[list[float]] = []
    for rect in ElementTree.fromstring(picture).iter(f"{NAME}rect"):
        if rect.get("class") == "node":
            found.append([])
        found[-1].append(float(rect.attrib["width"]))
    return found


def test_bars_are_filled_as_far_as_a_layer_is_left() -> None:
    half, quarter, *gone, whole, sliver = bars(chart(FOUND))
    assert half[1] == half[0] / 2
    assert quarter[1] == quarter[0] / 4
    assert [len(bar) for bar in gone] == [1, 1]
    assert whole[1] == whole[0]
    assert 0 < sliver[1] < 2  # one weight of a thousand is seen


def test_every_layer_is_named_with_its_numbers() -> None:
    texts = "\n".join(ElementTree.fromstring(chart(FOUND)).itertext())
    assert "1: 150 of 300 outputs, 4,800 of 19,200 weights" in texts
    assert "block.conv: has left altogether" in texts
    assert "3.sep.0" in texts  # as the module itself calls it
    assert rows(FOUND)[1] == ("block.conv", "64", "has left altogether", "576", "0")


def test_the_picture_says_what_it_shows() -> None:
    said = "3 layers with 4,801 of 20,776 weights; 1 has left altogether"
    assert described(FOUND) == ElementTree.fromstring(chart(FOUND)).get("aria-label") == said


@pytest.mark.parametrize("name", ["conv", "stages.2.block" + ".with_a_long_name" * 9 + ".conv1"])
def test_names_of_many_layers_fit_beside_their_bars(name: str) -> None:
    many = [row(f"{name}.{i}", (512, 2_359_296), (511, 2_359_295)) for i in range(60)]
    root = ElementTree.fromstring(chart(layers({"layers": many})))
    assert len(bars(ElementTree.tostring(root, encoding="unicode"))) == 120
    shown = [text for text in root.iter(f"{NAME}text") if text.get("text-anchor") == "end"]
    assert len({text.text for text in shown}) == 60
    assert max(len(text.text or "") for text in shown) < 40
    height = float(root.attrib["height"])
    assert max(float(text.attrib["y"]) for text in root.iter(f"{NAME}text")) < height < 1300


def test_what_is_not_a_layer_is_left_out() -> None:
    strange = [5, {}, {"layer": "a"}, {"layer": "b", "before": {"outputs": 3}, "after": None}]
    assert layers({"layers": [*strange, row("c", (0, 0), (0, 0))]})[0].name == "c"
    assert layers({}) == layers({"layers": None}) == []
    assert chart(layers({"layers": [row("c", (0, 0), (0, 0))]})).count("<rect") == 2


def test_a_name_is_text() -> None:
    picture = chart(layers({"layers": [row(EVIL, (1, 1), (1, 1))]}))
    assert EVIL in "".join(ElementTree.fromstring(picture).itertext())
