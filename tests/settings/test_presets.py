"""Presets: what they say, and what the papers print."""

import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ardor import methods, spaces
from ardor.data import Images
from ardor.errors import Interrupted
from ardor.layers.operations import SETS, ZERO
from ardor.pipeline.resolve import final_space, layered, resolved, threshold_of, unnamed
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.searching.loop import SearchLoop, halves
from ardor.settings.merge import resolve
from ardor.settings.presets import preset, presets
from ardor.settings.sections import Config
from ardor.training.optimise import rate_at
from ardor.training.train import TrainLoop, split_validation

# Cells, states and share of the images of the search, its epochs; cells of the final network, the
# factor of its channels, its epochs. VINNAS, section V; the first version differs in -v1.
PRINTED = {
    "vinnas-mnist": ("R", 2, 0.25, 20, "R", 1.0, 100),
    "vinnas-mnist-v1": ("R", 2, 0.25, 20, "R", 1.0, 100),
    "vinnas-fashion": ("NNRNNRNN", 3, 0.5, 50, "NNRNNRNN", 6.4, 400),
    "vinnas-fashion-v1": ("NRRN", 3, 0.5, 50, "NRRN", 4.0, 200),
    "vinnas-cifar10": ("NNRNNRNN", 4, 0.5, 100, "NNNNNNRNNNNNNRNNNNNN", 3.0, 600),
    "vinnas-cifar10-v1": ("NNRNNRNN", 4, 0.5, 100, "NNNNNNRNNNNNNRNNNNNN", 2.5, 300),
}


# Epochs of the search, and the weight decay of the training (SI-VDNAS, section 4).
SIVDNAS = {
    "sivdnas-cifar10": (50, 3e-4),
    "sivdnas-cifar10-convergence": (150, 3e-4),
    "sivdnas-cifar100": (50, 5e-4),
    "sivdnas-imagenet": (50, 3e-5),
}


def config_of(name: str) -> Config:
    return resolve(preset(name))


@pytest.mark.parametrize("name", presets())
def test_a_preset_is_a_whole_set_of_settings_with_a_line_about_it(name: str) -> None:
    config = config_of(name)
    assert final_space(config).choices
    assert len(presets()[name]) > 20
    known = {field.name for field in fields(spaces.find(config.space["name"]))}
    assert set(config.space) - {"name"} <= known
    assert set(config.network) <= known


@pytest.mark.parametrize("name", PRINTED)
def test_vinnas_is_set_as_printed(name: str) -> None:
    cells, states, share, epochs, final_cells, factor, final_epochs = PRINTED[name]
    config = config_of(name)
    space, final = spaces.make("cells", unnamed(config.space)), final_space(config)
    assert (space.cells, space.states, space.ops, space.inputs) == (cells, states, "vinnas", 2)
    assert (config.search.fraction, config.search.held_out) == (share, 0.5)
    assert (config.search.epochs, config.search.batch) == (epochs, 256)
    assert (final.cells, final.channels / space.channels) == (final_cells, factor)
    assert config.train.epochs == final_epochs
    assert config.train.validation == 0.0  # all images teach
    assert layered((preset(name),)).method["select"] == "snr"
    augmented = () if "mnist" in name else ("crop", "flip", "erase")
    assert config.search.augment == config.train.augment == augmented


@pytest.mark.parametrize("name", PRINTED)
def test_the_versions_of_vinnas_differ_in_threshold_and_regularisation(name: str) -> None:
    config, first = config_of(name), name.endswith("-v1")
    assert math.exp(threshold_of(config)) == pytest.approx(3 if first else math.exp(3))
    helped = not first and "mnist" not in name
    assert final_space(config).auxiliary == (config.train.drop_path > 0) == helped


@pytest.mark.parametrize("name", SIVDNAS)
def test_sivdnas_searches_as_printed(name: str) -> None:
    config = layered((preset(name),))
    space = spaces.make("cells", unnamed(config.space))
    assert config.method["name"] == "sivdnas"
    assert (space.cells, space.states, space.channels) == ("NNRNNRNN", 4, 16)
    assert sorted(space.operations) == sorted(set(SETS["darts"]) - {ZERO})
    assert (config.search.epochs, config.search.batch) == (SIVDNAS[name][0], 64)
    assert (config.search.fraction, config.search.held_out) == (1.0, 0.5)
    assert config.search.warmup * config.search.epochs == pytest.approx(15)


@pytest.mark.parametrize("name", SIVDNAS)
def test_sivdnas_trains_plain_weights_on_all_images_as_printed(name: str) -> None:
    train, final = config_of(name).train, final_space(config_of(name))
    assert train.weight_decay == SIVDNAS[name][1]
    assert (train.optimiser, train.momentum, train.rate_end) == ("sgd", 0.9, 0.0)
    assert (train.validation, train.variational) == (0.0, False)
    assert (final.auxiliary, train.auxiliary_weight) == (True, 0.4)
    if "imagenet" not in name:
        assert (final.cells.count("N"), final.cells.count("R"), final.channels) == (18, 2, 36)
        assert (train.epochs, train.batch, train.rate, train.clip) == (600, 96, 0.025, 5.0)
        assert (train.schedule, train.rate_warmup, train.drop_path) == ("cosine", 0.0, 0.3)
        assert train.augment == ("crop", "flip", "cutout")


def test_sivdnas_trains_the_mobile_network_on_imagenet_as_printed() -> None:
    config = config_of("sivdnas-imagenet")
    train, final = config.train, final_space(config)
    assert (final.cells.count("N"), final.cells.count("R"), final.channels) == (12, 2, 48)
    assert [at for at, kind in enumerate(final.cells) if kind == "R"] == [14 // 3, 2 * 14 // 3]
    assert (config.data.size, config.data.size >> final.halvings) == (224, 28)
    assert (train.epochs, train.batch, train.rate, train.schedule) == (250, 1024, 0.5, "linear")
    assert (train.rate_warmup * train.epochs, train.smoothing) == (5, 0.1)


# lambda, the weight of the group lasso (BayesNAS, section 6.1)
BAYESNAS = {
    "bayesnas-cifar10": 0.01,
    "bayesnas-cifar10-0.007": 0.007,
    "bayesnas-cifar10-0.005": 0.005,
    "bayesnas-imagenet": 0.01,
}


@pytest.mark.parametrize("name", BAYESNAS)
def test_bayesnas_searches_as_printed(name: str) -> None:
    config = layered((preset(name),))
    space, search = spaces.make("cells", unnamed(config.space)), config.search
    assert config.method == {"name": "bayesnas", "sparsity": BAYESNAS[name]}
    assert (space.cells, space.states, space.order) == ("NNRNNRNN", 4, "bn-relu-conv")
    assert sorted(space.operations) == sorted(set(SETS["darts"]) - {ZERO})
    assert (search.epochs, search.batch) == (1, 18)
    assert (search.optimiser, search.momentum) == ("sgd", 0.9)
    assert (search.rate, search.schedule, search.weight_decay) == (0.1, "constant", 1e-4)
    assert (search.gate_optimiser, search.gate_momentum) == ("sgd", 0.9)
    assert (search.gate_rate, search.gate_schedule, search.gate_decay) == (0.1, "constant", 0.0)
    assert (search.fraction, search.warmup) == (1.0, 0.1)


@pytest.mark.parametrize("name", [name for name in BAYESNAS if "cifar10" in name])
def test_bayesnas_trains_as_printed_and_otherwise_as_darts(name: str) -> None:
    train, final = config_of(name).train, final_space(config_of(name))
    assert (final.cells.count("N"), final.cells.count("R"), final.channels) == (18, 2, 36)
    assert (train.batch, train.augment) == (128, ("crop", "flip", "cutout"))
    assert (train.epochs, train.rate, train.schedule, train.clip) == (600, 0.025, "cosine", 5.0)
    assert (train.weight_decay, train.validation, train.variational) == (3e-4, 0.0, False)
    assert not final.auxiliary  # the authors' net has none


def test_bayesnas_trains_the_mobile_network_on_imagenet_as_printed() -> None:
    config = config_of("bayesnas-imagenet")
    train, final = config.train, final_space(config)
    assert (final.cells.count("N"), final.cells.count("R"), final.channels) == (12, 2, 48)
    assert (config.data.size, config.data.size >> final.halvings) == (224, 28)
    assert (train.epochs, train.batch, train.weight_decay) == (250, 128, 3e-5)
    assert (train.optimiser, train.rate, train.schedule) == ("sgd", 0.1, "exponential")
    assert rate_at(train, 1 / train.epochs) == pytest.approx(0.97 * train.rate)


@pytest.mark.parametrize("name", BAYESNAS)
def test_the_published_cells_of_bayesnas_go_with_its_presets(name: str) -> None:
    final = final_space(config_of(name))
    final.check(final.adopted(spaces.known(f"bayesnas-{BAYESNAS[name]}")))


# Epochs, batch, rate, l^2, draws and groups (PGNAS, supplement); what kl makes of the images.
PGNAS = {
    "pgnas-m": (1800, 128, 0.01, 50, 1500, 56, 0.1),
    "pgnas-mi": (1800, 128, 0.01, 150, 1500, 56, 0.1),
    "pgnas-mi-cifar100": (1800, 128, 0.01, 2500, 5000, 56, 0.1),
    "pgnas-e": (630, 144, 0.05, 0.1, 1500, 263, 0.1),
    "pgnas-ei": (630, 72, 0.05, 0.1, 1500, 263, 0.1),
    "pgnas-resnet50": (90, 256, 0.1, 80, 1500, 64, 1.0),
    "pgnas-densenet121": (180, 300, 0.1, 100, 1500, 638, 1.0),
}


@pytest.mark.parametrize("name", PGNAS)
def test_pgnas_searches_as_printed_and_trains_no_further(name: str) -> None:
    config = layered((preset(name),))
    search, method = (
        config.search,
        methods.make("pgnas", final_space(config), unnamed(config.method)),
    )
    found = (search.epochs, search.batch, search.rate, round(method.length_scale**2 / 2, 1))
    assert (*found, search.candidates, len(method.masked), method.kl) == PGNAS[name]
    assert (search.optimiser, search.momentum, search.weight_decay) == ("sgd", 0.9, 0.0)
    # Probabilities learn as the weights do.
    assert (search.gate_optimiser, search.gate_momentum) == ("sgd", 0.9)
    assert (search.gate_rate, search.gate_decay) == (search.rate, 0.0)
    assert ("cutout" in search.augment) == (config.data.size == 0)
    assert (config.train.start, config.train.epochs, config.train.variational) == (
        "search",
        0,
        False,
    )


Loop = SearchLoop | TrainLoop
# Two steps of a search, of the weights alone and with gates, and three of a training.
FEW: dict[str, Any] = {
    "search": {"batch": 2, "epochs": 1, "fraction": 1.0},
    "train": {"batch": 2, "epochs": 1},
}
IN_PARTS: dict[str, Any] = {"train": {"batch": 4}}  # of two images each, where a preset asks so


def few_images(name: str, folder: Path) -> tuple[Config, Images]:
    """The preset at its real size, on a few images that are as large as those it is meant for."""
    grey = name.startswith(("vinnas-mnist", "vinnas-fashion"))
    shape = (10, 28, 28) if grey else (10, 32, 32, 3)
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.savez(folder / "few.npz", x=pixels, y=np.arange(10) % 2)
    few = [FEW, IN_PARTS] if "imagenet" in name else [FEW]
    source = {"data": {"source": str(folder / "few.npz")}}
    config, images = resolved((preset(name), *few, source))
    return config, images.train


def stop_after_a_step(loop: Loop) -> None:
    """Has the loop do a step, save all it knows and end."""
    runtime = loop.runtime
    runtime.report = lambda progress: setattr(runtime, "stopping", not progress.note)
    with pytest.raises(Interrupted):
        loop.run()
    runtime.stopping = False


def state_after_a_step(loop: Loop) -> dict[str, Tensor]:
    """All tensors that a loop holds after its next step, and the random state."""

    def leave(progress: Progress) -> None:
        raise KeyboardInterrupt

    loop.runtime.report = leave
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    found = {"random": torch.get_rng_state()}
    for name, module in loop.stage.modules.items():
        found |= {f"{name}/{key}": tensor for key, tensor in module.state_dict().items()}
    for name, optimiser in loop.stage.optimisers.items():
        for at, entries in optimiser.state_dict()["state"].items():
            found |= {f"{name}/{at}/{key}": tensor for key, tensor in entries.items()}
    return found


def check_resumes(begin: Callable[[Path, Runtime], Loop], folder: Path) -> None:
    """Resumed after its first step, or never stopped there: the second leaves the same bits."""
    whole = begin(folder, Runtime.start("cpu", 0))
    stop_after_a_step(whole)
    expected = state_after_a_step(whole)
    resumed = begin(folder, Runtime.start("cpu", 0))
    assert (resumed.stage.epoch, resumed.stage.step) == (0, 1)
    found = state_after_a_step(resumed)
    assert found.keys() == expected.keys()
    assert [key for key in found if not torch.equal(found[key], expected[key])] == []


# Those whose nets no larger one stands for.
BUILT = ["sivdnas-cifar10", "sivdnas-imagenet", "sivdnas-cifar10-small", "bayesnas-cifar10"]
SEARCHED = ["vinnas-mnist", "vinnas-fashion-v1", "vinnas-cifar10", *BUILT]
TRAINED = ["vinnas-mnist", "vinnas-fashion", "vinnas-fashion-v1", "vinnas-cifar10", *BUILT]


@pytest.mark.parametrize("name", SEARCHED)
def test_a_search_at_real_size_starts_steps_and_resumes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ardor.runtime.memory.need", lambda net, forward: None)  # takes a while
    config, images = few_images(name, tmp_path)
    space = spaces.make("cells", unnamed(config.space))

    def begin(run: Path, runtime: Runtime) -> SearchLoop:
        method = methods.make(config.method["name"], space, unnamed(config.method))
        return SearchLoop(
            space, method, halves(images, config.search, 0), config.search, run, runtime
        )

    check_resumes(begin, tmp_path)


@pytest.mark.parametrize("name", TRAINED)
def test_a_training_at_real_size_starts_steps_and_resumes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ardor.runtime.memory.need", lambda net, forward: None)
    config, images = few_images(name, tmp_path)
    architecture = methods.make("random", final_space(config), {}).draw(1)[0]
    parts = split_validation(images, config.train, 0)
    check_resumes(
        lambda run, runtime: TrainLoop(architecture, parts, config.train, run, runtime), tmp_path
    )


def test_both_versions_search_cifar10_in_the_same_way() -> None:
    first, second = map(config_of, ("vinnas-cifar10-v1", "vinnas-cifar10"))
    assert (first.space, first.method, first.search) == (second.space, second.method, second.search)
