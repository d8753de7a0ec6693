"""Results as tables in a terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table

from ardor.settings.sections import NOTHING

if TYPE_CHECKING:
    from ardor.data.check import Summary
    from ardor.models.predict import Prediction
from ardor.cli.screen import duration


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table; numbers to the right, and a group of lines in one cell."""
    made = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], (int, float)) for row in rows)
        made.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Group) else str(cell) for cell in row))
    return made


def metrics_table(metrics: Mapping[str, Any], exported: Sequence[Sequence[str]] = ()) -> Table:
    """metrics.json for reading, and a row for each format that was exported."""
    words = {
        "test_accuracy": ("test accuracy", "{:.2%}"),
        "test_nll": ("test negative log-likelihood", "{:.4f} nats"),
        "test_ece": ("test calibration error", "{:.2%}"),
        "held_out_accuracy": ("held-out accuracy (no test images)", "{:.2%}"),
        "held_out_nll": ("held-out negative log-likelihood", "{:.4f} nats"),
        "held_out_ece": ("held-out calibration error", "{:.2%}"),
        "trained_test_accuracy": ("test accuracy before pruning", "{:.2%}"),
        "untuned_validation_accuracy": ("validation accuracy before fine-tuning", "{:.2%}"),
        "validation_accuracy": ("validation accuracy after fine-tuning", "{:.2%}"),
        "threshold": ("pruned where log(sigma^2 / mu^2) is", "{:g}"),
        "params": ("parameters", "{:,}"),
        "nonzero_params": ("parameters that are not zero", "{:,}"),
        "macs": ("multiply-adds for an image", "{:,}"),
        "file_bytes": ("bytes of the weights", "{:,}"),
        "sparse_bytes": ("bytes of the weights, stored sparsely", "{:,}"),
        "onnx_bytes": ("bytes of the ONNX file", "{:,}"),
        "latency_ms": ("milliseconds for an image, one thread", "{:.3g}"),
        "certainty": ("certainty of what was kept, on average", "{:.0%}"),
        "against_odds": ("kept although another option is likelier", "{:,}"),
        "taken_out": ("candidates taken out of the search", "{:,}"),
        "skip_share": ("skip connections among kept operations", "{:.0%}"),
        "pool_share": ("pools among kept operations", "{:.0%}"),
        "op_entropy": ("variety of kept operations", "{:.2f} nats"),
        "largest_curvature": ("largest curvature in the gates", "{:.3g}"),
        "collapsed_since": ("search collapsed since epoch", "{:,}"),
        "kept_epoch": ("epoch of the search that was kept", "{:,}"),
        "onnx_max_difference": ("largest difference of the ONNX file", "{:.1e}"),
    }
    rows = []
    if metrics.get("held_out_images") == 0:
        rows.append(("accuracy", "not measured: no test images, and none held out of the training"))
    for key, (text, form) in words.items():
        if key in metrics:
            before = metrics.get(f"trained_{key}") if key != "test_accuracy" else None
            past = "" if before is None else f"{form.format(before)} -> "
            rows.append((text, past + form.format(metrics[key])))
    for name, file, size, apart, allowed, _ in exported:
        apart = f"logits differ by {apart}, allowed are {allowed}"
        rows.append((f"exported as {name}", f"{file}, {size} bytes; {apart}"))
    for stage, cost in metrics.get("stages", {}).items():
        rows.append((stage, f"{duration(cost['seconds'])}, {cost['peak_memory_mb']:,.0f} MB"))
    return table("", ("", ""), rows)


def curve_table(content: Mapping[str, Any]) -> Table:
    """curve.json for reading."""
    rows = [
        (
            "nothing leaves" if point["threshold"] >= NOTHING else f"{point['threshold']:g}",
            f"{point['params']:,}",
            f"{point['accuracy']:.2%}",
        )
        for point in content["points"]
    ]
    title = f"on {content['count']:,} {content['images']} images"
    return table(title, ("threshold", "parameters that are not zero", "accuracy"), rows)


def rows_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Results of runs side by side: a column for each run, a row for each figure."""
    figures = [key for key in rows[0] if key != "run"]
    cells = [[key.replace("_", " "), *(_cell(key, row[key]) for row in rows)] for key in figures]
    return table("", ["", *(Path(row["run"]).name for row in rows)], cells)


def _cell(key: str, value: Any) -> str:
    if not isinstance(value, (int, float)):
        return "-" if value is None else str(value)
    return ("{:.2%}" if "accuracy" in key else "{:,.0f}").format(value)


def estimate_table(found: Mapping[str, Any]) -> Group:
    """Estimated time and memory of stages, and the measured times they are made of."""
    rows, fitting = [], []
    for stage in ("search", "train"):
        if of := found.get(stage):
            needed = "not known" if of["memory_mb"] is None else f"{of['memory_mb']:,.0f} MB"
            early, late = of["warmup_step_seconds"], of["step_seconds"]
            warm = f" ({early:.3g} s at first)" if early != late else ""
            made = (
                f"{of['epochs']} epochs of {of['steps']} steps of {late:.3g} s{warm}"
                f" and {of['between_seconds']:.3g} s after each"
            )
            rows.append((stage, f"about {duration(of['seconds'])}", needed, made))
            if of["accumulate"] > 1:
                fitting.append(f"{stage}: with --set {stage}.accumulate={of['accumulate']}")
    return Group(table("", ("", "time", "memory of a step", "made of"), rows), *fitting)


def predictions_table(found: "Sequence[Prediction]") -> Table:
    """The label of each image, with its probability."""
    rows = [(str(p.path), p.label, f"{p.probability:.1%}") for p in found]
    return table("", ("image", "label", "probability"), rows)


def summary_table(found: "Summary") -> Table:
    """Counts, notes and problems of the data."""
    rows: list[tuple[str, Any]] = [("data", found.name), ("image", "x".join(map(str, found.shape)))]
    rows += [
        (f"class {name}", f"{train} to train on, {test} to test")
        for name, (train, test) in found.classes.items()
    ]
    rows += [("note", note) for note in found.notes]
    rows += [("problem", problem) for problem in found.problems or ["none found"]]
    return table("", ("", ""), rows)
