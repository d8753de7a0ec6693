"""The table of what was exported, in words."""

from collections.abc import Iterator, Mapping
from typing import Any

from ardor.reporting.format import count, number, scientific

COLUMNS = ("Format", "File", "Bytes", "Largest difference", "Allowed", "Time for one image")


def rows(content: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row of words for each format; unknown values are empty."""
    table = content.get("exports")
    for name, row in table.items() if isinstance(table, Mapping) else ():
        if isinstance(row, Mapping):
            size, *apart, time = map(
                number, map(row.get, ("bytes", "largest_difference", "tolerance", "latency_ms"))
            )
            yield (
                str(name),
                str(row.get("file", "")),
                "" if size is None else count(size),
                *("" if each is None else scientific(each) for each in apart),
                "" if time is None else f"{time:.3g} ms",
            )
