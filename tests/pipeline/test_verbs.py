"""The Python interface: one call for each thing that a person wants done."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ardor

CELL = {"layout": "R", "states": 1, "channels": 2, "ops": "skip_connect,max_pool_3x3"}
TINY: dict[str, Any] = {"space": CELL, "search": {"epochs": 1}, "train": {"epochs": 1}}


def test_one_call_does_everything(tmp_path: Path) -> None:
    seen: list[str] = []
    run = ardor.run(
        "digits", TINY, folder=tmp_path / "run", on_progress=lambda p: seen.append(p.stage)
    )
    assert run.stages_left() == []
    assert 0 <= run.metrics["test_accuracy"] <= 1
    assert (run.folder / "report.html").exists()
    assert {"search", "train"} <= set(seen)


def test_a_size_goes_in_place_of_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ardor.pipeline.verbs.resume", lambda run, on_progress: run)
    before = {"prune": {"keep_accuracy": 99, "within": 0.01, "fine_tune": 2}}
    made = ardor.run("digits", TINY, before, max_params=900, max_macs=9_000, folder=tmp_path / "a")
    asked = made.config.prune
    assert (asked.keep_accuracy, asked.max_params, asked.max_macs) == (0, 900, 9_000)
    assert (asked.within, asked.fine_tune) == (0, 2)
    kept = ardor.run("digits", TINY, before, folder=tmp_path / "b").config.prune
    assert (kept.keep_accuracy, kept.within) == (0.99, 0.01)


def test_a_search_is_trained_later_and_loaded_by_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    found = ardor.search("cells", "digits", TINY, folder=folder)
    assert found.architecture.space == "cells"
    assert not found.done("train")
    model = ardor.train(folder, {"train": {"variational": False}})
    assert not model.variational
    assert (folder / "export" / "model.onnx").exists()
    pixels = torch.randint(0, 256, (3, *model.shape))
    again = ardor.load(folder).probabilities(pixels)
    assert torch.equal(again, model.probabilities(pixels))
    assert torch.allclose(again.sum(1), torch.ones(3))


def build(image: tuple[int, int, int], classes: int, *, channels: int = 4) -> nn.Module:
    """A space in a few lines: one convolution, of either window or none."""
    candidates = {
        "skip": nn.Identity(),
        "conv3": nn.Conv2d(channels, channels, 3, padding=1),
        "conv5": nn.Conv2d(channels, channels, 5, padding=2),
    }
    return nn.Sequential(
        nn.Conv2d(image[0], channels, 3, padding=1),
        ardor.LayerChoice(candidates, name="layer"),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, classes),
    )


def test_a_function_is_a_space_that_is_searched_trained_and_loaded(tmp_path: Path) -> None:
    settings = {"space": {"channels": 6}, "search": {"epochs": 1}, "train": {"epochs": 1}}
    found = ardor.search(build, "digits", settings, folder=tmp_path / "run")
    (kept,) = found.architecture.options["layer"]
    assert kept in ("skip", "conv3", "conv5")
    assert dict(found.architecture.settings)["channels"] == 6
    model = ardor.train(found)
    pixels = torch.randint(0, 256, (3, *model.shape))
    again = ardor.load(tmp_path / "run").probabilities(pixels)
    assert torch.equal(again, model.probabilities(pixels))


def test_an_interrupted_run_goes_on_to_the_same_network(tmp_path: Path) -> None:
    whole = ardor.run("digits", TINY, folder=tmp_path / "whole")

    def stop(progress: ardor.Progress) -> None:
        if progress.stage == "train":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ardor.run("digits", TINY, folder=tmp_path / "broken", on_progress=stop)
    again = ardor.resume(tmp_path / "broken")
    ours, theirs = (r.model().state_dict() for r in (again, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_without_a_name_a_run_takes_the_first_free_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [ardor.search("cells", "digits", TINY).folder.name for _ in range(2)]
    assert names == ["digits-vinnas-1", "digits-vinnas-2"]


def test_what_is_wrong_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ardor.ArdorError, match="unknown space 'cell'"):
        ardor.search("cell", "digits", folder=tmp_path / "run")
    assert not any(tmp_path.iterdir())


def test_the_version_and_the_public_names_are_shown() -> None:
    assert ardor.__version__ == version("ardor")
    assert {"run", "search", "train", "load", "__version__", "Method", "Space"} <= set(dir(ardor))
