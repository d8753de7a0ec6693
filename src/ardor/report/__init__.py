"""One HTML page for a run folder, and found cells as SVG; from files alone, without torch."""

from ardor.report.drawing import draw
from ardor.report.edges import table
from ardor.report.page import report

__all__ = ["draw", "report", "table"]
