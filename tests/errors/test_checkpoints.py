"""Checkpoints: a damaged one is told, and the one before it taken."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from standins.user import cut, done, edit, files, flip, put, refused

from ardor.runtime import tensors as device


def checkpoints(run: Path) -> list[Path]:
    return sorted((run / "checkpoint").iterdir())


def forge(path: Path) -> None:
    tensors, facts = device.load(path)
    device.save(path, tensors, {**facts, "position": "here"})


@pytest.mark.parametrize("damage", [cut, flip, forge, lambda path: path.write_text("junk")])
def test_a_damaged_checkpoint_is_told_and_the_one_before_it_taken(
    begun: Path, searched: Path, damage: Callable[[Path], None]
) -> None:
    damage(checkpoints(begun)[-1])
    said = done("resume", begun)
    assert "search-00003" in said.line("warning")
    assert "going back to the checkpoint before it" in said.line("warning")
    name = "architecture.json"
    assert (begun / name).read_bytes() == (searched / name).read_bytes()


@pytest.mark.parametrize("damage", [cut, flip, forge, lambda path: path.write_text("junk")])
def test_the_only_checkpoint_damaged_is_an_error(
    begun: Path, damage: Callable[[Path], None]
) -> None:
    checkpoints(begun)[0].unlink()
    damage(checkpoints(begun)[0])
    before = files(begun)
    refused("resume", begun, error="search-00003-000000.safetensors'")
    assert files(begun) == before


FACTS: dict[str, Any] = {
    "position": [-1, 0],
    "sums": {"train/loss": 1.0},
    "seconds": "long",
    "random": {"numpy": ["MT19937", 10**9, 0, 0.0], "python": [3, None]},
    "facts": {"watch": 1},
    "course": {"spent": [], "schedule": [1.0]},
}


@pytest.mark.parametrize("name", FACTS)
def test_a_fact_that_no_search_has_seen_is_told(begun: Path, name: str) -> None:
    checkpoints(begun)[0].unlink()
    tensors, facts = device.load(checkpoints(begun)[0])
    device.save(checkpoints(begun)[0], tensors, {**facts, name: FACTS[name]})
    refused("resume", begun, error="does not fit this run: ", hint="delete its checkpoints")


def test_what_an_optimiser_remembers_must_fit_its_weights(begun: Path) -> None:
    checkpoints(begun)[0].unlink()
    tensors, facts = device.load(checkpoints(begun)[0])
    for value in (torch.zeros(7), None):
        changed = {**tensors, "weights/0/exp_avg": value}
        kept = {name: tensor for name, tensor in changed.items() if tensor is not None}
        device.save(checkpoints(begun)[0], kept, facts)
        refused("resume", begun, error="of an optimiser is")


def test_a_checkpoint_of_other_settings_is_not_taken(begun: Path) -> None:
    edit(begun / "config.json", put("space", "channels", value=3))
    before = files(begun)
    refused("resume", begun, error="does not fit this run", hint="config.json")
    assert files(begun) == before
