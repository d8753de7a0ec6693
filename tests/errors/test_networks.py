"""Networks and predictions: nothing is used that was changed by hand."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from standins.user import Edit, cut, edit, files, flip, put, refused, without

from ardor.runtime import tensors as device


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


FORGED: dict[str, tuple[Any, Any]] = {
    "strides of nothing": ({}, {"nothing": [1]}),
    "negative strides": ({}, {"NAME": [-1, -1, -1, -1]}),
    "strides of another rank": ({}, {"NAME": [1]}),
    "strides of gigabytes": ({}, {"NAME": [10**12, 1, 1, 1]}),
    "overlapping strides": ({}, {"NAME": [1, 1, 1, 1]}),
    "strides that are text": ({}, {"NAME": "x"}),
    "strides that are no numbers": ({}, {"NAME": [None, 1.5, True, "x"]}),
    "strides that are a number": ({}, 3),
    "facts that are a number": (3, {}),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_right_checksum_of_wrong_content_is_not_enough(run: Path, data: Path, what: str) -> None:
    weights = run / "model" / "model.safetensors"
    tensors, _ = device.load(weights)
    name = next(name for name, tensor in tensors.items() if tensor.ndim == 4)
    facts, strides = FORGED[what]
    text = json.dumps({"facts": facts, "strides": strides}).replace("NAME", name)
    for content in (text, text[:-1], "[" * 9000, [], None):
        checksum = device.digest(str(content), tensors)
        header = {"format": 1, "content": content, "sha256": checksum}
        weights.write_bytes(safetensors.torch.save(tensors, {"ardor": json.dumps(header)}))
        refused("predict", run, data, error=f"'{weights}'", hint="whole copy")


VALUES = {
    "classify.weight": (math.nan, "numbers that are not finite"),
    "stem.0.weight": (math.inf, "numbers that are not finite"),
    "stem.1.running_var": (-1.0, "variances below 0"),
    "normalise.std": (0.0, "deviations that are not above 0"),
}


@pytest.mark.parametrize("name", VALUES)
def test_weights_by_which_nothing_has_a_probability_are_named(
    run: Path, data: Path, name: str
) -> None:
    weights, (value, error) = run / "model" / "model.safetensors", VALUES[name]
    tensors, facts = device.load(weights)
    (full,) = [known for known in tensors if known.endswith(name)]
    tensors[full].view(-1)[0] = value
    device.save(weights, tensors, facts)
    for command in (("predict", run, data), ("evaluate", run), ("export", run)):
        refused(*command, error=f"'{full}' has {error}")


def test_weights_of_other_numbers_or_too_large_are_not_used(run: Path, data: Path) -> None:
    weights = run / "model" / "model.safetensors"
    tensors, facts = device.load(weights)
    (name,) = [name for name in tensors if name.endswith("classify.weight")]
    huge = torch.full_like(tensors[name], 3e38)
    huge[0] *= -1
    device.save(weights, {**tensors, name: huge}, facts)
    refused("predict", run, data, error="no probabilities for these images")
    device.save(weights, {**tensors, name: tensors[name].long()}, facts)
    refused("predict", run, data, error=f"'{name}' has numbers of torch.int64")


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
