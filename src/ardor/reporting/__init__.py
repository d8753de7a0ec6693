"""One HTML page for a run folder, and found cells as SVG; from files alone, without torch."""

from ardor.reporting.cells import table
from ardor.reporting.drawing import draw
from ardor.reporting.page import report

__all__ = ["draw", "report", "table"]
