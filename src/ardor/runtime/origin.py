"""Where a result comes from: the facts it must carry to be made again."""

import functools
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

FORMAT = 1


def about(command: str) -> dict[str, Any]:
    """The facts from which a result can be made again: command, commit, versions, machine."""
    packages = ("ardor", "torch", "numpy", "onnxruntime")
    return {
        "format": FORMAT,
        "command": command,
        "commit": commit(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "machine": {"system": platform.system(), "processor": platform.machine()},
    }


@functools.cache
def commit() -> str:
    """The commit that Ardor's source is at; "" where the source is not in a git checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        # Another repository may lie around an installed Ardor: it does not track this file.
        tracked = subprocess.run(
            [*git, "ls-files", Path(__file__).name], capture_output=True, text=True
        )
        described = subprocess.run(
            [*git, "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True
        )
    except OSError:
        return ""
    return described.stdout.strip() if tracked.stdout.strip() else ""
