"""Training that begins with what the search has learned, or uses it as it is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import stopping_at
from torch import Tensor, nn

from ardor import spaces
from ardor.architecture import Architecture
from ardor.data import Images, Normalise
from ardor.errors import ArdorError, Interrupted
from ardor.layers.variational import VariationalConv2d
from ardor.models.model import Model
from ardor.models.sizes import nonzero_parameters
from ardor.models.smaller import compact, prune
from ardor.runtime.device import Runtime
from ardor.searching.handover import cut_out
from ardor.settings.sections import TrainConfig
from ardor.spaces.cells import Cells
from ardor.training.train import train, tune

SPACE = Cells(image=(1, 8, 8), classes=2, layout="NR", states=2, channels=4, ops="darts")
HEADED = replace(SPACE, auxiliary=True)
PARTIAL = replace(SPACE, partial=2)
TINY = TrainConfig(epochs=3, batch=16, rate=0.01, drop_path=0.2, start="search")
CLASSES = ("dark", "bright")


@pytest.fixture
def architecture() -> Architecture:
    return SPACE.subset({c.name: torch.rand(1, 1, len(c.options)) for c in SPACE.choices}, 0.7)


def learned(space: Cells, architecture: Architecture) -> dict[str, Tensor]:
    torch.manual_seed(1)
    supernet = space.build(conv=VariationalConv2d)
    return cut_out(supernet, space, space.adopted(architecture), VariationalConv2d)


def run(
    architecture: Architecture,
    images: Images,
    folder: Path,
    runtime: Runtime | None = None,
    space: Cells = SPACE,
    **changes: object,
) -> Model:
    return train(
        space.adopted(architecture),
        images,
        CLASSES,
        TINY.model_copy(update=changes),
        run=folder,
        runtime=runtime or Runtime.start("cpu", 0),
        searched=learned(space, architecture),
    )


def alike(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one.keys() | other.keys())


def test_without_epochs_it_is_what_the_search_left_and_images_are_not_augmented(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    found = [
        run(architecture, bright, tmp_path / str(number), epochs=0, augment=names)
        for number, names in enumerate([(), ("crop", "erase")])
    ]
    states = [model.state_dict() for model in found]
    assert alike(*states)
    weights = learned(SPACE, architecture)
    assert all(torch.equal(states[0][f"net.{name}"], w) for name, w in weights.items())
    again = found[0].probabilities(bright.pixels)
    assert torch.allclose(again[:1], found[0].probabilities(bright.pixels[:1]), atol=1e-6)


def test_it_learns_on_from_there(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    model = run(architecture, bright, tmp_path, epochs=8)
    predicted = model.probabilities(bright.pixels).argmax(1)
    assert (predicted == bright.labels).float().mean() > 0.9
    state, before = model.state_dict(), learned(SPACE, architecture)
    moved = [name for name, w in before.items() if not torch.equal(state[f"net.{name}"], w)]
    assert moved
    scales = [name for name in state if name.endswith("norm.weight")]
    assert any((state[name] != 1).any() for name in scales)


@pytest.mark.parametrize("stop", [1, 4])
def test_stopped_and_resumed_it_is_the_same(
    stop: int, architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    whole = run(architecture, bright, tmp_path / "whole").state_dict()
    with pytest.raises(Interrupted):
        run(architecture, bright, tmp_path / "broken", stopping_at(stop))
    assert alike(run(architecture, bright, tmp_path / "broken").state_dict(), whole)


def test_an_auxiliary_head_begins_anew_and_teaches(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    model = run(architecture, bright, tmp_path / "headed", space=HEADED, epochs=1)
    (line,) = (tmp_path / "headed" / "log.jsonl").read_text().splitlines()
    assert json.loads(line)["train"]["auxiliary"] > 0
    model.save(tmp_path / "saved", card="")
    assert alike(Model.load(tmp_path / "saved").state_dict(), model.state_dict())
    assert not any("auxiliary" in name for name in prune(model).state_dict())
    plain = [
        run(
            architecture, bright, tmp_path / space.ops / str(space.auxiliary), None, space, epochs=0
        )
        for space in (SPACE, HEADED)
    ]
    predicted = [model.probabilities(bright.pixels) for model in plain]
    assert torch.equal(*predicted)  # the head only helps to train


@pytest.mark.parametrize("space", [SPACE, PARTIAL], ids=["whole", "partial"])
@pytest.mark.parametrize("threshold", [3.0, -2.0])
def test_pruned_saved_and_fine_tuned_it_stays_the_same_network(
    space: Cells, threshold: float, architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    model = run(architecture, bright, tmp_path, space=space, epochs=1).eval()
    for layer in model.net.modules():
        if isinstance(layer, VariationalConv2d):
            nn.init.normal_(layer.log_var, -3.0, 3.0)
    masked = prune(model, threshold)
    if threshold == 3.0:
        assert torch.allclose(masked(bright.pixels), model(bright.pixels), atol=1e-5)
    for layer in masked.net.modules():  # some channels of which nothing is left
        if isinstance(layer, nn.BatchNorm2d):
            layer.weight.data[::2] = 0
    small = compact(masked)
    assert nonzero_parameters(small.net) < nonzero_parameters(masked.net)
    assert torch.allclose(small(bright.pixels), masked(bright.pixels), atol=1e-4)
    tuned = tune(small, bright, TINY, run=tmp_path, runtime=Runtime.start("cpu", 0))
    for number, saved in enumerate((model, masked, small, tuned)):
        saved.save(tmp_path / str(number), card="")
        loaded = Model.load(tmp_path / str(number))
        assert torch.allclose(loaded(bright.pixels), saved.eval()(bright.pixels), atol=1e-5)
        assert loaded.net.as_searched
        assert (
            json.loads((tmp_path / str(number) / "config.json").read_text())["form"] == "searched"
        )


def test_candidates_of_zeros_leave_no_hole_where_channels_pass_by(bright: Images) -> None:
    kept = PARTIAL.subset({c.name: torch.ones(1, 1, len(c.options)) for c in PARTIAL.choices})
    net = spaces.network(kept, as_searched=True).eval()
    for name, layer in net.named_modules():
        if isinstance(layer, nn.BatchNorm2d) and "0>2" in name:
            nn.init.zeros_(layer.weight)
    model = Model(net, Normalise.of(bright), kept, CLASSES).eval()
    assert torch.allclose(compact(model)(bright.pixels), model(bright.pixels), atol=1e-5)


def test_weights_of_another_network_are_refused(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    weights = learned(replace(SPACE, channels=6), architecture)
    for given, words in (
        (weights, "do not fit its config.json: 'cells.0"),
        ({}, "is absent; must be"),
        ({**learned(SPACE, architecture), "strange": torch.ones(3)}, r"'strange' is \(3,\); must"),
    ):
        with pytest.raises(ArdorError, match=words):
            train(
                architecture,
                bright,
                CLASSES,
                TINY,
                run=tmp_path,
                runtime=Runtime.start("cpu", 0),
                searched=given,
            )


def test_without_weights_of_a_search_it_does_not_begin(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    runtime = Runtime.start("cpu", 0)
    with pytest.raises(ArdorError, match=r"train.start = 'search' needs weights"):
        train(architecture, bright, CLASSES, TINY, run=tmp_path, runtime=runtime)
