"""Fixtures that several tests share."""

import gc
import os
from pathlib import Path

import pytest
import torch

from ardor import discover
from ardor.data import Images
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress

torch.set_num_threads(1)


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> None:
    """Whoever collects garbage need not look at all that is imported, which takes 0.2 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test trusts the stand-ins, and nothing that another test has named."""
    standins = (Path(__file__).parent / "standins").glob("[a-z]*.py")
    monkeypatch.setattr(discover, "_trusted", {f"standins.{file.stem}" for file in standins})


@pytest.fixture
def bright() -> Images:
    """Sixty-four images of two classes: dark ones and bright ones."""
    labels = torch.arange(64) % 2
    pixels = torch.randint(0, 100, (64, 1, 8, 8)) + 100 * labels[:, None, None, None]
    return Images(pixels.to(torch.uint8), labels)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real data sets; tests that need it are skipped where it is absent."""
    path = Path(os.environ.get("ARDOR_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not path.is_dir():
        pytest.skip("no real data: set ARDOR_DATA")
    return path


class Clock:
    """A clock that goes on by so many seconds whenever it is asked."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def stopping_at(step: int) -> Runtime:
    """A machine that is asked to stop after that many steps."""
    steps = 0

    def watch(progress: Progress) -> None:
        nonlocal steps
        steps += not progress.note
        runtime.stopping = steps == step

    runtime = Runtime.start("cpu", 0, watch)
    return runtime
