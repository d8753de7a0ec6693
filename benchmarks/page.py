"""Writes docs/results/README.md, and the README's table, from the JSON files beside it.

.venv/bin/python benchmarks/page.py digits=runs/bench/digits/results.json   takes a result in
.venv/bin/python benchmarks/page.py                                         writes the pages anew
"""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
MARKED = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.S)


def row(cells: dict[str, Any]) -> str:
    """One method: mean ± std over its seeds."""
    return (
        f"| `{cells['method']}` | {cells['seeds']} "
        f"| {cells['test_accuracy']:.2%} ± {cells['test_accuracy_std']:.2%} "
        f"| {cells['nonzero_params']:,.0f} ± {cells['nonzero_params_std']:,.0f} "
        f"| {cells['params']:,.0f} | {cells['seconds']:.0f} s |"
    )


def table(result: dict[str, Any]) -> str:
    """A bench as a Markdown table."""
    head = [
        "| method | seeds | test accuracy | parameters not zero | parameters | search to report |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *map(row, result["table"])]) + "\n"


def page(results: dict[str, dict[str, Any]]) -> str:
    """All benches, with what made them."""
    parts = [
        "# Results",
        "",
        "Mean ± standard deviation over seeds. Written by `benchmarks/page.py`.",
    ]
    for name, result in results.items():
        versions = ", ".join(f"{key} {value}" for key, value in result["versions"].items())
        made = f"`{result['command']}`; {versions}; the whole of it: [{name}.json]({name}.json)"
        parts += ["", f"## {name}", "", table(result), made]
    return "\n".join(parts) + "\n"


def readme(text: str, results: dict[str, dict[str, Any]]) -> str:
    """The README with the tables between its marks made anew."""
    return MARKED.sub(lambda m: m[1] + table(results[m[2]]) + m[3], text)


def load() -> dict[str, dict[str, Any]]:
    """Every result that is kept."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}


def main() -> None:
    """Takes new results in, and writes both pages."""
    for argument in sys.argv[1:]:
        name, _, source = argument.partition("=")
        shutil.copyfile(source, RESULTS / f"{name}.json")
    results = load()
    (RESULTS / "README.md").write_text(page(results))
    path = ROOT / "README.md"
    path.write_text(readme(path.read_text(), results))


if __name__ == "__main__":
    main()
