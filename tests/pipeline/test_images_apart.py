"""Which images reach what: test images nothing but the test figures, each other part its own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from standins.toy import Toy, ToyNet
from torch import Tensor

from ardor import methods
from ardor.data import Images, Normalise, load
from ardor.models.scores import logits_of, scores
from ardor.pipeline.run import Run
from ardor.pipeline.stages import do
from ardor.runtime.device import Runtime
from ardor.searching.held_out import HeldOut
from ardor.searching.loop import SearchLoop, halves
from ardor.settings.sections import NOTHING, SearchConfig, TrainConfig
from ardor.spaces._cellnet import CellNet
from ardor.spaces.cells import Cells
from ardor.training.loop import ResumableLoop
from ardor.training.train import TrainLoop, split_validation

STAGES = ("search", "train", "prune", "evaluate")
SMALL = {
    "space": {"layout": "R", "states": 1, "channels": 2, "ops": "sep_conv_3x3,skip_connect"},
    "method": {"name": "darts"},
    "search": {"epochs": 2, "batch": 8, "warmup": 0.0, "gate_rate": 0.1},
    "train": {"epochs": 2, "batch": 8, "kl_start": 0.0, "validation": 0.25, "rate": 0.02},
    "prune": {"max_params": 10**6, "fine_tune": 1},
}
SEARCH = SearchConfig(
    epochs=2, batch=8, augment=(), warmup=0.0, held_out=0.25, gate_rate=0.1, candidates=4
)
TRAIN = TrainConfig(epochs=2, batch=8, augment=(), validation=0.25)
CELLS = Cells(image=(1, 8, 8), classes=2, layout="R", states=1, channels=2)
Looked = list[tuple[str, Tensor]]  # who learned or measured, and the images, normalised


@pytest.fixture
def numbered() -> Images:
    """Sixty-four images, each of one grey, by which it can be told from all others."""
    pixels = (3 * torch.arange(64, dtype=torch.uint8)).reshape(64, 1, 1, 1).repeat(1, 1, 8, 8)
    return Images(pixels, torch.arange(64) % 2)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Looked:
    """What goes through a net, and what for."""
    found: Looked = []

    def recording(heads: Callable[..., Any]) -> Callable[..., Any]:
        def record(net: torch.nn.Module, images: Tensor, gates: Any = None) -> Any:
            learning = next(net.parameters()).requires_grad
            who = "weights" if learning else "gates"
            found.append((who if net.training else "looks", images.detach().clone()))
            return heads(net, images, gates)

        return record

    for kind in (ToyNet, CellNet):
        monkeypatch.setattr(kind, "heads", recording(kind.heads))
    monkeypatch.setattr(
        ResumableLoop, "check_memory", lambda *_: None
    )  # which looks at blank images
    return found


def greys(normalise: Normalise, looked: Tensor) -> list[int]:
    """The grey in the corner of each image."""
    return (looked * normalise.std + normalise.mean).round().long()[:, 0, 0, 0].tolist()


def seen_by(who: str, seen: Looked, normalise: Normalise) -> list[int]:
    return [grey for each, looked in seen if each == who for grey in greys(normalise, looked)]


def searching(images: Images, folder: Path, name: str = "darts", **changes: Any) -> SearchLoop:
    settings = {"order": changes.pop("order")} if "order" in changes else {}
    config, runtime = SEARCH.model_copy(update=changes), Runtime.start("cpu", 0)
    method = methods.make(name, Toy(), settings)
    return SearchLoop(Toy(), method, halves(images, config, 0), config, folder, runtime)


def training(images: Images, folder: Path, **changes: Any) -> TrainLoop:
    config, runtime = TRAIN.model_copy(update=changes), Runtime.start("cpu", 0)
    architecture = methods.make("random", CELLS, {}).draw(1)[0]
    return TrainLoop(architecture, split_validation(images, config, 0), config, folder, runtime)


def greys_of(images: Images) -> set[int]:
    return set(images.pixels[:, 0, 0, 0].tolist())


def written(run: Run) -> dict[str, Any]:
    """All that a run has decided and measured, but for times and test figures."""
    lines = map(json.loads, (run.folder / "log.jsonl").read_text().splitlines())
    names = ("architecture.json", "curve.json", "trained/model.safetensors")
    return {
        "metrics": {k: v for k, v in run.metrics.items() if k != "stages" and "test_" not in k},
        "log": [(line["held_out"], line.get("probabilities")) for line in lines],
        **{name: (run.folder / name).read_bytes() for name in (*names, "model/model.safetensors")},
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Two whole runs on the same images but for those they are tested on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResumableLoop, "check_memory", lambda *_: None)  # a second for each stage
        patch.setattr("ardor.pipeline.prune_stage.thresholds_of", lambda _: [-1.0, 3.0, NOTHING])
        return made_in(tmp_path_factory.mktemp("apart"))


def made_in(folder: Path) -> tuple[Run, Run]:
    """Those runs, every stage of them done."""
    rng, labels = np.random.default_rng(0), (np.arange(64) > 36).astype(int)
    pixels = rng.integers(0, 256, (64, 8, 8), dtype=np.uint8)
    made = []
    for name in ("one", "other"):
        test = rng.integers(0, 256, (24, 8, 8), dtype=np.uint8)
        path = folder / f"{name}.npz"
        np.savez(path, x=pixels, y=labels, x_test=test, y_test=np.arange(24) // 12)
        settings = {**SMALL, "data": {"source": str(path)}}
        run = Run.create(folder / name, settings, stages=STAGES)
        for stage in STAGES:
            do(run, stage)
        made.append(run)
    return made[0], made[1]


def test_test_images_decide_nothing(runs: tuple[Run, Run]) -> None:
    one, other = map(written, runs)
    assert [name for name in one if one[name] != other[name]] == []


def test_test_figures_are_those_of_the_test_images(runs: tuple[Run, Run]) -> None:
    for run in runs:
        images = run.dataset.test
        with torch.no_grad():
            expected = scores(run.plain().eval()(images.pixels), images.labels)
        found = {name: run.metrics[f"test_{name}"] for name in expected}
        assert found == pytest.approx(expected, abs=1e-4)


def test_fine_tuning_is_measured_on_images_that_it_does_not_learn_from(
    runs: tuple[Run, Run],
) -> None:
    run = runs[0]
    model, parts = run.plain().eval(), split_validation(run.dataset.train, run.config.train, 0)
    with torch.no_grad():
        learned, watched = (scores(model(i.pixels), i.labels)["accuracy"] for i in parts)
    assert run.metrics["validation_accuracy"] == pytest.approx(watched) != learned


def test_images_held_out_for_the_test_are_in_no_other_part(tmp_path: Path) -> None:
    pixels = np.broadcast_to(np.arange(60, dtype=np.uint8)[:, None, None], (60, 8, 8))
    np.savez(tmp_path / "all.npz", x=pixels, y=np.arange(60) % 3)
    once, other = (load(str(tmp_path / "all.npz"), seed=seed) for seed in (0, 1))
    train, test = greys_of(once.train), greys_of(once.test)
    assert not train & test
    assert train | test == set(range(60))
    assert greys_of(other.test) != test


@pytest.mark.parametrize(
    ("name", "order", "turns"),
    [
        ("darts", 1, ["held out", "train"]),
        ("darts", 2, ["train", "held out", "train", "train", "train"]),
        ("vinnas", None, ["held out", "train"]),
        ("snas", None, ["train"]),
    ],
)
def test_gates_learn_first_on_held_out_images_then_weights_on_the_others(
    name: str, order: int | None, turns: list[str], numbered: Images, tmp_path: Path, seen: Looked
) -> None:
    loop = searching(numbered, tmp_path, name, **({"order": order} if order else {}))
    loop.step(*(loop.batch(half, torch.arange(len(half)), 0) for half in loop.halves))
    parts = {"train": greys_of(loop.train), "held out": greys_of(loop.held_out)}
    looked = [set(greys(loop.normalise, images)) for _, images in seen]
    assert [next(part for part in parts if greys <= parts[part]) for greys in looked] == turns


@pytest.mark.parametrize(("name", "half"), [("darts", 1), ("snas", 0)])
def test_curvature_is_of_the_images_that_gates_learn_from(
    name: str, half: int, numbered: Images, tmp_path: Path
) -> None:
    loop = searching(numbered, tmp_path, name)
    looked = torch.cat([batch.images for batch in loop.few_batches()])
    assert set(greys(loop.normalise, looked)) <= greys_of(loop.halves[half])


def test_an_epoch_goes_once_through_the_images_of_the_weights_in_another_order(
    numbered: Images, tmp_path: Path, seen: Looked
) -> None:
    loop = searching(numbered, tmp_path)
    loop.run()
    looked = seen_by("weights", seen, loop.normalise)
    first, second = looked[:48], looked[48:]
    assert sorted(first) == sorted(second) == sorted(greys_of(loop.train))
    assert first != second
    assert set(seen_by("gates", seen, loop.normalise)) == greys_of(loop.held_out)


@pytest.mark.parametrize("name", ["rsps", "darts", "sivdnas"])
def test_a_search_is_measured_and_ranked_on_held_out_images_alone(
    name: str, numbered: Images, tmp_path: Path, seen: Looked
) -> None:
    loop = searching(numbered, tmp_path, name)
    loop.run()
    between = len(seen)
    assert not greys_of(loop.train) & greys_of(loop.held_out)
    assert set(seen_by("looks", seen, loop.normalise)) == greys_of(loop.held_out)
    found = loop.found()
    ranked = [sorted(greys(loop.normalise, images)) for _, images in seen[between:]]
    assert ranked == [sorted(greys_of(loop.held_out))] * len(found.candidates)
    assert found.architecture == found.candidates[0].architecture


def test_searches_with_other_seeds_hold_out_other_images(numbered: Images) -> None:
    one, other = (halves(numbered, SEARCH, seed) for seed in (0, 1))
    assert greys_of(one[1]) != greys_of(other[1])
    assert greys_of(split_validation(numbered, TRAIN, 0)[1]) != greys_of(
        split_validation(numbered, TRAIN, 1)[1]
    )


def test_training_learns_from_all_images_but_those_it_watches_by(
    numbered: Images, tmp_path: Path, seen: Looked
) -> None:
    loop = training(numbered, tmp_path)
    loop.run()
    learned = seen_by("weights", seen, loop.normalise)
    watched = seen_by("looks", seen, loop.normalise)
    assert sorted(learned[:48]) == sorted(learned[48:]) == sorted(set(learned))
    assert learned[:48] != learned[48:]
    assert len(set(watched)) == 16
    assert not set(learned) & set(watched)


def test_images_are_normalised_by_those_that_weights_learn_from(
    numbered: Images, tmp_path: Path, seen: Looked
) -> None:
    for number, loop in enumerate((searching, training)):
        seen.clear()
        loop(numbered, tmp_path / str(number)).run()
        learned = torch.cat([images for who, images in seen if who == "weights"])
        assert learned.mean().item() == pytest.approx(0.0, abs=1e-5)
        assert learned.std(correction=0).item() == pytest.approx(1.0, abs=1e-5)


def test_only_images_that_are_learned_from_are_changed(
    numbered: Images, tmp_path: Path, seen: Looked
) -> None:
    for number, loop in enumerate((searching, training)):
        seen.clear()
        loop(numbered, tmp_path / str(number), augment=("erase",)).run()
        even: dict[str, bool] = {}
        for who, images in seen:
            even[who] = even.get(who, True) and bool((images == images[:, :, :1, :1]).all())
        assert even.pop("looks")
        assert not any(even.values())


def test_the_net_is_measured_as_it_is_used(numbered: Images) -> None:
    net = CELLS.build(methods.make("random", CELLS, {}).draw(1)[0]).train()
    net(torch.randn(32, 1, 8, 8))
    net.drop_path_(0.5)
    normalise, state = Normalise.of(numbered), {k: v.clone() for k, v in net.state_dict().items()}
    found = logits_of(net, numbered, normalise, Runtime(), batch=40)
    assert net.training
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    with torch.no_grad():
        assert torch.allclose(found, net.eval()(normalise(numbered.pixels)), atol=1e-5)


@pytest.mark.parametrize(
    ("accuracies", "best"), [([0.9, 0.2, 0.4, 0.3], 1), ([0.2, 0.7, 0.7, 0.1], 2)]
)
def test_the_best_epoch_is_the_first_of_the_least_held_out_error(
    accuracies: list[float],
    best: int,
    numbered: Images,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = iter(accuracies)
    monkeypatch.setattr(HeldOut, "after_epoch", lambda *_: {"accuracy": next(told), "nll": 1.0})
    loop = searching(numbered, tmp_path, epochs=4, keep="best")
    loop.run()
    found = loop.found()
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert found.watched["kept_epoch"] == best
    assert found.probabilities == lines[best - 1]["probabilities"] != lines[-1]["probabilities"]
