"""A batch in parts: the gradient, the terms and the steps of the whole."""

import json
from pathlib import Path

import pytest
import torch
from conftest import Clock
from standins.toy import Toy
from torch import Tensor, nn

from ardor import methods
from ardor.bayes import Gates
from ardor.data import Images
from ardor.runtime.device import Runtime
from ardor.searching.gate_gradients import GateCurvature, searching
from ardor.searching.loop import search
from ardor.settings.sections import SearchConfig, TrainConfig
from ardor.spaces.cells import Cells
from ardor.training.accumulate import micro_batches_of
from ardor.training.objective import Batch, likelihood, objective
from ardor.training.train import train

SPACE = Cells(image=(1, 6, 6), classes=3, layout="NN", states=1, channels=2, ops="seven")
EXACT = {"rtol": 1e-9, "atol": 1e-12}


def frozen(net: nn.Module) -> nn.Module:
    """The net in float64, its norms as constants: nothing looks across images."""
    for norm in [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]:
        norm.running_mean = torch.rand(norm.num_features)
        norm.running_var = 1 + torch.rand(norm.num_features)
        norm.track_running_stats = True
    return net.double().eval()


def some(images: int) -> Batch:
    pixels = torch.randn(images, *SPACE.image, dtype=torch.double)
    return Batch(pixels, torch.arange(images) % 3, dataset_size=50)


class Penalised(methods.find("darts")):
    """Gates for each image, and a penalty on them."""

    def sample(self, batch: int, progress: float) -> Gates:
        drawn = super().sample(batch, progress)
        return {n: g * torch.rand(1, batch, 1, dtype=torch.double) for n, g in drawn.items()}

    def penalty(self, gates: Gates, net: nn.Module, progress: float) -> dict[str, Tensor]:
        return {"size": torch.stack([gate.square().sum() for gate in gates.values()]).sum()}


@pytest.mark.parametrize("kind", [methods.find("darts"), Penalised])
@pytest.mark.parametrize("parts", [2, 3, 5])
def test_gradients_and_terms_are_those_of_the_whole(parts: int, kind: type) -> None:
    net, method, batch = frozen(SPACE.build()), kind(SPACE).double(), some(11)
    inputs = [*net.parameters(), *method.parameters()]
    found = []
    for count in (1, parts):
        torch.manual_seed(0)
        loss = searching(net, method, batch, 0.5, smoothing=0.1, micro_batches=count)
        found.append((torch.autograd.grad(loss.total, inputs, allow_unused=True), loss.terms))
    (whole, terms), (split, split_terms) = found
    assert split_terms == pytest.approx(terms, rel=1e-6)
    assert any(g is not None for g in whole)
    for a, b in zip(whole, split, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(a, b, **EXACT)


def test_an_auxiliary_head_is_counted_in_parts_too() -> None:
    space = Cells(image=(1, 8, 8), classes=3, layout="NR", states=1, channels=2, auxiliary=True)
    kept = space.strongest({c.name: torch.rand(1, 1, len(c.options)) for c in space.choices})
    net = frozen(space.build(kept))
    net.training = True  # for the head; the norms stay as they are
    batch = Batch(torch.randn(9, 1, 8, 8, dtype=torch.double), torch.arange(9) % 3, dataset_size=9)
    slopes = []
    for parts in (1, 4):
        fit = likelihood(net, batch, {}, smoothing=0.0, auxiliary_weight=0.4, micro_batches=parts)
        assert "auxiliary" in fit
        loss = objective(fit, {}, dataset_size=9)
        slopes.append(torch.autograd.grad(loss.total, list(net.parameters())))
    assert all(torch.allclose(a, b, **EXACT) for a, b in zip(*slopes, strict=True))


def test_curvature_is_that_of_the_whole() -> None:
    net, batch = SPACE.build().double(), some(7)
    gates = {c.name: torch.rand(c.copies, 1, len(c.options)).double() for c in SPACE.choices}
    whole, split = (
        GateCurvature(net, SPACE.choices, lambda: [batch], micro_batches=n)(gates) for n in (1, 3)
    )
    assert all(torch.allclose(whole[name], split[name], **EXACT) for name in gates)


def test_no_part_is_a_single_image() -> None:
    assert [micro_batches_of(n, 9) for n in (1, 2, 4, 9, 100)] == [1, 2, 4, 4, 4]
    assert micro_batches_of(4, 1) == 1


@pytest.mark.parametrize("name", ["darts", "gdas", "vinnas", "rsps"])
def test_a_search_in_parts_has_the_same_steps(name: str, bright: Images, tmp_path: Path) -> None:
    base = SearchConfig(epochs=2, batch=16, augment=(), warmup=0.5)
    logs = []
    for accumulate in (1, 3):
        run, runtime = tmp_path / str(accumulate), Runtime.start("cpu", 0)
        runtime.clock = Clock()
        config = base.model_copy(update={"accumulate": accumulate})
        search(Toy(), methods.make(name, Toy(), {}), bright, config, run=run, runtime=runtime)
        logs.append([json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()])
    for whole, split in zip(*logs, strict=True):
        assert split.keys() == whole.keys()
        assert split["train"].keys() == whole["train"].keys()
        assert split["rate"] == whole["rate"]
        assert split["train"]["nll"] == pytest.approx(whole["train"]["nll"], rel=0.2)


def test_training_in_parts_learns(bright: Images, tmp_path: Path) -> None:
    space = Cells(image=(1, 8, 8), classes=2, layout="R", states=1, channels=4)
    kept = space.strongest({c.name: torch.rand(1, 1, len(c.options)) for c in space.choices})
    config = TrainConfig(epochs=8, batch=16, accumulate=4, rate=0.01, augment=())
    runtime = Runtime.start("cpu", 0)
    model = train(kept, bright, ("a", "b"), config, run=tmp_path, runtime=runtime)
    predicted = model.probabilities(bright.pixels).argmax(1)
    assert (predicted == bright.labels).float().mean() > 0.9
