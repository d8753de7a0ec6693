"""Results of benches as tables of a terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.table import Table

from ardor.bench import tables
from ardor.bench.rivals.tables import small_tables
from ardor.cli.tables import table

WIDEST = 5  # with so many rows at most, each row is shown as a column


def bench_table(result: Mapping[str, Any]) -> Table | Group:
    """The result of a bench for reading."""
    if result["bench"] == "speed":
        return Group(ratios_table(result), growth_table(result))
    if result["bench"] == "rivals":
        shown = [table(s.title, s.columns, s.rows) for s in small_tables(result["table"])]
        return Group(*(line for each in shown for line in (each, "")))
    columns, rows = tables.cells(result)
    lines = [columns, *rows]
    if len(rows) <= WIDEST:
        lines = [list(cells) for cells in zip(*lines, strict=True)]  # a column for each row
    return Group(table("", lines[0], lines[1:]), *tables.notes(result))


def ratios_table(result: Mapping[str, Any]) -> Table:
    """Two contenders in each row: their ratio, and time and memory of both."""
    forms = {"cpu_seconds": "{:.3g}", "memory_mb": "{:,.0f}", "of_peak": "{:.1%}"}
    rows = []
    for row in result["table"]:
        pair = [result["costs"][row[who]] for who in ("ours", "other")]
        takes = [" / ".join(form.format(c[key]) for c in pair) for key, form in forms.items()]
        spread = f"{row['ratio_low']:.3g} to {row['ratio_high']:.3g}"
        rows.append((row["name"], row["other"], f"{row['ratio']:.3g}", spread, *takes))
    title = f"{result['threads']} threads; peak {result['peak_gflops']:.0f} GFLOP/s"
    return table(title, ("", "against", "ratio", "spread", "CPU s", "MB", "of peak"), rows)


def growth_table(result: Mapping[str, Any]) -> Group:
    """Time and memory of a step at each size, and how linearly they grow."""
    straight = [
        f"{line['step']}: a line in the {line['along']} within {line['largest_deviation']:.1%}"
        for line in result["lines"]
    ]
    rows = [
        (row["step"], f"{row['along']} {row['size']}", f"{row['cpu_seconds']:.3g}")
        + (f"{row['memory_mb']:,.0f}", f"{row['multiply_adds'] / 1e9:.3g}")
        for row in result["growth"]
    ]
    columns = ("", "size", "CPU s", "MB", "G multiply-adds")
    return Group("", *straight, table("", columns, rows))
