"""What the lines of a drawing mean."""

from xml.etree.ElementTree import Element

from ardor.reporting.cells import Cell
from ardor.reporting.format import FAMILIES
from ardor.reporting.svg import add, point, text_width

MARGIN = 20.0
THIN = 1.25  # lines of what fell
INK = "#57606a"  # for viewers that do not support the variables of the style sheet
# Families differ in dashes too, not only in colour.
DASHES = {
    "dilated": "10 4",
    "conv": "14 4 2 4",
    "pool": "2 4",
    "skip": "6 4",
    "none": "1 7",
    "noise": "2 2 6 2",
}


def legend(root: Element, found: list[Cell], width: float, y: float) -> float:
    """Draws the families that occur, wrapped to the width; returns the height."""
    edges = [edge for cell in found for edge in cell.edges]
    present = {edge.family for edge in edges}
    x, row = MARGIN, y + 12
    for kind in filter(present.__contains__, FAMILIES):
        room = 44 + text_width(FAMILIES[kind], 12) + 18
        if x + room > width + MARGIN and x > MARGIN:
            x, row = MARGIN, row + 22
        group = add(root, "g", class_=kind)
        path = f"M{point(x)},{point(row - 4)} h36"
        line = add(group, "path", d=path, class_="line", fill="none", stroke=INK)
        line.set("stroke-width", "3")
        line.set("stroke-dasharray", DASHES.get(kind, "none"))
        add(group, "text", FAMILIES[kind], x=x + 44, y=row, font_size=12.0, class_="soft")
        x += room
    if any(cell.fallen for cell in found):
        row += 22
        group = add(root, "g", class_="none")
        dashed(group, f"M{point(MARGIN)},{point(row - 4)} h36")
        words = "would have stayed by itself: fell with what it depends on"
        add(group, "text", words, x=MARGIN + 44, y=row, font_size=12.0, class_="soft")
    if any(edge.candidates for edge in edges):
        row += 22
        words = "Percentages are posterior probabilities; a wider line is a surer one."
        add(root, "text", words, x=MARGIN, y=row, font_size=12.0, class_="soft")
    return row - y + 4


def dashed(parent: Element, path: str) -> None:
    """The line of what fell."""
    line = add(parent, "path", d=path, class_="line", fill="none", stroke=INK)
    line.set("stroke-width", point(THIN))
    line.set("stroke-dasharray", "3 4")
