"""What is no bench loads none: the terminal is quick, and needs nothing that only benches do."""

import json
import subprocess
import sys
from pathlib import Path

from standins.user import TINY, pictures

SCRIPT = """
import json, sys
from ardor.cli import cli
for words in json.loads(sys.argv[1]):
    cli.main(words, prog_name="ardor", standalone_mode=False)
    loaded = sorted(name for name in sys.modules if name.startswith("ardor.bench"))
    assert not loaded, (words, loaded)
cli.main(["list", "benches"], prog_name="ardor", standalone_mode=False)
assert "ardor.bench.runs" in sys.modules
"""


def test_only_benches_load_benches(tmp_path: Path) -> None:
    data, run = str(pictures(tmp_path / "data", "a", "b")), str(tmp_path / "run")
    kinds = ("methods", "spaces", "data", "exporters", "presets", "settings")
    commands = [
        *(["list", kind] for kind in kinds),
        ["check", data],
        ["run", data, "--run", run, *TINY],
        ["show", run],
        ["compare", run],
        ["export", run],
        ["report", run],
    ]
    asked = [sys.executable, "-c", SCRIPT, json.dumps(commands)]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True)
    assert not done.returncode, done.stderr
