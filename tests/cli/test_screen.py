"""What a person sees while a run works, and first of its results: words without the theory."""

import json
from pathlib import Path

import numpy as np
import pytest
from standins.user import Said, done

from ardor.cli.screen import describe
from ardor.cli.tables import metrics_table
from ardor.runtime.progress import Progress
from ardor.searching.undecided import NO_STEP

TINY = ("space.layout=N", "space.states=1", "space.channels=2", "space.ops=none,noise,skip_connect")


def progress(**facts: float) -> Progress:
    terms = {"accuracy": 0.828} if "training" in facts else {}
    return Progress("train", 3, 20, 0.1, 130, terms, held_out_accuracy=facts.get("held_out"))


def test_the_accuracy_is_that_of_held_out_images_or_is_called_otherwise() -> None:
    both = describe(progress(held_out=0.583, training=0.828))
    assert both == "epoch 3/20, held-out accuracy 58.3 %, 2 min 10 s left"
    assert (
        describe(progress(training=0.828))
        == "epoch 3/20, training accuracy 82.8 %, 2 min 10 s left"
    )
    assert describe(progress()) == "epoch 3/20, 2 min 10 s left"
    assert describe(progress(), "training") == "epoch 3/20, 2 min 10 s left, then training"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Said, Path]:
    """A run whose search is all warm-up."""
    folder = tmp_path_factory.mktemp("told")
    x, y = np.arange(64 * 64, dtype=np.uint8).reshape(64, 8, 8), np.arange(64) % 2
    np.savez(folder / "images.npz", x=x, y=y)
    settings = (*TINY, "search.warmup=0.9", "export.formats=[]")
    changes = [word for setting in settings for word in ("--set", setting)]
    run = folder / "run"
    return done("run", folder / "images.npz", "--run", run, "--epochs", 1, *changes), run


def test_what_follows_the_stage_is_named(told: tuple[Said, Path]) -> None:
    lines = told[0].err.splitlines()
    assert any(
        line.startswith("search: epoch 1/1, ") and line.endswith(" left, then training and pruning")
        for line in lines
    )
    assert any(
        line.startswith("train: epoch 1/1, ") and line.endswith(" left, then pruning")
        for line in lines
    )


def test_a_search_without_a_step_of_the_gates_is_told_with_the_results(
    told: tuple[Said, Path],
) -> None:
    said, run = told
    assert f"search: epoch 1, {NO_STEP}" in said.err
    assert "warning" in said.out
    assert NO_STEP[:40] in " ".join(said.out.split())
    assert json.loads(done("evaluate", run, "--json").out)["warnings"] == [NO_STEP]


def test_the_first_screen_has_no_words_of_the_theory(told: tuple[Said, Path]) -> None:
    metrics = json.loads((told[1] / "metrics.json").read_text())
    assert {"test_nll", "test_ece", "threshold", "op_entropy"} <= metrics.keys()  # they stay there
    words = told[0].out
    for asked in (
        "accuracy on test images",
        "parameters",
        "multiply-adds",
        "certainty",
        "time in all",
    ):
        assert asked in words
    for word in ("nats", "likelihood", "sigma", "calibration", "curvature", "entropy"):
        assert word not in words


def test_variety_is_the_number_of_kinds_that_would_be_as_varied() -> None:
    (variety,) = metrics_table({"op_entropy": np.log(3.0), "stages": {}}).columns[1].cells
    assert variety == "as of 3.0 kinds"
