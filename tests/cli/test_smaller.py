"""What a person sees of a network that is made smaller: lines on the way, figures, cards."""

import json
from pathlib import Path

import pytest
from standins.user import Said, done

from ardor.cli.tables import metrics_table

ASKED = ("--data", "digits", "--set", "export.formats=[]", "--times-smaller", 4)
FIGURES = {
    "params": 12987, "trained_params": 50610, "nonzero_params": 50600,
    "trained_nonzero_params": 50610, "test_accuracy": 0.9, "trained_test_accuracy": 0.95,
}  # fmt: skip


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Said, Path]:
    """A network by its name, trained and made smaller in two epochs each."""
    run = tmp_path_factory.mktemp("smaller") / "first"
    return done("compress", "lenet300", "--run", run, "--epochs", 2, *ASKED), run


@pytest.fixture(scope="module")
def second(first: tuple[Said, Path]) -> Path:
    """What came out of it, made smaller once more."""
    run = first[1].with_name("second")
    done("compress", first[1], "--run", run, "--epochs", 1, *ASKED)
    return run


def test_each_cycle_tells_how_large_the_network_is_now(first: tuple[Said, Path]) -> None:
    said, run = first
    points = json.loads((run / "curve.json").read_text())["points"]
    lines = [line for line in said.err.splitlines() if ": after cycle " in line or "gets" in line]
    (line,) = [each for each in said.err.splitlines() if "after cycle 3: " in each]
    assert f"after cycle 3: {points[3]['params']:,} parameters, " in line
    assert f"held-out accuracy {100 * points[3]['accuracy']:.1f} %" in line
    assert len([each for each in lines if "gets smaller: 50,610 parameters" in each]) == 1


def test_the_figures_say_how_many_times_smaller(first: tuple[Said, Path]) -> None:
    out = first[0].out
    after = json.loads((first[1] / "metrics.json").read_text())["params"]
    assert f"50,610 -> {after:,} (4" in out
    assert "times smaller)" in out
    assert "accuracy before compression" in out
    assert "pruning" not in out


@pytest.mark.parametrize(("stage", "when"), [("compress", "compression"), ("prune", "pruning")])
def test_figures_before_are_of_what_was_done(stage: str, when: str) -> None:
    cost = {"seconds": 1, "peak_memory_mb": 1}
    names, values = metrics_table({**FIGURES, "stages": {stage: cost}}).columns
    found = dict(zip(names.cells, values.cells, strict=True))
    assert found[f"accuracy before {when}"] == "95.00%"
    assert found["parameters"] == "50,610 -> 12,987 (3.9 times smaller)"
    assert found["parameters that are not zero"] == "50,610 -> 50,600"


def test_show_has_each_layer_before_and_after(first: tuple[Said, Path]) -> None:
    words = " ".join(done("show", first[1]).out.split())
    after = [
        layer["after"] for layer in json.loads((first[1] / "layers.json").read_text())["layers"]
    ]
    assert f"1 │ 300 │ {after[0]['outputs']} │ 19,200 │ {after[0]['weights']:,}" in words
    assert "Compressed: 4" in words
    assert "the prior laplace, over filters" in words


def test_cards_say_what_was_made_out_of_what(first: tuple[Said, Path], second: Path) -> None:
    made, trained = (read(first[1], name) for name in ("model", "trained"))
    assert "# Image classifier made smaller by Ardor" in made
    assert "made out of lenet300, which has 50,610 parameters." in made
    assert "the prior laplace, over filters;" in made
    assert "# Image classifier trained by Ardor" in trained
    given = read(second, "trained")
    assert "# Image classifier given to Ardor" in given
    assert "it is what `ardor compress` was given" in given
    for card in (given, read(second, "model")):
        assert "whether it had learned from them before is not" in card
        assert "| test accuracy |" in card
    assert "whether it had learned" not in made + trained


def read(run: Path, folder: str) -> str:
    return (run / folder / "README.md").read_text()
