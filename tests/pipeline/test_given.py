"""An architecture found on some images, and trained on others."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ardor.architecture import choices_from_json
from ardor.cli import cli
from ardor.pipeline.run import Run
from ardor.reporting import report

TINY = [
    *("--set", "space.layout=R", "--set", "space.states=1", "--set", "space.channels=2"),
    *("--set", "search.fraction=0.1"),
]
SHORT = ["--epochs", "1", "--set", "train.batch=32", "--quiet", "--json"]


def ardor(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def found(tmp_path: Path) -> Path:
    """A run that has searched the digits: ten classes of eight by eight pixels."""
    assert not ardor("search", "digits", "--run", "found", *TINY, *SHORT).exit_code
    return tmp_path / "found"


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """Three classes of colour images, twelve by twelve pixels."""
    y = np.arange(96) % 3
    x = np.random.default_rng(0).integers(0, 80, (96, 3, 12, 12)) + 80 * y[:, None, None, None]
    np.savez(tmp_path / "others.npz", x=x.astype(np.uint8), y=y.astype(np.uint8))
    return tmp_path / "others.npz"


def test_a_cell_found_on_some_images_is_trained_on_others(found: Path, others: Path) -> None:
    result = ardor("run", others, "--architecture", found, "--run", "trained", *SHORT)
    assert not result.exit_code, result.stderr
    files = [Path(run, "architecture.json") for run in (found, "trained")]
    before, after = (json.loads(file.read_text()) for file in files)
    assert after["kept"] == before["kept"]
    assert choices_from_json(after["choices"]) == choices_from_json(before["choices"])
    assert after["settings"]["image"] == [3, 12, 12]
    assert after["settings"]["classes"] == 3
    assert after["settings"]["states"] == before["settings"]["states"] == 1
    metrics = json.loads(result.stdout)
    assert set(metrics["stages"]) == {"train", "prune", "export", "evaluate", "report"}
    assert "test_accuracy" in metrics
    assert "<svg" in Path("trained/report.html").read_text()
    assert not ardor("show", "trained").exit_code


def test_a_run_whose_file_says_no_choices_is_reported_as_ever(found: Path) -> None:
    page = report(found)
    assert 'class="edge' in page
    file = found / "architecture.json"
    content = json.loads(file.read_text())
    del content["choices"]
    file.write_text(json.dumps(content))
    assert report(found, Run.open(found).choices) == page
    assert not ardor("report", found).exit_code
    assert 'class="edge' in (found / "report.html").read_text()


def test_a_file_of_one_is_enough_to_say_how_long_it_would_take(found: Path, others: Path) -> None:
    file = found / "architecture.json"
    result = ardor("run", others, "--architecture", file, "--run", "new", "--dry-run", *SHORT)
    assert not result.exit_code, result.stderr
    estimated = json.loads(result.stdout)
    assert "train" in estimated
    assert "search" not in estimated
    assert not Path("new").exists()


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_one_of_another_space_is_refused_and_no_folder_is_made(
    found: Path, others: Path, dry: list[str]
) -> None:
    other = ["--architecture", found, "--run", "new", "--set", "space.states=2", *dry]
    result = ardor("run", others, *other, *SHORT)
    assert result.exit_code == 1
    assert "does not belong to this space" in str(result.exception)
    assert not Path("new").exists()
