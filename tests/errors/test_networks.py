"""Networks and predictions: nothing is used that was changed by hand."""

import shutil
from pathlib import Path

import pytest

from errors.user import Edit, cut, edit, files, flip, put, refused, without


def test_what_cannot_be_predicted_is_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "words.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    refused("predict", run, "none.png", error="no such file or folder: 'none.png'", hint="image")
    refused("predict", run, "text.png", error="cannot read image text.png: it is not an image")
    refused("predict", run, "words.txt", error="cannot read image words.txt: it is not an image")
    refused("predict", run, "empty", error="no images in empty", hint="give image files")
    refused("predict", run, "x" * 5000, error="File name too long")


MODELS: list[tuple[Edit, str]] = [
    (put("classes", value=["a", "b", "c"]), "must be 2 different names"),
    (put("classes", value=["a", "a"]), "must be 2 different names"),
    (put("classes", value=3), "are 3; must be 2 different names"),
    (without("classes"), "are None; must be 2 different names"),
    (put("weights", value="variational"), "is absent; must be (2, "),
    (put("architecture", "settings", "channels", value=3), "must be (3, "),
    (without("architecture"), "not an architecture"),
    (put("format", value=2), "has format 2; this version reads 1"),
    (lambda content: [content], "must hold a JSON object"),
]


@pytest.mark.parametrize(("change", "error"), MODELS, ids=[m[1] for m in MODELS])
def test_a_network_changed_by_hand_is_not_used(
    run: Path, data: Path, change: Edit, error: str
) -> None:
    edit(run / "model" / "config.json", change)
    before = files(run)
    refused("predict", run, data, error=error)
    refused("export", run, error=error)
    refused("evaluate", run, error=error)
    assert files(run) == before


def test_damaged_or_foreign_weights_are_not_used(run: Path, data: Path) -> None:
    weights = run / "model" / "model.safetensors"
    shutil.copy(run / "trained" / "model.safetensors", weights)
    refused("predict", run, data, error="must be absent", hint="the same run")
    for damage in (cut, flip):
        damage(weights)
        refused("predict", run, data, error="model/model.safetensors'")
    (run / "model" / "config.json").unlink()
    refused("predict", run, data, error="no file")
    cut(run / "trained" / "model.safetensors")
    before = files(run)
    refused("prune", run, error="trained/model.safetensors'")
    refused("prune", run, "--threshold", "1", error="trained/model.safetensors'")
    assert files(run) == before
