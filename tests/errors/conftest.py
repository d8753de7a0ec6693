"""Images, runs of them, and a folder to be in."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from standins.user import TINY, done, pictures


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pictures of each of two classes."""
    return pictures(tmp_path_factory.mktemp("data"), "a", "b")


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A run with every stage done."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    done("run", data, "--run", folder, *TINY)
    return folder


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A run that is no further than its search, with two checkpoints."""
    folder = tmp_path_factory.mktemp("searched") / "run"
    done("search", data, "--run", folder, *TINY, "--set", "search.epochs=3")
    return folder


@pytest.fixture
def run(tmp_path: Path, whole: Path) -> Path:
    """A copy of the whole run."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


@pytest.fixture
def begun(tmp_path: Path, searched: Path) -> Path:
    """A copy of the searched run that has not written its architecture yet."""
    folder = Path(shutil.copytree(searched, tmp_path / "begun"))
    (folder / "architecture.json").unlink()
    return folder


@pytest.fixture
def in_time() -> Iterator[None]:
    """Fails a test that waits, in place of waiting with it."""

    def late(*_: object) -> None:
        raise AssertionError("it never ended")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
