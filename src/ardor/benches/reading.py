"""The result of a bench of runs, as cells to read: for a terminal and for a page."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

Row = Mapping[str, Any]


def cells(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns, and a row for each of the bench's; then what a paper prints."""
    rows = [measured(row, result["runs"]) for row in result["table"]]
    rows += [printed(row) for row in result.get("printed", {}).get("table", [])]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return columns, [[row.get(column, "") for column in columns] for row in rows]


def measured(row: Row, runs: Sequence[Row]) -> dict[str, str]:
    """One method: mean ± std over its seeds, and the best of them."""
    own = [run["metrics"]["stages"] for run in runs if run["method"] == row["method"]]
    shown = {
        "method": str(row["method"]),
        "seeds": ", ".join([str(row["seeds"]), *alike(row)]),
        "test accuracy": spread(row, "test_accuracy", "{:.2%}"),
        "parameters not zero": spread(row, "nonzero_params", "{:,.0f}"),
        "parameters": "-" if row["params"] is None else f"{row['params']:,.0f}",
        "search": took(own, "search"),
    }
    if "op_entropy" not in row:  # an older result
        return {**shown, "search to report": f"{row['seconds']:.0f} s"}
    return {
        **shown,
        "training": f"{row['train_seconds']:.0f} ± {row['train_seconds_std']:.0f} s",
        "operations kept": f"{row['ops_used']:.1f} kinds, {row['op_entropy']:.2f} nats",
        "collapse watch": ", ".join(watched(row)),
    }


def watched(row: Row) -> list[str]:
    """What the collapse watch saw; of a search without gates only what was kept."""
    said = [f"{row['skip_share']:.0%} skips, {row['pool_share']:.0%} pools"]
    if row["largest_curvature"] is not None:
        said.append(f"{row['collapsed']} of {row['seeds']} collapsed")
    return said


def alike(row: Row) -> list[str]:
    """How many runs are those of another row."""
    return [f"{count} as {other}" for other, count in row.get("same_as", {}).items()]


def spread(row: Row, name: str, form: str) -> str:
    """Mean ± standard deviation (best); a dash where nothing is known."""
    if row[name] is None:
        return "-"
    said = f"{form.format(row[name])} ± {form.format(row[name + '_std'])}"
    best = row.get(f"{name}_best")
    return said if best is None else f"{said} ({form.format(best)})"


def took(stages: Sequence[Row], name: str) -> str:
    """Mean ± standard deviation of the seconds of a stage; a dash where nothing is known."""
    seconds = [each[name]["seconds"] for each in stages if name in each]
    if not seconds:
        return "-"
    return f"{fmean(seconds):.0f} ± {stdev(seconds) if len(seconds) > 1 else 0.0:.0f} s"


def printed(row: Row) -> dict[str, str]:
    """What a paper prints for a method, in its own units."""
    return {
        "method": f"{row['method']}, as printed",
        "test accuracy": f"{row['test_accuracy_percent']} %",
        "parameters not zero": f"{row['nonzero_params_millions']} million",
        "search": f"{row['search_gpu_days']} GPU days",
    }


def notes(result: Mapping[str, Any]) -> list[str]:
    """What must be said beside the table, a sentence or two each."""
    said = []
    if any(row.get("test_accuracy_best") is not None for row in result["table"]):
        said.append(
            "In brackets: the run that is best on the test images, which decides nothing else."
        )
    if found := result.get("printed"):
        said.append(f"As printed: {found['where']}. {found['note']}".strip())
    if left := result.get("left"):
        said.append(f"Runs of this bench that are not finished: {left}.")
    return said
