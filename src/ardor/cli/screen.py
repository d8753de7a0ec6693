"""What a person sees: progress with time left, tables, cells as text."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from ardor.bench import tables
from ardor.errors import printable
from ardor.settings.sections import NOTHING

if TYPE_CHECKING:
    from ardor.data.check import Summary
    from ardor.models.predict import Prediction
    from ardor.runtime.device import Progress

WIDEST = 5  # rows of a bench that stand side by side
PLAIN_LINE_EVERY = 30.0  # seconds, where there is no terminal to redraw


class Lines(Console):
    """Shows text as it is: names of classes and folders may look like markup, or like commands."""

    def __init__(self, **options: Any) -> None:
        plain: dict[str, Any] = {"soft_wrap": True, "highlight": False, "emoji": False}
        super().__init__(markup=False, **plain, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Every text that is printed, in a table or not, comes through here."""
        return super().render_str(printable(text), **options)


class Screen:
    """Progress and words on stderr; the result, as a table or as JSON, on stdout."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.out = Lines()
        self.err = Lines(stderr=True, quiet=quiet)
        self.as_json = as_json
        self._bars: Bars | None = None
        self._told = ("", 0, 0.0)

    def say(self, line: str) -> None:
        """A line of what happens."""
        self.err.print(line)

    def result(self, content: Any, table: Table | Group | str | None = None) -> None:
        """The result of a command: JSON where asked for, otherwise for reading."""
        self.out.print(json.dumps(content) if self.as_json or table is None else table)

    @contextmanager
    def watching(self, stage: str) -> Iterator[None]:
        """Shows the progress of a stage: a bar on a terminal, plain lines elsewhere."""
        if not self.err.is_terminal or self.err.quiet:
            yield
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[words]}"),
        )
        with Bars(*columns, console=self.err, transient=True) as self._bars:
            self._bars.add_task(f"{stage:<8}", total=1.0, words="")
            yield
        self._bars = None

    def progress(self, progress: "Progress") -> None:
        """Told at every step of a search or a training."""
        if progress.note:
            self.say(f"{progress.stage}: epoch {progress.epoch}, {progress.note}")
            return
        words = describe(progress)
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[0], completed=progress.done, words=words)
            return
        stage, epoch, at = self._told
        now = time.monotonic()
        new = (progress.stage, progress.epoch) != (stage, epoch)
        if (new and now - at > 1.0) or now - at > PLAIN_LINE_EVERY:
            self._told = (progress.stage, progress.epoch, now)
            self.say(f"{progress.stage}: {words}")


def describe(progress: "Progress") -> str:
    """Epoch, accuracy and time left in words."""
    accuracy = progress.terms.get("accuracy")
    seen = f", accuracy {accuracy:.1%}" if accuracy is not None else ""
    left = duration(progress.seconds_left)
    epochs = f"/{progress.epochs}" if progress.epochs else ""
    return f"epoch {progress.epoch}{epochs}{seen}, {left} left"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table; numbers to the right, and a group of lines in one cell."""
    made = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], (int, float)) for row in rows)
        made.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Group) else str(cell) for cell in row))
    return made


def metrics_table(metrics: Mapping[str, Any]) -> Table:
    """metrics.json for reading."""
    words = {
        "test_accuracy": ("test accuracy", "{:.2%}"),
        "test_nll": ("test negative log-likelihood", "{:.4f} nats"),
        "test_ece": ("test calibration error", "{:.2%}"),
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
    for key, (text, form) in words.items():
        if key in metrics:
            before = metrics.get(f"trained_{key}") if key != "test_accuracy" else None
            past = "" if before is None else f"{form.format(before)} -> "
            rows.append((text, past + form.format(metrics[key])))
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
    """Rows of results, with the same keys."""
    cells = [[_cell(key, value) for key, value in row.items()] for row in rows]
    return table("", [key.replace("_", " ") for key in rows[0]], cells)


def _cell(key: str, value: Any) -> str:
    if not isinstance(value, (int, float)):
        return "-" if value is None else str(value)
    return ("{:.2%}" if "accuracy" in key else "{:,.0f}").format(value)


def bench_table(result: Mapping[str, Any]) -> Table | Group:
    """The result of a bench for reading."""
    if result["bench"] == "speed":
        return Group(ratios_table(result), growth_table(result))
    columns, rows = tables.cells(result)
    lines = [columns, *rows]
    if len(rows) <= WIDEST:
        lines = [list(cells) for cells in zip(*lines, strict=True)]  # a column for each row
    return Group(table("", lines[0], lines[1:]), *tables.notes(result))


def estimate_table(found: Mapping[str, Any]) -> Group:
    """How long stages would take, what a step needs, and what the times were made of."""
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


def ratios_table(result: Mapping[str, Any]) -> Table:
    """Two contenders a row: their ratio, and what each takes."""
    forms = {"cpu_seconds": "{:.3g}", "memory_mb": "{:,.0f}", "of_peak": "{:.1%}"}
    said = []
    for row in result["table"]:
        pair = [result["costs"][row[who]] for who in ("ours", "other")]
        takes = [" / ".join(form.format(c[key]) for c in pair) for key, form in forms.items()]
        spread = f"{row['ratio_low']:.3g} to {row['ratio_high']:.3g}"
        said.append((row["name"], row["other"], f"{row['ratio']:.3g}", spread, *takes))
    title = f"{result['threads']} threads; peak {result['peak_gflops']:.0f} GFLOP/s"
    return table(title, ("", "against", "ratio", "spread", "CPU s", "MB", "of peak"), said)


def growth_table(result: Mapping[str, Any]) -> Group:
    """Time and memory of a step at each size, and how straight they grow with the batch."""
    straight = [
        f"{line['step']}: a line in the {line['along']} within {line['largest_deviation']:.1%}"
        for line in result["lines"]
    ]
    said = [
        (row["step"], f"{row['along']} {row['size']}", f"{row['cpu_seconds']:.3g}")
        + (f"{row['memory_mb']:,.0f}", f"{row['multiply_adds'] / 1e9:.3g}")
        for row in result["growth"]
    ]
    columns = ("", "size", "CPU s", "MB", "G multiply-adds")
    return Group("", *straight, table("", columns, said))


def predictions_table(found: "Sequence[Prediction]") -> Table:
    """What was seen in each image."""
    rows = [(str(p.path), p.label, f"{p.probability:.1%}") for p in found]
    return table("", ("image", "label", "probability"), rows)


def summary_table(found: "Summary") -> Table:
    """What was found in the data."""
    rows: list[tuple[str, Any]] = [("data", found.name), ("image", "x".join(map(str, found.shape)))]
    rows += [
        (f"class {name}", f"{train} to train on, {test} to test")
        for name, (train, test) in found.classes.items()
    ]
    rows += [("note", note) for note in found.notes]
    rows += [("problem", problem) for problem in found.problems or ["none found"]]
    return table("", ("", ""), rows)
