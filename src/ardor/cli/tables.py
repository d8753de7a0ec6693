"""Results as tables in a terminal."""

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table

from ardor.reporting import compression, layers
from ardor.settings.sections import NOTHING

if TYPE_CHECKING:
    from ardor.data.check import Summary
    from ardor.models.predict import Prediction
from ardor.cli.screen import duration

BETWEEN = 3  # characters between two columns


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table; numbers to the right, and a group of lines in one cell."""
    made = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], (int, float)) for row in rows)
        made.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Group) else str(cell) for cell in row))
    return made


FIGURES = {
    "test_accuracy": ("accuracy on test images", "{:.2%}"),
    "held_out_accuracy": ("accuracy on held-out images (no test images)", "{:.2%}"),
    "trained_test_accuracy": ("accuracy {before}", "{:.2%}"),
    "untuned_validation_accuracy": ("validation accuracy before fine-tuning", "{:.2%}"),
    "validation_accuracy": ("validation accuracy after fine-tuning", "{:.2%}"),
    "teacher_agreement": ("says what its teacher says, of the same images", "{:.2%}"),
    "teacher_accuracy": ("accuracy of the teacher", "{:.2%}"),
    "params": ("parameters", "{:,}"),
    "expected_params": ("parameters expected of a draw", "{:,.0f}"),
    "nonzero_params": ("parameters that are not zero", "{:,}"),
    "macs": ("multiply-adds for an image", "{:,}"),
    "expected_macs": ("multiply-adds expected of a draw", "{:,.0f}"),
    "onnx_bytes": ("bytes of the ONNX file", "{:,}"),
    "latency_ms": ("milliseconds for an image, one thread", "{:.3g}"),
    "certainty": ("certainty of what was kept, on average", "{:.0%}"),
    "against_odds": ("kept although another option is likelier", "{:,}"),
    "taken_out": ("candidates taken out of the search", "{:,}"),
    "op_entropy": ("variety of kept operations", "as of {:.1f} kinds"),
    "collapsed_since": ("search collapsed since epoch", "{:,}"),
    "kept_epoch": ("epoch of the search that was kept", "{:,}"),
}


SCORES = {
    "accuracy": ("accuracy", "{:.2%}"),
    "nll": ("nats per image", "{:.3f}"),
    "ece": ("calibration error", "{:.2%}"),
}
SIZES = ("params", "nonzero_params", "macs", "onnx_bytes")
UNLESS_NONE = ("against_odds", "taken_out")  # figures of which a zero is no news


def metrics_table(
    metrics: Mapping[str, Any],
    exported: Sequence[Sequence[str]] = (),
    warnings: Sequence[str] = (),
    pruned: str = "",
) -> Table:
    """What a person asks first of metrics.json, and a row for each format that was exported.

    The rest, and the words of the theory, are in the report and in the JSON.
    """
    rows = [("warning", warning) for warning in warnings]
    if metrics.get("held_out_images") == 0:
        rows.append(("accuracy", "not measured: no test images, and none held out of the training"))
    for key, (text, form) in FIGURES.items():
        if key in metrics and not (key in UNLESS_NONE and metrics[key] == 0):
            before = metrics.get(f"trained_{key}") if key != "test_accuracy" else None
            now = form.format(_plain(key, metrics[key]))
            past = "" if before is None else form.format(before)
            by = compression.times(before, metrics[key]) if before and key in SIZES else ""
            more = f" ({by} times smaller)" if by else ""
            words = f"{past} -> {now}{more}" if past not in ("", now) else now
            rows.append((text.format(before=compression.before(metrics)), words))
    rows += _together(metrics)
    rows += [("pruned by the search", pruned)] if pruned else []
    rows += [(f"exported as {name}", f"{file}, {size} bytes") for name, file, size, *_ in exported]
    stages = metrics.get("stages", {})
    rows += [(f"time of {stage}", duration(cost["seconds"])) for stage, cost in stages.items()]
    if len(stages) > 1:
        rows.append(("time in all", duration(sum(cost["seconds"] for cost in stages.values()))))
    if stages:
        most = max(cost["peak_memory_mb"] for cost in stages.values())
        rows.append(("largest memory", f"{most:,.0f} MB"))
    return table("", ("", ""), rows)


def _together(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the networks of an ensemble reach together, and the first of them alone."""
    which = "held_out" if "held_out_images" in metrics else "test"
    rows = []
    for name, (words, form) in SCORES.items():
        alone, all_ = (metrics.get(f"{of}{which}_{name}") for of in ("", "ensemble_"))
        if alone is not None and all_ is not None and "ensemble_networks" in metrics:
            text = f"{metrics['ensemble_networks']} networks together: {words}"
            rows.append((text, f"{form.format(all_)} ({form.format(alone)} alone)"))
    return rows


def _plain(key: str, value: float) -> float:
    """An entropy as the number of options that would have it, were they all as likely."""
    return math.exp(min(value, 20.0)) if key == "op_entropy" else value


def curve_table(content: Mapping[str, Any]) -> Table:
    """curve.json for reading."""
    rows = [
        (
            "nothing leaves" if point["threshold"] >= NOTHING else f"{point['threshold']:g}",
            f"{point['params']:,}",
            f"{point['macs']:,}",
            f"{point['accuracy']:.2%}",
            f"{point['nll']:.4f}",
        )
        for point in content["points"]
    ]
    title = f"on {content['count']:,} {content['images']} images"
    columns = ("parameters that are not zero", "multiply-adds", "accuracy", "nats per image")
    return table(title, ("threshold", *columns), rows)


def layers_table(content: Mapping[str, Any]) -> Table:
    """layers.json for reading."""
    return table("", tuple(map(str.lower, layers.COLUMNS)), layers.rows(layers.layers(content)))


def rows_table(rows: Sequence[Mapping[str, Any]]) -> Group:
    """Results of runs side by side, as many as a terminal is wide; the others below them."""
    figures = [key for key in rows[0] if key != "run"]
    names = [key.replace("_", " ") for key in figures]
    columns = [[Path(row["run"]).name, *(_cell(key, row[key]) for key in figures)] for row in rows]
    room = shutil.get_terminal_size().columns - max(map(len, names))
    parts: list[Table | str] = []
    for few in side_by_side(columns, room):
        heads, *lines = zip(*few, strict=True)
        cells = [[name, *line] for name, line in zip(names, lines, strict=True)]
        parts += [table("", ["", *heads], cells), ""]
    return Group(*parts[:-1])


def side_by_side(columns: Sequence[list[str]], room: int) -> Iterator[list[list[str]]]:
    """Columns in groups that fit into so many characters; a wide one has a group of its own."""
    few: list[list[str]] = []
    left = room
    for column in columns:
        width = max(map(len, column)) + BETWEEN
        if few and width > left:
            yield few
            few, left = [], room
        few.append(column)
        left -= width
    yield few


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
                if of["epochs"]
                else "no epochs"
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
    from ardor.data.left_out import grouped

    rows: list[tuple[str, Any]] = [("data", found.name), ("image", "x".join(map(str, found.shape)))]
    rows += [
        (f"class {name}", f"{train} to train on, {test} to test")
        for name, (train, test) in found.classes.items()
    ]
    rows += [("note", note) for note in found.notes]
    rows += [("left out", line) for line in grouped(found.left_out)]
    rows += [("problem", problem) for problem in found.problems or ["none found"]]
    return table("", ("", ""), rows)
