"""What Ardor withstands: tries every bad case, part by part, and counts those that fail.

    python benchmarks/campaign [PART...] [--source src] [--results FILE]

A part is a file beside this one with `cases() -> dict[str, Case]`. `--source` is the `src` folder
of any checkout, so that one list of cases measures what was before a change and what is after it;
`--results` adds the counts to a JSON file, under the commit of that checkout.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trial import SECONDS, Ardor

HERE = Path(__file__).parent
PARTS = sorted(file.stem for file in HERE.glob("*.py") if "\ndef cases(" in file.read_text())


def main() -> int:
    """Tries the parts that were asked for; the number of cases that failed, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--source", type=Path, default=HERE.parents[1] / "src")
    parser.add_argument("--only", default="", help="Cases whose name holds this.")
    parser.add_argument("--results", type=Path)
    asked = parser.parse_args()
    source = asked.source.resolve()
    found = {part: tried(part, source, asked.only) for part in asked.parts or PARTS}
    for part, result in found.items():
        print(f"{part}: {result['tried']} tried, {len(result['failed'])} failed")
    if asked.results:
        keep(asked.results, source, found)
    return int(any(result["failed"] for result in found.values()))


def tried(part: str, source: Path, only: str) -> dict[str, Any]:
    """How many cases of a part were tried, and what went wrong in those that failed."""
    failed: dict[str, str] = {}
    begin = time.monotonic()
    cases = {name: case for name, case in import_module(part).cases().items() if only in name}
    for name, case in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                wrong = case(Ardor(source, Path(folder)))
            except Exception as error:  # an old Ardor may not even have what a case begins with
                wrong = f"{type(error).__name__}: {error}"
        print(f"{part}: {name}: {wrong or 'held'}", file=sys.stderr, flush=True)
        if wrong:
            failed[name] = wrong[:200]
    return {"tried": len(cases), "failed": failed, "seconds": round(time.monotonic() - begin)}


def keep(path: Path, source: Path, found: dict[str, Any]) -> None:
    """Adds the counts to what a file has of that commit."""
    content = json.loads(path.read_text()) if path.exists() else {"commits": {}}
    git = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=12"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    content["commits"].setdefault(commit, {}).update(found)
    about = {
        "format": 1,
        "bench": "campaign",
        "command": "python benchmarks/campaign",
        "commit": commit,
        "settings": {"seconds_a_command": SECONDS},
        "versions": {"python": platform.python_version(), "torch": version("torch")},
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "runs": [],  # none has a seed: every case is the same each time
    }
    path.write_text(json.dumps({**about, "commits": content["commits"]}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
