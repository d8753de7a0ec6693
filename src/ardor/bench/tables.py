"""The result of a bench of runs, as cells to read: for a terminal and for a page."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

Row = Mapping[str, Any]


def cells(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns, and a row for each of the bench's; then rows of a paper, or of the true table."""
    rows = [measured(row, result) for row in result["table"]]
    rows += [printed(row) for row in result.get("printed", {}).get("table", [])]
    rows += [queried(row) for row in result.get("queries", [])]
    rows += [optimum(result["optimum"])] if "optimum" in result else []
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return columns, [[row.get(column, "") for column in columns] for row in rows]


def measured(row: Row, result: Mapping[str, Any]) -> dict[str, str]:
    """One method: mean ± std over its seeds."""
    measure = result.get("measure", "networks")
    if measure == "gradients":
        return gradient(row)
    shown = {"method": str(row["method"]), "seeds": ", ".join([str(row["seeds"]), *alike(row)])}
    if measure == "pairs":
        return {**shown, **pair(row)}
    if measure in ("networks", "followed"):
        return {**shown, **network(row, result["runs"])}
    return {**shown, **(true_worth(row) if measure == "truth" else {}), **search(row)}


def network(row: Row, runs: Sequence[Row]) -> dict[str, str]:
    """Trained networks: mean ± std over seeds, and the best of them."""
    own = [run["metrics"]["stages"] for run in runs if run["method"] == row["method"]]
    shown = {
        "test accuracy": spread(row, "test_accuracy", "{:.2%}"),
        "parameters not zero": spread(row, "nonzero_params", "{:,.0f}"),
        "parameters": "-" if row["params"] is None else f"{row['params']:,.0f}",
        "search": took(row, own),
    }
    if "op_entropy" not in row:  # an older result
        return {**shown, "search to report": f"{row['seconds']:.0f} s"}
    return {
        **shown,
        "training": both(row, "train_seconds", "{:.0f}") + " s",
        "operations kept": f"{row['ops_used']:.1f} kinds, {row['op_entropy']:.2f} nats",
        "collapse watch": ", ".join(watched(row)),
    }


def pair(row: Row) -> dict[str, str]:
    """Architectures with their weights: how good and sure alone, or several together."""
    which = "test_" if row["ensemble_test_nll"] is None else "ensemble_test_"
    return {
        "test accuracy": both(row, f"{which}accuracy", "{:.2%}"),
        "nll": both(row, f"{which}nll", "{:.3f}"),
        "calibration error": both(row, f"{which}ece", "{:.1%}"),
        "parameters": both(row, "params", "{:,.0f}"),
        "multiply-adds": both(row, "macs", "{:,.0f}"),
        "search": both(row, "search_core_seconds", "{:.0f}") + " core s",
    }


def gradient(row: Row) -> dict[str, str]:
    """A kind of gradient: its distance from the true one, divided by the size of that."""
    shown = {"gradient": str(row["method"]), "drop rate": f"{row['drop']:g}"}
    for name in ("rates", "weights"):
        bias, error = row[f"{name}_bias"], row[f"{name}_bias_error"]
        shown[f"{name}: bias"] = f"{bias:.3f} ± {error:.3f}"
        shown[f"{name}: spread"] = f"{row[f'{name}_spread']:.2f}"
        shown[f"{name}: cosine"] = f"{row[f'{name}_cosine']:.3f}"
    return shown


def search(row: Row) -> dict[str, str]:
    """Searches alone: the operations they kept, and how long they took."""
    curvature = row["largest_curvature"]
    return {
        "kept": ", ".join(watched(row)),
        "largest curvature": "-" if curvature is None else f"{curvature:.2g}",
        "search": worked(row),
    }


def worked(row: Row) -> str:
    """The time of all cores together, which is the search's own; of older results, of the wall."""
    if row.get("search_core_seconds") is None:
        return both(row, "search_seconds", "{:.0f}") + " s"
    return both(row, "search_core_seconds", "{:.0f}") + " core s"


def true_worth(row: Row) -> dict[str, str]:
    """Cells chosen by searches: their accuracies in the table of NAS-Bench-201."""
    return {**accuracies(row), "ranks": ", ".join(f"{rank:,}" for rank in row["ranks"])}


def accuracies(row: Row) -> dict[str, str]:
    """True accuracies over seeds."""
    return {
        "true test accuracy, %": both(row, "test_accuracy", "{:.2f}"),
        "best": f"{row['test_accuracy_best']:.2f}",
        "worst": f"{row['test_accuracy_worst']:.2f}",
    }


def queried(row: Row) -> dict[str, str]:
    """Accuracies reached by choosing with the table's validation accuracies."""
    asked = f"{row['queries']:,} {'query' if row['queries'] == 1 else 'queries'}"
    return {
        "method": f"{row['method']}, {asked}",
        "seeds": str(row["seeds"]),
        **accuracies(row),
    }


def optimum(best: Row) -> dict[str, str]:
    """The best cell of all."""
    return {
        "method": "optimum",
        "true test accuracy, %": f"{best['test_accuracy']:.2f}",
        "ranks": f"{best['rank']}",
    }


def watched(row: Row) -> list[str]:
    """The measures of collapse; of a search without gates only the operations it kept."""
    facts = [f"{row['skip_share']:.0%} skips, {row['pool_share']:.0%} pools"]
    if row.get("noise_share"):  # only where it is a candidate; older results do not have it
        facts.append(f"{row['noise_share']:.0%} noise")
    if row["largest_curvature"] is not None:
        facts.append(f"{row['collapsed']} of {row['seeds']} collapsed")
    return facts


def alike(row: Row) -> list[str]:
    """How many runs were made for another row."""
    return [f"{count} as {other}" for other, count in row.get("same_as", {}).items()]


def spread(row: Row, name: str, form: str) -> str:
    """Mean ± standard deviation (best); a dash where there is no value."""
    if row[name] is None:
        return "-"
    best = row.get(f"{name}_best") if row["seeds"] > 1 else None
    return both(row, name, form) + ("" if best is None else f" ({form.format(best)})")


def both(row: Row, name: str, form: str) -> str:
    """Mean ± standard deviation; of a single run, its value."""
    mean = form.format(row[name])
    return mean if row["seeds"] == 1 else f"{mean} ± {form.format(row[name + '_std'])}"


def took(row: Row, stages: Sequence[Row]) -> str:
    """Mean ± standard deviation of the seconds of the searches; a dash where none was."""
    seconds = [each["search"]["seconds"] for each in stages if "search" in each]
    if not seconds:
        return "-"
    spread = stdev(seconds) if len(seconds) > 1 else 0.0
    found = {"seeds": row["seeds"], "seconds": fmean(seconds), "seconds_std": spread}
    return both(found, "seconds", "{:.0f}") + " s"


def printed(row: Row) -> dict[str, str]:
    """The figures that a paper publishes for a method, in its own units."""
    return {
        "method": f"{row['method']}, as published",
        "test accuracy": f"{row['test_accuracy_percent']} %",
        "parameters not zero": f"{row['nonzero_params_millions']} million",
        "search": f"{row['search_gpu_days']} GPU days",
    }


def notes(result: Mapping[str, Any]) -> list[str]:
    """Notes below the table, a sentence or two each."""
    lines = []
    if any(row.get("test_accuracy_best") is not None for row in result["table"]):
        lines.append(
            "In brackets: the run that is best on the test images, which decides nothing else."
        )
    if found := result.get("printed"):
        lines.append(f"As published: {found['where']}. {found['note']}".strip())
    if seconds := result.get("seconds_a_query"):
        lines.append(
            f"Accuracies are the table's, of {result['cells']:,} cells. A query is the full "
            f"training of one cell: {seconds:,.0f} s on the table's GPU, so that the time of one "
            "search pays for less than one."
        )
    if note := result.get("note"):
        lines.append(note)
    if draws := result.get("draws"):
        lines.append(
            f"Gradients of the expected loss in log delta and in the weights, in {draws:,} draws a "
            "problem: bias of their mean with its standard error, and standard deviation of one "
            "draw, both over the size of the true gradient; cosine of the mean and the true one."
        )
    if left := result.get("left"):
        lines.append(f"Runs of this bench that are not finished: {left}.")
    return lines
