"""A small writer of SVG: elements with escaped text, and the width of text."""

import re
from importlib.resources import files
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NARROW, _WIDE = frozenset(" .,:;·'|!()[]/ijlfrtI-"), frozenset("mwMW%@×")


def svg(width: float, height: float, label: str) -> Element:
    """An empty picture; `label` is what a screen reader says."""
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "ardor", "role": "img"})
    resize(root, width, height)
    root.set("aria-label", clean(label))
    return root


def resize(root: Element, width: float, height: float) -> None:
    """Give a picture its size once it is known."""
    w, h = f"{width:.0f}", f"{height:.0f}"
    for name, value in (("width", w), ("height", h), ("viewBox", f"0 0 {w} {h}")):
        root.set(name, value)


def add(parent: Element, tag: str, text: str = "", **attributes: str | float) -> Element:
    """A new child; the names `class_` and `stroke_width` become class and stroke-width."""
    named = {
        key.rstrip("_").replace("_", "-"): clean(value) if isinstance(value, str) else point(value)
        for key, value in attributes.items()
    }
    child = ElementTree.SubElement(parent, tag, named)
    child.text = clean(text) or None
    return child


def render(root: Element) -> str:
    """The picture as text."""
    return ElementTree.tostring(root, encoding="unicode")


def stylesheet() -> str:
    """Colours of both schemes and the styles of drawings and charts."""
    return files("ardor.reporting").joinpath("drawing.css").read_text(encoding="utf-8")


def point(value: float) -> str:
    """A coordinate, to a tenth of a pixel or a hundredth below one."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 1 else f"{value:.1f}"


def clean(text: str) -> str:
    """Text without the characters that XML does not allow."""
    return _ILLEGAL.sub("\ufffd", text)


def text_width(text: str, size: float) -> float:
    """An upper estimate of the width of a text: fonts differ between machines."""
    ems = (0.4 if c in _NARROW else 1.0 if c in _WIDE or c > "\u2000" else 0.65 for c in text)
    return size * sum(ems)
