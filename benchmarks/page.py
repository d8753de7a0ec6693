"""Writes the tables of README and docs between their marks, from the JSON files of docs/results.

.venv/bin/python benchmarks/page.py digits=runs/bench/digits/results.json   takes a result in
.venv/bin/python benchmarks/page.py speed=runs/bench/speed/results.json     likewise
.venv/bin/python benchmarks/page.py                                         writes the pages anew

`<!-- results: NAME -->` has a table, `<!-- made: NAME -->` what made it, `<!-- costs: NAME -->`
what is beside the ratios of speed, `<!-- front -->` the README's table; each up to `<!-- end -->`.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ardor.bench import tables
from ardor.bench.plots import plots
from ardor.bench.rivals.contenders import CONTENDERS
from ardor.bench.rivals.tables import means, small_tables

Results = dict[str, dict[str, Any]]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
MARKED = re.compile(r"(<!-- (\w+)(?:: ([\w-]+))? -->\n).*?(<!-- end -->)", re.S)
# Columns that are read after all others.
LAST = ("operations kept", "kept", "collapse watch")
# What the README shows: sets of images, at the longer of the times; sizes are those of the last.
FRONT = {
    "digits": "digits, 8x8",
    "sign-digits": "sign digits",
    "fashion-6000": "Fashion-MNIST, 6,000",
    "cifar10-600": "CIFAR-10, 600",
    "cifar10-6000": "CIFAR-10, 6,000",
}
TIMES = (1, 5)  # minutes

# What each ratio is, and what it was meant to be.
RATIOS = {
    "darts step": ("a step of `darts`: times faster than the plain one", "at least 8"),
    "vinnas step": ("a step of `vinnas`: times faster than the plain one", "at least 3"),
    "ranking": ("ranking a candidate: times more images a second than the plain one", "at least 8"),
    "local reparametrisation": ("a step of `vinnas`: times that with plain weights", "at most 1.5"),
    "data preparation": ("preparing the images: share of a step of `darts`", "below 0.03"),
}
MEMORY = ("peak memory of a step of `darts`: share of the plain one's", "at most 0.6")

SPEED = """CPU time over all threads, the best of {rounds} rounds in which all are timed in turn,
after a warm-up; the spread is the least and the largest ratio of one round. The plain one is
`src/ardor/bench/speed/plain_darts.py`: DARTS's supernet in eager, contiguous layers, one candidate
after another; a test holds it equal to Ardor's to 1e-9. All have {cells} cells of {channels}
channels with DARTS's {candidates} operations on {batch} images of {pixels}x{pixels}; a step is one
of the weights."""

COSTS = """Peak memory is that of a process of its own, beyond what it had before net and batch
were made. The processor's peak is {peak:.0f} GFLOP/s: a product of matrices on {threads} threads.
Shares of it are by the clock on the wall, and count the multiply-adds of convolutions and
classifier alone: a backward pass as two forward ones, variational weights twice, in our ranking
only the chosen candidates."""


def table(result: dict[str, Any]) -> str:
    """A bench as a Markdown table."""
    if result["bench"] in APART:
        return APART[result["bench"]](result)
    columns, rows = tables.cells(result)
    order = sorted(range(len(columns)), key=lambda at: columns[at] in LAST)
    lines = [f"| {' | '.join(named([row[at] for at in order]))} |\n" for row in rows]
    return head(*(columns[at] for at in order)) + "".join(lines)


def front(results: Results) -> str:
    """The README's table: how good each contender's networks are, and how large."""
    table = results["rivals"]["table"]
    mean = {(row["minutes"], row["contender"]): row["accuracy"] for row in means(table)}
    found = {(row["images"], row["minutes"], row["contender"]): row for row in table}
    short, long = TIMES
    lines = []
    for name in dict.fromkeys(row["contender"] for row in table if row["contender"] in CONTENDERS):
        rows = [found.get((images, long, name)) for images in FRONT]
        shares = [row and row["accuracy"] for row in rows]
        shares += [mean.get((long, name)), mean.get((short, name))]
        words = [f"`{name}`", *("-" if share is None else f"{share:.1%}" for share in shares)]
        last = rows[-1] or {}
        words.append(f"{last['nonzero_params']:,.0f}" if "nonzero_params" in last else "-")
        lines.append(f"| {' | '.join(words)} |\n")
    columns = (*FRONT.values(), "mean", f"mean, {short} minute", "weights left, CIFAR-10")
    return head(f"{long} minutes", *columns) + "".join(lines)


def named(row: list[str]) -> list[str]:
    """A row whose first cell is a name, and perhaps a word on it."""
    name, comma, words = row[0].partition(",")
    return [f"`{name}`{comma}{words}", *row[1:]]


def head(*columns: str) -> str:
    """The first two lines of a table."""
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"


def ratios(result: dict[str, Any]) -> str:
    """Every ratio of speed, beside what it was meant to be."""
    rows = {cells["name"]: cells for cells in result["table"]}
    lines = [
        f"| {words} | {rows[name]['ratio']:.3g} "
        f"| {rows[name]['ratio_low']:.3g} to {rows[name]['ratio_high']:.3g} | {meant} |"
        for name, (words, meant) in RATIOS.items()
    ]
    words, meant = MEMORY
    lines.insert(3, f"| {words} | {rows['darts step']['memory_ratio']:.3g} | | {meant} |")
    return head("measured", "ratio", "spread", "meant") + "\n".join(lines) + "\n"


def campaign(result: dict[str, Any]) -> str:
    """Bad cases of each part: how many were tried, and failed at the first commit and the last."""
    (_, before), *_, (_, now) = result["commits"].items()
    lines = [
        f"| {part} | {now[part]['tried']} | {failures(before.get(part))} | {failures(now[part])} |"
        for part in now
    ]
    return head("part", "cases", "failed before", "failed now") + "\n".join(lines) + "\n"


def failures(part: dict[str, Any] | None) -> str:
    """How many cases failed, and of how many where those were not all."""
    return "not tried" if part is None else f"{len(part['failed'])} of {part['tried']}"


def recipe(result: dict[str, Any]) -> str:
    """What each setting of the preset is worth, a table for each number of images."""
    parts = []
    for count in sorted({row["images"] for row in result["table"]}):
        rows = [row for row in result["table"] if row["images"] == count]
        usual = rows[0]["accuracy"]
        lines = [
            f"| {row['settings']} | {row['accuracy']:.1%} "
            f"| {100 * (row['accuracy'] - usual):+.1f} | {row['nll']:.3f} |\n"
            for row in rows
        ]
        seconds = next(run["seconds"] for run in result["runs"] if run["images"] == count)
        title = f"**{count:,} images, {seconds:.0f} CPU seconds**\n\n"
        parts.append(title + head("", "held-out accuracy", "points", "nll") + "".join(lines))
    return "\n".join(parts)


def versions(result: dict[str, Any]) -> str:
    """How many times as long each step takes as in an earlier version."""
    lines = [
        f"| {row['step']} | {row['before_seconds']:.3g} | {row['after_seconds']:.3g} "
        f"| {row['ratio']:.3f} | {row['ratio_low']:.3f} to {row['ratio_high']:.3f} |"
        for row in result["table"]
    ]
    columns = (f"CPU seconds at {result['before']}", f"at {result['after']}", "ratio", "spread")
    return head("step", *columns) + "\n".join(lines) + "\n"


def curvature(result: dict[str, Any]) -> str:
    """What the curvature in all gates takes beside a training step on the same batch."""
    lines = [
        f"| `{row['space']}`, {row['work']} | {row['memory_mb']:,.0f} | {row['memory_ratio']:.2f} "
        f"| {row['cpu_seconds']:.3g} | {row['time_ratio']:.2f} "
        f"| {row['time_ratio_low']:.2f} to {row['time_ratio_high']:.2f} |\n"
        for row in result["table"]
    ]
    columns = ("peak memory, MB", "ratio", "CPU seconds", "ratio", "spread")
    return head("", *columns) + "".join(lines)


def ranking(result: dict[str, Any]) -> str:
    """How many candidates a second are ranked, beside the whole supernet under masks."""
    lines = [
        f"| {row['candidates']:,} | {row['plain_a_second']:.2f} | {row['a_second']:.2f} "
        f"| {row['ratio']:.1f} | {row['ratio_low']:.1f} to {row['ratio_high']:.1f} "
        f"| {row['to_the_end']:,} | {'yes' if row['same_winner'] else 'no'} |\n"
        for row in result["table"]
    ]
    columns = ("a second, plain", "Ardor", "ratio", "spread", "measured to the end", "same winner")
    return head("candidates", *columns) + "".join(lines)


def compress(result: dict[str, Any]) -> str:
    """Networks before and after, under each prior."""
    lines = [
        f"| {row['case']} | `{row['prior']}` | {row['seeds']} "
        f"| {1 - row['trained_test_accuracy']:.2%} | {1 - row['test_accuracy']:.2%} "
        f"| {smaller(row, 'nonzero_params')} | {smaller(row, 'macs')} "
        f"| {row['cpu_seconds']:,.0f} |\n"
        for row in result["table"]
    ]
    columns = ("prior", "seeds", "error before", "after", "parameters not zero", "multiply-adds")
    return head("", *columns, "CPU s") + "".join(lines)


def smaller(row: dict[str, Any], name: str) -> str:
    """A size before and after, and how many times smaller it is."""
    before, after = row[f"trained_{name}"], row[name]
    return f"{before:,.0f} → {after:,.0f} ({before / after:.3g} times)"


def latency(result: dict[str, Any]) -> str:
    """Times of ONNX files before and after."""
    lines = [
        f"| {row['case']} | `{row['prior']}` | {row['batch']} "
        f"| {row['dense_ms']:.3g} | {row['small_ms']:.3g} | {row['saved_macs']:.0%} "
        f"| {row['saved_time']:.0%} | {row['saved_time'] / row['saved_macs']:.0%} "
        f"| {row['spread'] / row['saved_macs']:.1%} |\n"
        for row in result["runs"]
    ]
    columns = ("prior", "batch", "ms before", "ms after", "multiply-adds saved", "time saved")
    return head("", *columns, "share that becomes time", "spread") + "".join(lines)


def teacher(result: dict[str, Any]) -> str:
    """A network with a teacher and without."""
    lines = [
        f"| {row['learns']} | {row['seeds']} | {row['test_accuracy']:.2%} "
        f"| {share(row, 'teacher_agreement')} | {share(row, 'teacher_accuracy')} "
        f"| {row['nonzero_params']:,.0f} | {row['core_seconds']:,.0f} |\n"
        for row in result["table"]
    ]
    columns = ("test accuracy", "agrees with the teacher", "the teacher's own accuracy")
    return head("learns from", "seeds", *columns, "not zero", "CPU s") + "".join(lines)


def share(row: dict[str, Any], name: str) -> str:
    """A share of a row, if it has it."""
    return f"{row[name]:.1%}" if name in row else ""


def rivals(result: dict[str, Any]) -> str:
    """A small table for the means, then for each set of images and time."""
    parts = []
    for small in small_tables(result["table"]):
        lines = [f"| {' | '.join(named([*row]))} |\n" for row in small.rows]
        parts.append(f"**{small.title}**\n\n" + head(*small.columns) + "".join(lines))
    return "\n".join(parts)


APART: dict[str, Callable[[dict[str, Any]], str]] = {
    "speed": ratios,
    "campaign": campaign,
    "two versions": versions,
    "curvature": curvature,
    "ranking": ranking,
    "rivals": rivals,
    "recipe": recipe,
    "compress-lenet": compress,
    "compress-resnet20": compress,
    "compress-latency": latency,
    "teacher": teacher,
}


def costs(result: dict[str, Any]) -> str:
    """What each contender takes."""
    lines = [
        f"| {name} | {cost['cpu_seconds']:.3g} | {cost['images_per_second']:,.0f} "
        f"| {cost['memory_mb']:,.0f} | {cost['of_peak']:.1%} |"
        for name, cost in result["costs"].items()
    ]
    columns = ("", "CPU seconds", "images a second", "peak memory, MB", "of the processor's peak")
    return head(*columns) + "\n".join(lines) + "\n"


def growth(result: dict[str, Any]) -> str:
    """Time and memory against every size, each also for a billion multiply-adds."""
    lines = [
        f"| {row['step']} | {row['along']} {row['size']} | {row['multiply_adds'] / 1e9:.3g} "
        f"| {row['cpu_seconds']:.3g} | {row['memory_mb']:,.0f} "
        f"| {1e9 * row['cpu_seconds'] / row['multiply_adds']:.3g} |"
        for row in result["growth"]
    ]
    columns = ("", "size", "10^9 multiply-adds", "CPU seconds", "peak memory, MB")
    return head(*columns, "CPU seconds for 10^9") + "\n".join(lines) + "\n"


def straight(result: dict[str, Any]) -> str:
    """The lines through the times against the batch, in words."""
    return "\n".join(
        f"- {line['step']}: {line['level']:.3g} s + {1000 * line['slope']:.3g} ms for each image; "
        f"no measured time is further than {line['largest_deviation']:.1%} from that line."
        for line in result["lines"]
    )


def beside(result: dict[str, Any]) -> str:
    """What is measured beside the ratios of speed."""
    parts = [
        SPEED.format(rounds=len(result["runs"]), **result["size"]),
        COSTS.format(peak=result["peak_gflops"], threads=result["threads"]),
        costs(result),
        "How the cost of a step grows with one size, all others as above:",
        growth(result),
        "The straight lines that are nearest to the times against the batch:",
        straight(result),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def made(name: str, result: dict[str, Any]) -> str:
    """What must be said of a result, the command and versions that made it, and all of it."""
    over_seeds = result["bench"] not in APART and result.get("measure") != "gradients"
    notes = ["Mean ± standard deviation over seeds."] if over_seeds else []
    notes += tables.notes({"table": [], **result})
    versions = ", ".join(f"{key} {value}" for key, value in result["versions"].items())
    by = (
        f"Made by `{result['command']}` at {result['commit']}; {versions}; "
        f"the whole of it: [{name}.json]({name}.json)"
    )
    rows = [f"- {row}: `{command}`" for row, command in result.get("commands", {}).items()]
    every = commands_of_rivals(result) if result["bench"] == "rivals" else ""
    return "\n\n".join(filter(None, [" ".join(notes), by, "\n".join(rows), every])) + "\n"


def commands_of_rivals(result: dict[str, Any]) -> str:
    """The command of each row, to be unfolded: they are many; "" for an older result."""
    rows = [
        f"- {row['images']}, {row['minutes']:g} min, {row['contender']}: `{row['command']}`\n"
        for row in result["table"]
        if "command" in row
    ]
    summary = "<summary>The command of each row; images/ is in the folder of the bench</summary>"
    return f"<details>{summary}\n\n{''.join(rows)}\n</details>" if rows else ""


def renewed(text: str, results: Results) -> str:
    """A page with all that stands between its marks made anew, where there is a result for it."""

    def content(mark: re.Match[str]) -> str:
        opening, kind, name, end = mark.groups()
        if kind == "front":
            return opening + front(results) + end
        if name not in results:
            return mark[0]
        kinds = {"results": table, "costs": beside, "made": partial(made, name)}
        return opening + kinds[kind](results[name]) + end

    return MARKED.sub(content, text)


def load() -> Results:
    """Every result that is kept."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}


def pages() -> list[Path]:
    """Everything that is written for people, in which marks can stand."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> None:
    """Takes new results in, and writes plots and pages."""
    for argument in sys.argv[1:]:
        name, _, source = argument.partition("=")
        shutil.copyfile(source, RESULTS / f"{name}.json")
    results = load()
    for name, result in results.items():
        for plot, svg in plots(result).items():
            (RESULTS / f"{name}-{plot}.svg").write_text(svg)
    for path in pages():
        path.write_text(renewed(path.read_text(), results))


if __name__ == "__main__":
    main()
