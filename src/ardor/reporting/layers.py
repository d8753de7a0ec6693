"""The layers of a network before and after it was made smaller, as a picture and in numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from ardor.reporting.charts import write
from ardor.reporting.format import count, number
from ardor.reporting.svg import add, render, svg, text_width

COLUMNS = ("Layer", "Outputs", "Outputs left", "Weights", "Weights left")
GONE = "has left altogether"
_NAME, _BAR, _GAP = 220.0, 150.0, 14.0  # widths of what a row has
_WORDS = (90.0, 170.0)  # of outputs and of weights
_TOP, _ROW, _THICK = 46.0, 19.0, 11.0
_SLIVER = 1.0  # of a bar that would not be seen
_SIZE = 11.0  # of text
# What Ardor adds to the names of layers: for the module in a network, and for candidates in it.
_WRAPPED, _CANDIDATES = "module.", ".mixed.candidates."


@dataclass(frozen=True)
class Amount:
    """So many outputs or weights, before and after."""

    before: float
    after: float

    @property
    def share(self) -> float:
        """How much is left."""
        return min(1.0, self.after / self.before) if self.before else 0.0

    @property
    def words(self) -> str:
        """Both, for reading."""
        return f"{count(self.after)} of {count(self.before)}"


@dataclass(frozen=True)
class Layer:
    """A convolution or a linear map."""

    name: str
    outputs: Amount
    weights: Amount  # that are not zero

    @property
    def gone(self) -> bool:
        """Whether nothing of it is left."""
        return not self.outputs.after

    @property
    def words(self) -> str:
        """What is left of it, for reading."""
        left = f"{self.outputs.words} outputs, {self.weights.words} weights"
        return f"{self.name}: {GONE if self.gone else left}"


def layers(content: Mapping[str, Any]) -> list[Layer]:
    """The layers in layers.json, in the order of the network, without invalid ones."""
    rows = content.get("layers")
    found = []
    for row in rows if isinstance(rows, list) else []:
        values = row if isinstance(row, Mapping) else {}
        before, after = _numbers(values.get("before")), _numbers(values.get("after"))
        if "layer" in values and len(before) == 2:
            amounts = (Amount(each, after.get(name, 0.0)) for name, each in before.items())
            name = str(values["layer"]).removeprefix(_WRAPPED).replace(_CANDIDATES, ".")
            found.append(Layer(name, *amounts))
    return found


def _numbers(content: Any) -> dict[str, float]:
    """Outputs and weights, as far as they are there."""
    values = content if isinstance(content, Mapping) else {}
    known = {name: number(values.get(name)) for name in ("outputs", "weights")}
    return {name: value for name, value in known.items() if value is not None}


def rows(found: Sequence[Layer]) -> list[tuple[str, ...]]:
    """The layers in words, by `COLUMNS`."""
    return [
        (
            layer.name,
            count(layer.outputs.before),
            GONE if layer.gone else count(layer.outputs.after),
            count(layer.weights.before),
            count(layer.weights.after),
        )
        for layer in found
    ]


def chart(found: Sequence[Layer]) -> str:
    """An SVG: for each layer a bar of its outputs and one of its weights, filled as far as left."""
    width = _places()[1] + _BAR + _WORDS[1]
    root = svg(width, _TOP + _ROW * len(found) + 8, described(found))
    add(root, "text", "What is left of each layer", class_="title", x=8.0, y=16.0, font_size=13.0)
    for title, x in zip(("outputs", "weights that are not zero"), _places(), strict=True):
        write(root, title, x, _TOP - 9, "start")
    for index, layer in enumerate(found):
        _draw_row(root, layer, _TOP + _ROW * index)
    return render(root)


def described(found: Sequence[Layer]) -> str:
    """The picture in a sentence."""
    weights = Amount(sum(x.weights.before for x in found), sum(x.weights.after for x in found))
    gone = sum(layer.gone for layer in found)
    left = f"; {count(gone)} {'has' if gone == 1 else 'have'} left altogether" if gone else ""
    return f"{count(len(found))} layers with {weights.words} weights{left}"


def _places() -> tuple[float, float]:
    """Where the bars of outputs and those of weights begin."""
    first = _NAME + _GAP
    return first, first + _BAR + _WORDS[0] + _GAP


def _draw_row(root: Element, layer: Layer, y: float) -> None:
    row = add(root, "g", class_="first")
    add(row, "title", layer.words)
    middle = y + _THICK / 2 + 4
    name = _shortened(layer.name)
    add(row, "text", name, x=_NAME, y=middle, font_size=_SIZE, text_anchor="end")
    for amount, x in zip((layer.outputs, layer.weights), _places(), strict=True):
        _draw_bar(row, amount, x, y)
        words = GONE if layer.gone and amount is layer.weights else amount.words
        write(row, words, x + _BAR + 8, middle, "start")


def _draw_bar(row: Element, amount: Amount, x: float, y: float) -> None:
    """The outline is what there was; so much of it is filled as is left."""
    add(row, "rect", class_="node", x=x, y=y, width=_BAR, height=_THICK)
    if amount.after:
        left = max(_SLIVER, amount.share * _BAR)
        add(row, "rect", class_="head", x=x, y=y, width=left, height=_THICK)


def _shortened(name: str) -> str:
    """A name that fits; of a long one the ends, which tell where a layer is and what it is."""
    short, left = name, len(name)
    while text_width(short, _SIZE) > _NAME:
        left -= 1
        short = f"{name[: left // 3]}…{name[-(left - left // 3) :]}"
    return short
