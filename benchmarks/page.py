"""Writes docs/results/README.md, and the README's tables, from the JSON files beside it.

.venv/bin/python benchmarks/page.py digits=runs/bench/digits/results.json   takes a result in
.venv/bin/python benchmarks/page.py speed=runs/bench/speed/results.json     likewise
.venv/bin/python benchmarks/page.py                                         writes the pages anew
"""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ardor.bench import tables
from ardor.bench.plots import plots

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
MARKED = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)


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
    return head(*columns) + "".join(f"| {' | '.join(named(row))} |\n" for row in rows)


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


APART: dict[str, Callable[[dict[str, Any]], str]] = {"speed": ratios, "campaign": campaign}


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


def speed(result: dict[str, Any]) -> str:
    """The section on speed."""
    parts = [
        SPEED.format(rounds=len(result["runs"]), **result["size"]),
        ratios(result),
        COSTS.format(peak=result["peak_gflops"], threads=result["threads"]),
        costs(result),
        "How the cost of a step grows with one size, all others as above:",
        growth(result),
        "The straight lines that are nearest to the times against the batch:",
        straight(result),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def grid(result: dict[str, Any]) -> str:
    """The section on methods and seeds."""
    spread = (
        [] if result.get("measure") == "gradients" else ["Mean ± standard deviation over seeds."]
    )
    words = [*spread, *tables.notes(result)]
    return " ".join(words) + "\n\n" + table(result)


def withstood(result: dict[str, Any]) -> str:
    """The section on bad cases."""
    return "\n\n".join(filter(None, [result.get("note"), campaign(result)]))


SECTIONS = {"speed": speed, "campaign": withstood}


def page(results: dict[str, dict[str, Any]]) -> str:
    """All benches, with what made them."""
    parts = ["# Results", "", "Written by `benchmarks/page.py`."]
    for name, result in results.items():
        pictures = [f"![{plot}]({name}-{plot}.svg)\n\n" for plot in plots(result)]
        versions = ", ".join(f"{key} {value}" for key, value in result["versions"].items())
        made = (
            f"`{result['command']}` at {result['commit']}; {versions}; the whole of it: "
            f"[{name}.json]({name}.json)"
        )
        section = SECTIONS.get(result["bench"], grid)(result)
        parts += ["", f"## {name}", "", section, *pictures, made, *commands(result)]
    return "\n".join(parts) + "\n"


def commands(result: dict[str, Any]) -> list[str]:
    """What makes the first run of each row by itself."""
    rows = result.get("commands", {}).items()
    return ["", *(f"- {row}: `{command}`" for row, command in rows)] if rows else []


def readme(text: str, results: dict[str, dict[str, Any]]) -> str:
    """The README with the tables between its marks made anew, those that have a result."""
    return MARKED.sub(
        lambda m: m[1] + table(results[m[2]]) + m[3] if m[2] in results else m[0], text
    )


def load() -> dict[str, dict[str, Any]]:
    """Every result that is kept."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}


def main() -> None:
    """Takes new results in, and writes both pages."""
    for argument in sys.argv[1:]:
        name, _, source = argument.partition("=")
        shutil.copyfile(source, RESULTS / f"{name}.json")
    results = load()
    for name, result in results.items():
        for plot, svg in plots(result).items():
            (RESULTS / f"{name}-{plot}.svg").write_text(svg)
    (RESULTS / "README.md").write_text(page(results))
    path = ROOT / "README.md"
    path.write_text(readme(path.read_text(), results))


if __name__ == "__main__":
    main()
