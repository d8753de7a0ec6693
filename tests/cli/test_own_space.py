"""A space of one's own from end to end: the example, by three methods, and in another process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from ardor.cli import cli

ROOT = Path(__file__).parents[2]
SPACE = "examples.mobile"
TINY = [
    *("--set", "space.channels=4", "--set", "space.depth=2", "--epochs", "1"),
    *("--set", "search.fraction=0.1", "--set", "search.batch=16", "--set", "train.batch=256"),
]


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


def ardor(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result


def apart(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which trusts nothing yet."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "ardor", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("darts", ["--set", "train.start=search"]),
        ("sivdnas", ["--set", "network.channels=6", "--set", "train.variational=false"]),
    ],
)
def test_the_example_runs_from_end_to_end(method: str, more: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["run", "digits", "--space", SPACE, "--method", method, "--run", run]
    result = json.loads(ardor(*words, *TINY, *more, "--json").stdout)
    assert result["test_accuracy"] > 0
    assert 0 < result["nonzero_params"] <= result["params"]
    found = json.loads((run / "architecture.json").read_text())
    assert found["space"] == SPACE
    assert found["settings"]["channels"] == 4
    assert set(found["kept"]) == {"layer0", "layer1", "read"}
    for name in ("architecture.svg", "report.html", "export/model.onnx", "model/model.safetensors"):
        assert (run / name).stat().st_size > 0
    assert "network" in ardor("show", run).stdout


def test_step_by_step_and_in_another_process_that_is_told_whom_to_trust(tmp_path: Path) -> None:
    run, picture = tmp_path / "run", tmp_path / "seven.png"
    ardor("search", "digits", "--space", SPACE, "--run", run, *TINY)
    said = apart("train", run)
    assert said.returncode == 1
    assert f"the space '{SPACE}' is a module that is imported only where you name it" in said.stderr
    for step in ("train", "prune", "export", "evaluate", "report"):
        ardor(step, run)
    ardor("prune", run, "--threshold", "-30")
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(picture)
    said = apart("predict", run, picture, "--trust", SPACE, "--json")
    assert said.returncode == 0, said.stderr
    (found,) = json.loads(said.stdout)
    assert sum(found["probabilities"].values()) == pytest.approx(1, abs=1e-5)
