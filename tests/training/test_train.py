"""Training, pruning, exporting: the network keeps its outputs on the way to a file."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import Clock, stopping_at
from torch import nn

from ardor import methods
from ardor.architecture import Architecture
from ardor.data import Images, Normalise
from ardor.errors import ArdorError, Interrupted
from ardor.layers.variational import LOG_VAR_START, Variational, VariationalConv2d
from ardor.models.exporters import export
from ardor.models.model import Model
from ardor.models.scores import scores
from ardor.models.sizes import multiply_adds, nonzero_parameters
from ardor.models.smaller import compact, prune
from ardor.runtime.device import Runtime
from ardor.runtime.tensors import load
from ardor.schedules import exponential, linear
from ardor.settings.sections import LONGEST, TrainConfig
from ardor.spaces import Net
from ardor.spaces.cells import Cells
from ardor.training.optimise import rate_at
from ardor.training.train import TrainLoop, split_validation, train

SPACE = Cells(image=(1, 8, 8), classes=2, layout="NR", states=2, channels=4, auxiliary=True)
TINY = TrainConfig(epochs=3, batch=16, rate=0.01, augment=(), drop_path=0.2)


@pytest.fixture
def architecture() -> Architecture:
    return SPACE.strongest({c.name: torch.rand(1, 1, len(c.options)) for c in SPACE.choices})


@pytest.fixture
def model(architecture: Architecture, bright: Images) -> Model:
    net = SPACE.build(architecture, conv=VariationalConv2d)
    for layer in net.modules():
        if isinstance(layer, Variational):
            nn.init.normal_(layer.log_var, -3.0, 3.0)
    net(torch.randn(32, 1, 8, 8))  # running statistics that are not the start values
    return Model(net, Normalise.of(bright), architecture, ("dark", "bright")).eval()


def run(architecture: Architecture, images: Images, folder: Path, **changes: object) -> Model:
    config = TINY.model_copy(update=changes)
    return train(
        architecture,
        images,
        ("dark", "bright"),
        config,
        run=folder,
        runtime=Runtime.start("cpu", 0),
    )


@pytest.mark.parametrize("variational", [True, False])
def test_it_learns_and_logs(
    variational: bool, architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    model = run(architecture, bright, tmp_path, epochs=8, variational=variational)
    assert model.variational == variational
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, 9))
    assert lines[-1]["train"]["nll"] < 0.7 * lines[0]["train"]["nll"]
    assert ("kl_weights" in lines[-1]["train"]) == variational
    assert lines[0]["train"].get("kl_weights", 0.0) == 0.0  # it grows from zero
    assert lines[-1]["train"]["auxiliary"] > 0
    predicted = model.probabilities(bright.pixels).argmax(1)
    assert (predicted == bright.labels).float().mean() > 0.9


@pytest.mark.parametrize("start", [0.0, 0.6])
def test_weights_are_drawn_only_while_their_kl_counts(
    start: float, architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    run(architecture, bright, tmp_path, epochs=2, kl_start=start)
    seen = [json.loads(line)["train"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert ("kl_weights" in seen[0]) == (start == 0.0)
    assert "kl_weights" in seen[1]
    stopped = load(sorted((tmp_path / "checkpoint").iterdir())[0])[0]  # after the first epoch
    variances = torch.cat([t.flatten() for n, t in stopped.items() if n.endswith("log_var")])
    assert torch.equal(variances, torch.full_like(variances, LOG_VAR_START)) == (start > 0)


def loop_of(
    architecture: Architecture, images: Images, folder: Path, **changes: object
) -> TrainLoop:
    config, runtime = TINY.model_copy(update=changes), Runtime.start("cpu", 0)
    return TrainLoop(architecture, split_validation(images, config, 0), config, folder, runtime)


def test_the_kl_counts_once_for_all_images_that_are_learned_from(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    found = []
    for count in (1.0, 4.0):
        loop = loop_of(architecture, bright, tmp_path, kl=count, kl_start=0.0, clip=1e9)
        loop.stage.epoch = 1  # of three: a third of it counts
        slopes = torch.autograd.grad(loop.net.kl(), loop.weights, allow_unused=True)
        loop.step(loop.images[torch.arange(16)])
        found.append([weight.grad for weight in loop.weights])
    for slope, once, more in zip(slopes, *found, strict=True):
        expected = torch.zeros_like(once) if slope is None else slope / len(loop.images)
        assert torch.allclose(more - once, expected, rtol=1e-3, atol=1e-5)


def test_steps_are_as_long_as_rates_and_clip_say_and_paths_are_dropped_ever_more_often(
    architecture: Architecture, bright: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    monkeypatch.setattr(Net, "drop_path_", lambda _, rate: rates.append(rate))
    loop = loop_of(architecture, bright, tmp_path, clip=0.01)
    loop.run()
    assert rates == pytest.approx([0.0, 0.2 / 3, 0.4 / 3])
    last = 1 - 1 / 9  # of three steps in each of three epochs
    assert loop.optimiser.param_groups[0]["lr"] == pytest.approx(rate_at(loop.config, last))
    length = torch.stack([weight.grad.norm() for weight in loop.weights]).norm()
    assert length.item() == pytest.approx(0.01, rel=1e-3)


def test_a_prediction_does_not_hang_on_its_batch(model: Model, bright: Images) -> None:
    together = model.train().probabilities(bright.pixels)
    apart = [model.train().probabilities(pixels) for pixels in bright.pixels.split(16)]
    assert torch.allclose(together, torch.cat(apart), atol=1e-5)


def test_stopped_and_resumed_it_is_the_same(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    whole = run(architecture, bright, tmp_path / "whole").state_dict()
    runtime = stopping_at(4)
    with pytest.raises(Interrupted):
        train(architecture, bright, ("a", "b"), TINY, run=tmp_path / "broken", runtime=runtime)
    resumed = run(architecture, bright, tmp_path / "broken").state_dict()
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    architecture: Architecture, bright: Images, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = run(architecture, bright, tmp_path).state_dict()
    newest = max((tmp_path / "checkpoint").iterdir())
    newest.write_bytes(newest.read_bytes()[:-100])
    resumed = run(architecture, bright, tmp_path).state_dict()
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)
    assert "going back" in caplog.text


def test_a_training_ends_in_its_time_with_its_rates_run_down(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    runtime = Runtime.start("cpu", 0)
    runtime.clock = Clock(0.1)
    config = TINY.model_copy(update={"epochs": LONGEST, "time": 60.0})
    train(architecture, bright, ("dark", "bright"), config, run=tmp_path, runtime=runtime)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert 45 < runtime.clock.now <= 60
    assert lines[-1]["epoch"] == lines[-1]["epochs"] > 3
    assert lines[-1]["rate"] < 0.1 * lines[0]["rate"]


def test_no_validation_images_is_allowed(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    run(architecture, bright, tmp_path, epochs=1, validation=0.0)
    assert "held_out" not in json.loads((tmp_path / "log.jsonl").read_text())


def test_pruning_keeps_what_the_trained_network_computes(model: Model, bright: Images) -> None:
    pruned = prune(model)
    pixels = bright.pixels.float()
    assert torch.allclose(pruned(pixels), model(pixels), atol=1e-5)
    assert not pruned.variational
    noise = [
        m.pruned().eq(0).sum().item() for m in model.net.modules() if isinstance(m, Variational)
    ]
    assert sum(noise) > 0
    assert nonzero_parameters(pruned.net) == nonzero_parameters(model.net) - sum(noise)
    assert not any(name.startswith("auxiliary") for name in pruned.net.state_dict())


def test_a_lower_threshold_prunes_more(model: Model) -> None:
    counts = [nonzero_parameters(prune(model, at).net) for at in (-5.0, 0.0, 3.0, float("inf"))]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == nonzero_parameters(model.net)


def test_a_model_on_disk_is_the_same_model(model: Model, bright: Images, tmp_path: Path) -> None:
    for number, saved in enumerate((model, prune(model))):
        folder = tmp_path / str(number)
        saved.save(folder, card="a card")
        loaded = Model.load(folder)
        assert torch.equal(loaded(bright.pixels), saved(bright.pixels))
        assert loaded.classes == saved.classes
        assert loaded.architecture == saved.architecture
        assert sorted(p.name for p in folder.iterdir()) == [
            "README.md",
            "config.json",
            "model.safetensors",
        ]


def test_weights_of_another_network_are_refused(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "a", card="")
    prune(model).save(tmp_path / "b", card="")
    (tmp_path / "a" / "model.safetensors").replace(tmp_path / "b" / "model.safetensors")
    with pytest.raises(ArdorError, match="do not fit"):
        Model.load(tmp_path / "b")


def test_multiply_adds_are_counted_by_hand() -> None:
    space = Cells(image=(1, 8, 8), classes=2, layout="N", states=1, channels=2, stem=1, ops="seven")
    kept = {"normal/>2": ("0",), "normal/0>2": ("dil_conv_3x3",), "normal/1>2": ()}
    net = space.build(space.architecture(kept))
    pixels = 64
    stem, squeezes = 9 * 2 * pixels, 2 * 2 * 2 * pixels
    dilated, linear = (9 * 2 + 2 * 2) * pixels, 2 * 2
    assert multiply_adds(net, space.image) == stem + squeezes + dilated + linear


def test_scores_of_known_probabilities() -> None:
    logits = torch.tensor([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2]]).log()
    labels = torch.tensor([0, 0, 0, 0, 1])
    found = scores(logits, labels)
    assert found["accuracy"] == pytest.approx(0.8)
    assert found["ece"] == pytest.approx(0.0, abs=1e-6)
    assert found["brier"] == pytest.approx((4 * 0.08 + 1.28) / 5)
    assert found["nll"] == pytest.approx(
        -(4 * torch.tensor(0.8).log() + torch.tensor(0.2).log()) / 5
    )


def test_a_network_behind_a_halving_stem_trains_shrinks_and_leaves(tmp_path: Path) -> None:
    space = replace(SPACE, image=(1, 16, 16), halvings=3)
    labels = torch.arange(32) % 2
    pixels = (torch.randint(0, 100, (32, 1, 16, 16)) + 100 * labels[:, None, None, None]).byte()
    architecture = methods.make("random", space, {}).draw(1)[0]
    model = run(architecture, Images(pixels, labels), tmp_path, epochs=2, rate_warmup=0.5).eval()
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["train"]["auxiliary"] > 0
    whole = prune(model)
    with torch.no_grad():  # a channel between the convolutions of the stem that is always zero
        whole.net.stem[1].weight[0] = whole.net.stem[1].bias[0] = 0.0
    small = compact(whole)
    assert torch.allclose(small(pixels), whole(pixels), atol=1e-4)
    assert small.net.stem[0].out_channels < whole.net.stem[0].out_channels
    assert multiply_adds(small.net, space.image) < multiply_adds(whole.net, space.image)
    small.save(tmp_path / "model", card="")
    assert torch.equal(Model.load(tmp_path / "model")(pixels), small(pixels))
    assert export("onnx", small, pixels[:5]).difference < 1e-4


def test_the_linear_rate_is_that_of_pdarts() -> None:
    def pdarts(epoch: int, epochs: int = 250) -> float:
        left = epochs - epoch
        return (left - 5) / (epochs - 5) if left > 5 else left / ((epochs - 5) * 5)

    found = [linear(epoch / 250) for epoch in range(251)]
    meet = 250 - 6  # epochs, where theirs stands still for one and here one line becomes the other
    expected = [pdarts(epoch) if epoch != meet else 1.2 / 245 for epoch in range(251)]
    assert found == pytest.approx(expected, abs=1e-12)
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1]) == (pytest.approx(1.0), 0.0)


def test_the_exponential_rate_is_that_of_darts_on_imagenet() -> None:
    config = TrainConfig(rate=0.1, schedule="exponential")
    rates = [rate_at(config, epoch / 250) for epoch in range(251)]
    expected = [0.1]
    for _ in range(250):
        expected.append(0.97 * expected[-1])
    assert rates == pytest.approx(expected, rel=1e-9)
    assert exponential(1.0) == pytest.approx(5e-4, rel=0.02)


def test_the_rate_warms_up_and_then_follows_its_schedule() -> None:
    config = TrainConfig(rate=0.5, schedule="linear", rate_warmup=0.02)
    assert [rate_at(config, p) for p in (0.0, 0.01, 0.02, 1.0)] == pytest.approx(
        [0.0, 0.25 * linear(0.01), 0.5 * linear(0.02), 0.0]
    )
    cold = TrainConfig(rate=0.5, schedule="linear")
    assert rate_at(config, 0.3) == rate_at(cold, 0.3) == 0.5 * linear(0.3)
    assert rate_at(cold, 0.0) == 0.5


def test_the_network_may_be_larger_than_what_was_searched(architecture: Architecture) -> None:
    larger = replace(SPACE, channels=8, layout="NNRNN")
    network = larger.architecture(dict(architecture.kept))
    assert larger.build(network)(torch.randn(2, 1, 8, 8)).shape == (2, 2)
