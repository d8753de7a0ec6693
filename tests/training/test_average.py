"""The mean of the weights over the steps: what it is, when it is kept, and that it is resumed."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import stopping_at
from torch import Tensor, nn

from ardor import methods
from ardor.architecture import Architecture
from ardor.data import Images
from ardor.errors import Interrupted
from ardor.layers.variational import VariationalConv2d
from ardor.models.model import Model
from ardor.models.scores import logits_of, scores
from ardor.models.smaller import prune
from ardor.runtime.device import Runtime
from ardor.runtime.tensors import load
from ardor.settings.sections import TrainConfig
from ardor.spaces import Net
from ardor.spaces.cells import Cells
from ardor.training.average import Average, momentum_at
from ardor.training.train import TrainLoop, split_validation, train, tune

SPACE = Cells(image=(1, 8, 8), classes=2, layout="NR", states=2, channels=4)
TINY = TrainConfig(epochs=3, batch=16, rate=0.01, augment=("crop",), average=0.9, validation=0.25)
CLASSES = ("dark", "bright")


@pytest.fixture
def architecture() -> Architecture:
    return methods.make("random", SPACE, {}).draw(1)[0]


def run(architecture: Architecture, images: Images, folder: Path, **changes: object) -> Model:
    config, runtime = TINY.model_copy(update=changes), Runtime.start("cpu", 0)
    return train(architecture, images, CLASSES, config, run=folder, runtime=runtime)


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def saved(run: Path, name: str) -> dict[str, Tensor]:
    """The weights and statistics of that name in the newest checkpoint."""
    tensors = load(max((run / "checkpoint").iterdir()))[0]
    return {k.removeprefix(name): v for k, v in tensors.items() if k.startswith(name)}


def test_the_mean_is_that_of_weights_and_statistics_with_a_momentum_that_grows(
    architecture: Architecture,
) -> None:
    net = SPACE.build(architecture, conv=VariationalConv2d).train()
    average, expected = Average(net, 0.3), {}
    for step in range(8):
        net(torch.randn(4, 1, 8, 8))  # for the statistics
        with torch.no_grad():
            for weight in net.parameters():
                weight += torch.randn_like(weight)
        average.add(step)
        momentum = min(0.3, step / (step + 10))
        for name, now in net.state_dict().items():
            if now.is_floating_point():
                before = expected.get(name, torch.zeros_like(now))
                expected[name] = momentum * before + (1 - momentum) * now
    found = average.net.state_dict()
    assert any(name.endswith("running_var") for name in expected)
    for name, value in expected.items():
        assert torch.allclose(found[name], value, atol=1e-5), name


def test_its_momentum_begins_at_zero_and_ends_as_set() -> None:
    assert [momentum_at(n, 0.99) for n in (0, 10, 90)] == [0.0, 0.5, 0.9]
    assert momentum_at(10**6, 0.99) == 0.99


@pytest.mark.parametrize("averaged", [True, False])
def test_the_better_of_mean_and_last_weights_is_kept_and_told(
    averaged: bool,
    architecture: Architecture,
    bright: Images,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def score(loop: TrainLoop, net: Net) -> dict[str, float]:
        return {"accuracy": 0.5, "nll": 1.0 if (net is loop.net) != averaged else 2.0}

    monkeypatch.setattr(TrainLoop, "score", score)
    model = run(architecture, bright, tmp_path)
    *before, end = lines(tmp_path)
    assert all(line["averaged"] and "held_out_last" not in line for line in before)
    assert end["averaged"] == averaged
    assert end["held_out"]["nll"] == 1.0
    assert end["held_out_last"]["nll"] == (2.0 if averaged else 1.0)
    kept = saved(tmp_path, "average/net." if averaged else "net/")
    assert all(torch.equal(kept[name], value) for name, value in model.net.state_dict().items())


def test_the_scores_told_at_the_end_are_those_of_the_network_that_is_kept(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    model = run(architecture, bright, tmp_path)
    end, watched = lines(tmp_path)[-1], split_validation(bright, TINY, 0)[1]
    logits = logits_of(model.net, watched, model.normalise, Runtime())
    assert scores(logits, watched.labels) == pytest.approx(end["held_out"])
    assert end["held_out"]["nll"] <= end["held_out_last"]["nll"]


def test_without_held_out_images_the_mean_is_kept(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    model = run(architecture, bright, tmp_path, validation=0.0)
    assert [line["averaged"] for line in lines(tmp_path)] == [True] * 3
    state, last = saved(tmp_path, "average/net."), saved(tmp_path, "net/")
    assert all(torch.equal(state[name], value) for name, value in model.net.state_dict().items())
    assert not all(torch.equal(last[name], value) for name, value in state.items())


@pytest.mark.parametrize("step", [2, 8])
def test_stopped_and_resumed_it_is_the_same(
    step: int, architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    whole = run(architecture, bright, tmp_path / "whole").state_dict()
    runtime, broken = stopping_at(step), tmp_path / "broken"
    with pytest.raises(Interrupted):
        train(architecture, bright, CLASSES, TINY, run=broken, runtime=runtime)
    resumed = run(architecture, bright, broken).state_dict()
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)
    means = saved(tmp_path / "whole", "average/")
    assert all(torch.equal(value, means[name]) for name, value in saved(broken, "average/").items())
    again = run(architecture, bright, broken).state_dict()  # nothing is left but to choose
    assert all(torch.equal(again[name], whole[name]) for name in whole)


def test_what_is_learned_does_not_hang_on_it(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    run(architecture, bright, tmp_path / "with")
    run(architecture, bright, tmp_path / "without", average=0.0)
    last = saved(tmp_path / "without", "net/")
    assert all(torch.equal(last[name], v) for name, v in saved(tmp_path / "with", "net/").items())
    assert not {"averaged", "held_out_last"} & lines(tmp_path / "without")[-1].keys()


def test_zeros_of_a_pruned_network_stay_zero(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    model = run(architecture, bright, tmp_path, validation=0.0)
    for layer in model.net.modules():
        if isinstance(layer, VariationalConv2d):
            nn.init.normal_(layer.log_var, -3.0, 3.0)
    small = prune(model)
    config = TINY.model_copy(update={"variational": False, "validation": 0.0})
    tuned = tune(small, bright, config, run=tmp_path, runtime=Runtime.start("cpu", 0))
    assert lines(tmp_path)[-1]["averaged"]
    pruned = [weight == 0 for weight in small.net.parameters()]
    assert sum(int(zeros.sum()) for zeros in pruned) > 0
    for weight, zeros in zip(tuned.net.parameters(), pruned, strict=True):
        assert not weight[zeros].any()
