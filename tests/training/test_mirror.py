"""Images are mirrored where the classes survive it: what held-out images say, and what follows."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import stopping_at
from standins.toy import Toy

from ardor import methods
from ardor.architecture import Architecture
from ardor.data import Images, augment
from ardor.errors import Interrupted
from ardor.models.model import Model
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.searching.loop import search
from ardor.settings.sections import SearchConfig, TrainConfig
from ardor.spaces.cells import Cells
from ardor.training.mirror import chance, decided, in_words, survives
from ardor.training.train import train

SPACE = Cells(image=(1, 8, 8), classes=2, layout="NR", states=2, channels=8)
CONFIG = TrainConfig(
    epochs=6, batch=16, rate=0.02, augment=("mirror",), variational=False, validation=0.25
)


def halves(side: int) -> Images:
    """Images of two classes, one half bright: the upper or lower (2), the left or right one (3)."""
    labels = torch.arange(192) % 2
    pixels = torch.randint(0, 80, (192, 1, 8, 8))
    which = (torch.arange(8) < 4) == (labels == 0)[:, None]
    shape = (192, 1, 8, 1) if side == 2 else (192, 1, 1, 8)
    return Images((pixels + 150 * which.reshape(shape)).byte(), labels)


@pytest.fixture
def architecture() -> Architecture:
    return methods.make("random", SPACE, {}).draw(1)[0]


def run(
    architecture: Architecture,
    images: Images,
    folder: Path,
    runtime: Runtime | None = None,
    **changes: object,
) -> Model:
    config = CONFIG.model_copy(update=changes)
    runtime = runtime or Runtime.start("cpu", 0)
    return train(architecture, images, ("a", "b"), config, run=folder, runtime=runtime)


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_classes_survive_where_most_of_what_is_above_chance_is_left() -> None:
    assert survives(0.9, 0.9, 0.5)
    assert survives(0.9, 0.8, 0.5)
    assert not survives(0.9, 0.7, 0.5)  # half of it
    assert not survives(0.9, 0.1, 0.5)  # each taken for the other
    assert survives(0.3, 0.25, 0.01)
    assert not survives(0.5, 0.5, 0.5)  # nothing is known yet
    assert not survives(0.4, 0.6, 0.5)


def test_chance_is_to_name_the_commonest_class_always() -> None:
    assert chance(torch.tensor([0, 1, 2, 3])) == 0.25
    assert chance(torch.tensor([0, 5, 5, 5])) == 0.75


def test_mirror_is_a_flip_where_it_is_on_and_nothing_elsewhere() -> None:
    names = ("crop", "mirror", "erase")
    assert decided(names, mirrored=True) == ("crop", "flip", "erase")
    assert decided(names, mirrored=False) == ("crop", "erase")
    assert decided(("flip",), mirrored=False) == ("flip",)


def test_the_decision_in_words() -> None:
    assert in_words(0.8123, 0.809, on=True) == (
        "images are mirrored from here on: held-out accuracy 81.2 %, mirrored 80.9 %"
    )
    assert in_words(0.8, 0.2, on=False).startswith("images are not mirrored: ")


@pytest.mark.parametrize(("side", "on"), [(2, True), (3, False)])
@pytest.mark.parametrize("average", [0.0, 0.5])
def test_images_are_mirrored_only_where_left_and_right_are_alike(
    side: int,
    on: bool,
    average: float,
    architecture: Architecture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        "ardor.training.train.augment", lambda x, names: done.append(names) or augment(x, names)
    )
    told: list[str] = []

    def watch(progress: Progress) -> None:
        told.append(progress.note)

    run(architecture, halves(side), tmp_path, Runtime.start("cpu", 0, watch), average=average)
    seen = lines(tmp_path)
    (asked,) = [line for line in seen if "mirror" in line]
    assert asked["epoch"] == 2  # of six, the first after a fifth of them
    assert asked["mirror"]["on"] == on
    assert asked["mirror"]["accuracy"] == asked["held_out"]["accuracy"] > 0.9
    assert (asked["mirror"]["mirrored_accuracy"] > 0.9) == on
    assert done == [()] * 18 + [("flip",) if on else ()] * 36
    assert len([note for note in told if note.startswith("images are ")]) == 1


@pytest.mark.parametrize("step", [5, 14])
def test_stopped_and_resumed_it_is_the_same(
    step: int, architecture: Architecture, tmp_path: Path
) -> None:
    images = halves(2)
    whole = run(architecture, images, tmp_path / "whole", epochs=3).state_dict()
    with pytest.raises(Interrupted):
        run(architecture, images, tmp_path / "broken", stopping_at(step), epochs=3)
    resumed = run(architecture, images, tmp_path / "broken", epochs=3).state_dict()
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)
    assert [line.get("mirror") for line in lines(tmp_path / "broken")] == [
        line.get("mirror") for line in lines(tmp_path / "whole")
    ]


def test_nothing_is_mirrored_unseen(architecture: Architecture, tmp_path: Path) -> None:
    images = halves(2)
    plain = run(
        architecture, images, tmp_path / "plain", epochs=3, validation=0.0, augment=()
    ).state_dict()
    found = run(architecture, images, tmp_path / "asked", epochs=3, validation=0.0).state_dict()
    assert all(torch.equal(found[name], plain[name]) for name in plain)
    assert not any("mirror" in line for line in lines(tmp_path / "asked"))


def test_a_search_mirrors_nothing(bright: Images, tmp_path: Path) -> None:
    found = []
    for names in ((), ("mirror",)):
        config = SearchConfig(epochs=1, batch=16, augment=names)
        runtime = Runtime.start("cpu", 0)
        method = methods.make("darts", Toy(), {})
        folder = tmp_path / str(len(names))
        result = search(Toy(), method, bright, config, run=folder, runtime=runtime)
        found.append(result.probabilities)
    assert found[0] == found[1]
