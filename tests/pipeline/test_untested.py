"""Runs without test images: scored on held-out images, or not at all, and saying so."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from standins.user import TINY, done, files, pictures, refused

from ardor.bench import tables
from ardor.bench.measures import Measure
from ardor.data import load
from ardor.models.scores import logits_of, scores
from ardor.pipeline.run import Run
from ardor.pipeline.stages import evaluate
from ardor.reporting.evaluation import read_evaluation
from ardor.training.train import split_validation

UNTESTED = ["--set", "data.test=0", "--set", "train.validation=0.34"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pictures(tmp_path_factory.mktemp("data"), "a", "b")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A run with every stage done, on images of which none are to test on."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    done("run", data, "--run", folder, *TINY, *UNTESTED)
    return folder


@pytest.fixture
def run(tmp_path: Path, whole: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def metrics(run: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((run / "metrics.json").read_text())
    return found


def plain(table: str) -> str:
    """The words of a table, however its lines are broken."""
    return " ".join(table.replace("│", " ").split())


def test_no_image_is_held_out_for_tests(data: Path) -> None:
    found = load(str(data), test=0)
    assert (len(found.train), len(found.test)) == (12, 0)
    assert found.test.pixels.shape[1:] == found.train.pixels.shape[1:]
    assert any("no images" in note for note in found.notes)


def test_two_images_of_a_class_are_enough_where_none_are_for_tests(tmp_path: Path) -> None:
    small = pictures(tmp_path / "small", "a", "b", count=2)
    assert len(load(str(small), test=0).train) == 4
    refused("check", small, error="at least 4 to hold out a test set")


def test_test_images_that_there_are_stay_test_images(tmp_path: Path) -> None:
    x, y = np.zeros((8, 8, 8), np.uint8), np.arange(8) % 2
    np.savez(tmp_path / "own.npz", x=x, y=y, x_test=x[:4], y_test=y[:4])
    assert len(load(str(tmp_path / "own.npz"), test=0).test) == 4


def test_the_score_is_that_of_held_out_images_and_is_called_so(run: Path, tmp_path: Path) -> None:
    found, opened = metrics(run), Run.open(run)
    assert not [name for name in found if "test_" in name]
    assert found["held_out_images"] == 4
    images = split_validation(opened.dataset.train, opened.config.train, 0)[1]
    model = opened.plain()
    expected = scores(
        logits_of(model.net, images, model.normalise, opened.runtime()), images.labels
    )
    assert {k: found[f"held_out_{k}"] for k in expected} == pytest.approx(expected)
    assert "trained_held_out_accuracy" in found
    kept = read_evaluation(run)
    assert kept is not None
    right = sum(kept.taken(name, name) for name in kept.classes)
    assert kept.held_out
    assert right / 4 == pytest.approx(found["held_out_accuracy"])
    assert f"{right} of 4" in (run / "report.html").read_text()
    for name in ("model", "trained"):
        card = (run / name / "README.md").read_text()
        assert "| held-out accuracy |" in card
        assert "no test images" in card
        assert "| test" not in card
    page = (run / "report.html").read_text()
    assert "Held-out accuracy, no test images" in page
    assert "Test accuracy" not in page
    assert "accuracy on held-out images (no test" in plain(done("evaluate", run).out)
    new = ["--run", tmp_path / "new"]
    assert "test: no images" in done("search", opened.place, *new, *TINY, *UNTESTED).err


def test_check_says_what_the_score_will_be_of(data: Path) -> None:
    said = plain(done("check", data, "--set", "data.test=0").out)
    assert "no test images: a network is scored on images held out of its training" in said
    assert "no test images" not in plain(done("check", data).out)


def test_it_is_finished_and_pruned_anew_it_is_not(run: Path) -> None:
    assert not Run.open(run).stages_left()
    before = files(run)
    done("resume", run)
    assert files(run) == before
    done("prune", run, "--threshold", "-1")
    assert Run.open(run).stages_left() == ["export", "evaluate", "report"]
    assert not [name for name in metrics(run) if "held_out" in name]
    assert read_evaluation(run) is None
    done("resume", run)
    assert metrics(run)["held_out_images"] == 4


def test_without_held_out_images_there_is_no_score_in_words(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    nothing = ["--set", "data.test=0", "--set", "train.validation=0"]
    said = plain(done("run", data, "--run", run, *TINY, *nothing).out)
    assert "not measured: no test images, and none held out" in said
    assert metrics(run)["held_out_images"] == 0
    assert not [name for name in metrics(run) if name.endswith("accuracy")]
    assert read_evaluation(run) is None
    assert "It was not measured" in (run / "model" / "README.md").read_text()
    assert "not measured" in (run / "report.html").read_text()
    assert not Run.open(run).stages_left()
    assert evaluate(Run.open(run)) == {"held_out_images": 0}


def test_runs_stand_side_by_side_with_and_without_a_test_score(
    run: Path, data: Path, tmp_path: Path
) -> None:
    done("run", data, "--run", tmp_path / "tested", *TINY)
    both = json.loads(done("compare", run, tmp_path / "tested", "--json").out)
    assert [row["test_accuracy"] is None for row in both] == [True, False]
    assert [row["held_out_accuracy"] is None for row in both] == [False, True]
    assert "held out accuracy" in done("compare", run, tmp_path / "tested").out
    (alone,) = json.loads(done("compare", tmp_path / "tested", "--json").out)
    assert "held_out_accuracy" not in alone


def test_a_bench_of_runs_without_a_test_score_has_dashes(run: Path) -> None:
    kept = {"operations": {"skip_connect": 1}, "edges": 1}
    records = [{"method": "vinnas", "seed": 0, "metrics": metrics(run), "kept": kept}]
    row = Measure().row("vinnas", records)
    assert row["test_accuracy"] is row["test_accuracy_best"] is None
    assert row["nonzero_params"] == metrics(run)["nonzero_params"]
    assert "-" in tables.cells({"table": [row], "runs": records})[1][0]
