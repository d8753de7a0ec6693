"""A run killed at any moment and resumed ends with the bits of one that was left alone."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from standins.user import done

COMPARED = [
    "architecture.json",
    "architecture.svg",
    "trained/model.safetensors",
    "trained/config.json",
    "model/model.safetensors",
]
SETTINGS = {
    "space.layout": "R",
    "space.states": "1",
    "space.channels": "4",
    "search.epochs": "6",
    "search.batch": "16",
    "search.gate_rate": "0.1",  # so fast that candidates leave the supernet on the way
    "search.shrink": "2",
    "train.epochs": "12",
    "train.batch": "32",
    "train.augment": '["crop", "mirror", "zoom"]',
    "train.average": "0.9",
    "train.mixup": "0.2",
}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Two hundred small images of two classes, as arrays."""
    generator = np.random.default_rng(0)
    y = np.arange(200) % 2
    x = generator.integers(0, 120, (200, 8, 8)) + 100 * y[:, None, None]
    np.savez(tmp_path / "images.npz", x=x.astype(np.uint8), y=y.astype(np.uint8))
    return tmp_path / "images.npz"


def ardor(*arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ardor", *map(str, arguments)]
    return subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def words(images: Path, run: Path) -> list[object]:
    """Continues the run, or starts it where it has not got as far as a folder."""
    if run.exists():
        return ["resume", run]
    changes = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    return ["run", images, "--run", run, *changes]


def begin(images: Path, run: Path) -> subprocess.Popen[bytes]:
    """In a process of its own, which can be killed."""
    return ardor(*words(images, run))


def bits(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in COMPARED}


def figures(run: Path) -> dict[str, object]:
    """All that was measured, but for times and memory."""
    content = json.loads((run / "metrics.json").read_text())
    stages = sorted(content.pop("stages"))
    return {"stages": stages, **{k: v for k, v in content.items() if "latency" not in k}}


def kill_after(process: subprocess.Popen[bytes], run: Path, epochs: int, seconds: float) -> None:
    """Kills the process so many seconds after so many epochs were logged."""
    log = run / "log.jsonl"
    while not log.exists() or log.read_bytes().count(b"\n") < epochs:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    time.sleep(seconds)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def test_killed_at_random_moments_it_ends_the_same(images: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done(*words(images, whole))
    assert json.loads((whole / "metrics.json").read_text())["taken_out"] > 0
    chance = random.Random(time.time_ns())  # other moments each time: all must do
    early = begin(images, broken)
    time.sleep(chance.uniform(0.5, 4.0))  # perhaps before there is a folder
    early.kill()
    early.communicate(timeout=60)
    last = len((whole / "log.jsonl").read_text().splitlines()) - 5
    kill_after(begin(images, broken), broken, chance.randrange(1, last), chance.uniform(0.0, 0.15))
    done(*words(images, broken))
    assert bits(broken) == bits(whole)
    assert figures(broken) == figures(whole)
    assert not list(broken.rglob(".*"))


def test_asked_to_end_it_saves_and_says_how_to_go_on(images: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = begin(images, run)
    while not any((run / "checkpoint").glob("search-*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"hint:" in errors
    assert b"Traceback" not in errors
    newest = max((run / "checkpoint").iterdir())
    assert newest.name.startswith("search-")
