"""A network gets smaller while it learns: as small as asked, never in place, resumable anywhere."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Clock, stopping_at
from torch import Tensor, nn

from ardor import spaces
from ardor.data import Images, Normalise
from ardor.errors import ArdorError, Interrupted
from ardor.layers.variational import VariationalConv2d
from ardor.models.model import Model
from ardor.models.sizes import Sizes, nonzero_parameters
from ardor.models.smaller import compact
from ardor.pipeline.compress_stage import COMPRESSING
from ardor.pruning import priors
from ardor.pruning.groups import KINDS, weights_of
from ardor.pruning.thinning import mask_of
from ardor.runtime.device import Runtime
from ardor.settings.sections import LONGEST, CompressConfig, TrainConfig
from ardor.spaces.cells import Cells
from ardor.training.compress import CompressLoop, compress
from ardor.training.train import split_validation, train

CLASSES = ("dark", "bright")
EVERY = pytest.mark.parametrize("prior", priors.names())
EPOCHS = 4  # of four steps each
CONFIG = TrainConfig(
    **COMPRESSING,
    epochs=EPOCHS,
    batch=14,
    optimiser="adam",
    rate=0.01,
    augment=(),
    average=0.5,
)


@pytest.fixture
def model(bright: Images) -> Model:
    """A trained network, as far as two classes need to be."""
    space = spaces.make("standins.small", {"image": (1, 8, 8), "classes": 2})
    architecture = space.architecture({})
    return learned(
        Model(space.build(architecture), Normalise.of(bright), architecture, CLASSES), bright
    )


def learned(model: Model, images: Images) -> Model:
    """After a few steps of plain descent."""
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(12):
        loss = nn.functional.cross_entropy(model.train()(images.pixels), images.labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


def made(
    model: Model, images: Images, folder: Path, runtime: Runtime | None = None, **asked: Any
) -> tuple[Model, list[dict[str, float]]]:
    own = {name: asked.pop(name) for name in TrainConfig.model_fields.keys() & asked.keys()}
    wanted = CompressConfig(**{"cycles": 3, "strength": 1e-3, "multiple": 1, **asked})
    config = CONFIG.model_copy(update=own)
    machine = runtime or Runtime.start("cpu", 0)
    found = compress(model, images, config, wanted, run=folder, runtime=machine)
    return found.model, found.points


def size(model: Model) -> Sizes:
    return Sizes.of(compact(model).net, model.shape)


def check_same_answers(masked: Model, images: Images) -> None:
    with torch.no_grad():
        before, after = masked(images.pixels), compact(masked)(images.pixels)
    assert (before - after).abs().max() <= 1e-5 * before.abs().max()


def check_saved(small: Model, images: Images, folder: Path) -> None:
    small.save(folder / "model", card="")
    loaded = Model.load(folder / "model")
    with torch.no_grad():
        assert torch.allclose(loaded(images.pixels), small(images.pixels), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("prior", "asked"),
    [
        ("laplace", {"times_smaller": 3.0}),
        ("log-uniform", {"max_params": 150}),
        ("magnitude", {"max_macs": 9000}),
        ("laplace", {"max_params": 220, "max_macs": 12000}),
    ],
)
def test_the_result_is_as_small_as_asked(
    prior: str, asked: dict[str, Any], model: Model, bright: Images, tmp_path: Path
) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    small, points = made(model, bright, tmp_path, prior=prior, **asked)
    whole, found = size(model), size(small)
    params = asked.get("max_params") or whole.params / asked.get("times_smaller", 1.0)
    assert found.fits(Sizes(int(params), asked.get("max_macs", whole.macs)))
    assert len(points) == 4  # the given one, and what each of three cycles has left
    sizes = [point["params"] for point in points]
    assert sizes == sorted(sizes, reverse=True)
    check_same_answers(small, bright)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


@EVERY
def test_channels_have_really_left(
    prior: str, model: Model, bright: Images, tmp_path: Path
) -> None:
    small = compact(made(model, bright, tmp_path, prior=prior, times_smaller=4.0)[0])
    outputs = {name: len(w) for name, w in weights_of(small.net).items()}
    before = {name: len(w) for name, w in weights_of(model.net).items()}
    assert outputs["module.head"] == 2
    assert all(outputs[name] < before[name] for name in outputs if name != "module.head")
    assert not small.variational
    check_saved(small, bright, tmp_path)


@pytest.mark.parametrize(
    "groups", [*((kind,) for kind in KINDS if kind != "layers"), ("filters", "shapes", "weights")]
)
def test_groups_of_every_kind_leave(
    groups: tuple[str, ...], model: Model, bright: Images, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"groups": groups, "times_smaller": 1.1, "cycles": 1, "epochs": 2}
    small, _ = made(model, bright, tmp_path, **asked)
    assert size(small).params <= size(model).params / 1.1
    check_same_answers(small, bright)


@EVERY
def test_what_has_left_stays_away_while_the_rest_learns(
    prior: str, model: Model, bright: Images, tmp_path: Path
) -> None:
    loop = loop_of(model, bright, tmp_path, prior=prior, groups=("weights",), times_smaller=3.0)
    seen = []

    def step(images: Images, own: Any = loop.step) -> None:
        own(images)
        if loop.stage.facts["cycle"] > 1:
            seen.append(
                {
                    n: (w != 0, loop.thinning.get_buffer(mask_of(n)).clone())
                    for n, w in weights_of(loop.net).items()
                }
            )

    loop.step = step  # type: ignore[method-assign]
    loop.run()
    assert len(seen) > 1
    for later in seen:
        for kept, mask in later.values():
            assert not (kept & ~mask).any()
    assert sum(int((~kept).sum()) for kept, _ in seen[-1].values()) > 100


def loop_of(model: Model, images: Images, folder: Path, **asked: Any) -> CompressLoop:
    own = {name: asked.pop(name) for name in TrainConfig.model_fields.keys() & asked.keys()}
    wanted = CompressConfig(**{"cycles": 3, "strength": 1e-3, "multiple": 1, **asked})
    config, runtime = CONFIG.model_copy(update=own), Runtime.start("cpu", 0)
    parts = split_validation(images, config, 0)
    return CompressLoop(model, parts, config, wanted, folder, runtime)


@pytest.mark.parametrize(
    ("prior", "changes"),
    [
        ("laplace", {"epochs": 1}),
        ("log-uniform", {"epochs": 1, "batch": 60}),
        ("magnitude", {"cycles": 1}),
    ],
)
def test_few_steps_are_enough_to_become_as_small_as_asked(
    prior: str, changes: dict[str, Any], model: Model, bright: Images, tmp_path: Path
) -> None:
    small, _ = made(model, bright, tmp_path, prior=prior, times_smaller=4.0, **changes)
    assert size(small).params <= size(model).params / 4


def test_a_size_needs_no_held_out_images(model: Model, bright: Images, tmp_path: Path) -> None:
    small, points = made(model, bright, tmp_path, times_smaller=3.0, validation=0.0)
    assert size(small).params <= size(model).params / 3
    assert points == []


@pytest.mark.parametrize(
    ("prior", "steps"), [("laplace", (1, 4)), ("log-uniform", (5,)), ("magnitude", (3,))]
)
def test_stopped_at_any_step_and_resumed_it_is_the_same(
    prior: str, steps: tuple[int, ...], model: Model, bright: Images, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {
        "prior": prior,
        "times_smaller": 3.0,
        "epochs": 2,
        "cycles": 2,
    }
    whole, points = made(model, bright, tmp_path / "whole", **asked)
    for at in steps:
        check_resumed(model, bright, tmp_path / str(at), at, whole, points, asked)


def check_resumed(
    model: Model,
    images: Images,
    folder: Path,
    at: int,
    whole: Model,
    points: list[dict[str, float]],
    asked: dict[str, Any],
) -> None:
    with pytest.raises(Interrupted):
        made(model, images, folder, stopping_at(at), **asked)
    resumed, again = made(model, images, folder, **asked)
    assert again == points
    assert all(
        torch.equal(tensor, whole.state_dict()[name])
        for name, tensor in resumed.state_dict().items()
    )


@pytest.mark.parametrize(("prior", "steps"), [("laplace", (9,)), ("log-uniform", (11,))])
def test_it_goes_back_where_accuracy_falls(
    prior: str,
    steps: tuple[int, ...],
    model: Model,
    bright: Images,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def score(self: CompressLoop, net: nn.Module, **_: Any) -> dict[str, float]:
        left = self.now.params / self.whole.params
        return {"accuracy": 1.0 if left > 0.6 else 0.5, "nll": 1.0, "ece": 0.0, "brier": 0.0}

    monkeypatch.setattr(CompressLoop, "score", score)
    asked: dict[str, Any] = {"prior": prior, "keep_accuracy": 90.0, "cycles": 6, "epochs": 6}
    small, points = made(model, bright, tmp_path / "whole", **asked)
    assert 0.6 < size(small).params / size(model).params < 1.0
    assert {point["accuracy"] for point in points} == {0.5, 1.0}
    check_same_answers(small, bright)
    for at in steps:
        check_resumed(model, bright, tmp_path / str(at), at, small, points, asked)


@pytest.mark.parametrize("prior", ["laplace"])
def test_an_accuracy_that_nothing_has_leaves_the_network_as_large_as_it_is(
    prior: str, model: Model, bright: Images, tmp_path: Path
) -> None:
    flipped = Images(bright.pixels, torch.randint(0, 2, (64,)))
    small, _ = made(model, flipped, tmp_path, prior=prior, keep_accuracy=100.0, rate=1e-5)
    assert size(small) == size(model)


def test_without_a_bound_it_loses_no_more_than_it_may(
    model: Model, bright: Images, tmp_path: Path
) -> None:
    small, points = made(model, bright, tmp_path, prior="magnitude", within=0.2, epochs=8)
    assert size(small).params < size(model).params
    assert points[-1]["accuracy"] >= 0.8


def test_the_same_seed_gives_the_same_bits(model: Model, bright: Images, tmp_path: Path) -> None:
    first, second = (
        made(model, bright, tmp_path / name, times_smaller=3.0)[0].state_dict() for name in "ab"
    )
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("prior", ["log-uniform"])
def test_what_was_compressed_is_compressed_again(
    prior: str, model: Model, bright: Images, tmp_path: Path
) -> None:
    once = compact(made(model, bright, tmp_path / "1", prior=prior, times_smaller=2.0)[0])
    twice = compact(made(once, bright, tmp_path / "2", prior=prior, times_smaller=2.0)[0])
    assert size(twice).params <= size(once).params / 2
    check_saved(twice, bright, tmp_path)


@EVERY
def test_zeros_of_the_given_network_stay_zero(
    prior: str, model: Model, bright: Images, tmp_path: Path
) -> None:
    zeros = {}
    with torch.no_grad():
        for name, weight in weights_of(model.net).items():
            zeros[name] = torch.rand_like(weight) < 0.3
            weight[zeros[name]] = 0.0
    small, _ = made(model, bright, tmp_path, prior=prior, times_smaller=1.5)
    for name, weight in weights_of(small.net).items():
        assert not weight[zeros[name]].any()


def test_it_ends_in_its_time(model: Model, bright: Images, tmp_path: Path) -> None:
    runtime = Runtime.start("cpu", 0)
    runtime.clock = Clock(0.1)
    small, _ = made(
        model, bright, tmp_path, runtime, times_smaller=3.0, epochs=LONGEST, time=30.0, cycles=5
    )
    assert 20 < runtime.clock.now <= 30
    assert size(small).params <= size(model).params / 3
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["epoch"] == lines[-1]["epochs"]


CELLS = Cells(image=(1, 8, 8), classes=2, layout="R", states=1, channels=4, auxiliary=True)


@pytest.mark.parametrize(
    ("form", "prior"), [("variational", "laplace"), ("searched", "log-uniform")]
)
def test_networks_of_every_form_get_smaller(
    form: str, prior: str, bright: Images, tmp_path: Path
) -> None:
    scores: dict[str, Tensor] = {c.name: torch.rand(1, 1, len(c.options)) for c in CELLS.choices}
    space = replace(CELLS, auxiliary=False)
    architecture = space.strongest(scores)
    net = spaces.network(
        architecture,
        conv=VariationalConv2d if form == "variational" else nn.Conv2d,
        as_searched=form == "searched",
    )
    given = learned(Model(net, Normalise.of(bright), architecture, CLASSES), bright)
    small, _ = made(given, bright, tmp_path, prior=prior, times_smaller=2.0)
    assert size(small).params <= size_of_plain(given) / 2
    check_same_answers(small, bright)
    small = compact(small)
    check_saved(small, bright, tmp_path)


def size_of_plain(model: Model) -> int:
    return nonzero_parameters(model.net)


def test_an_auxiliary_head_is_no_part_of_what_gets_smaller(bright: Images, tmp_path: Path) -> None:
    architecture = CELLS.strongest(
        {c.name: torch.rand(1, 1, len(c.options)) for c in CELLS.choices}
    )
    config = TrainConfig(epochs=2, batch=16, rate=0.01, augment=())
    runtime = Runtime.start("cpu", 0)
    given = train(architecture, bright, CLASSES, config, run=tmp_path / "given", runtime=runtime)
    given = given.eval()
    small, _ = made(given, bright, tmp_path / "small", times_smaller=2.0)
    assert size(small).params <= nonzero_parameters(given.net) / 2


def test_a_kind_of_groups_that_the_network_has_not_is_said_before_it_learns(
    model: Model, bright: Images, tmp_path: Path
) -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 8), nn.Flatten())
    space = spaces.of_module(net)(image=(1, 8, 8), classes=2)
    plain = space.architecture({})
    given = Model(space.build(plain), Normalise.of(bright), plain, CLASSES)
    with pytest.raises(ArdorError, match="no groups") as caught:
        made(given, bright, tmp_path, groups=("layers", "rows"), times_smaller=2.0)
    assert "weights" in caught.value.hint


@pytest.mark.parametrize(
    ("labels", "words"), [(1.0, "no more than by chance"), (0.3, "fewer than keep_accuracy")]
)
def test_a_given_network_that_is_not_accurate_enough_is_said_at_once(
    labels: float, words: str, model: Model, bright: Images, tmp_path: Path
) -> None:
    told: list[str] = []
    runtime = Runtime.start("cpu", 0, lambda progress: told.append(progress.note))
    asked: dict[str, Any] = {"epochs": 1, "validation": 0.5}
    wrong = torch.where(torch.arange(64) % 10 < labels * 10, 1 - bright.labels, bright.labels)
    made(model, Images(bright.pixels, wrong), tmp_path, runtime, keep_accuracy=100.0, **asked)
    (at,) = (number for number, note in enumerate(told) if words in note)
    assert at < 2


@pytest.mark.parametrize("prior", ["laplace", "magnitude"])
def test_weights_that_grow_without_bound_are_a_line(
    prior: str, model: Model, bright: Images, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"prior": prior, "times_smaller": 2.0, "optimiser": "sgd"}
    with pytest.raises(ArdorError, match="diverged in epoch") as caught:
        made(model, bright, tmp_path, rate=1e20, **asked)
    assert "compress.rate" in caught.value.hint


def test_a_size_below_the_last_filters_gives_the_nearest_and_says_so(
    model: Model, bright: Images, tmp_path: Path
) -> None:
    told: list[str] = []
    runtime = Runtime.start("cpu", 0, lambda progress: told.append(progress.note))
    small, _ = made(model, bright, tmp_path, runtime, prior="magnitude", max_params=3)
    assert 3 < size(small).params < size(model).params / 8
    (line,) = (note for note in told if note and "cannot become" in note)
    assert "\n" not in line


def test_layers_end_with_widths_that_a_runtime_is_fast_at(
    model: Model, bright: Images, tmp_path: Path
) -> None:
    """Of six or twelve channels four or eight, or all; and they do something, all of them."""
    small = compact(made(model, bright, tmp_path, times_smaller=1.8, multiple=4)[0], 4)
    layers = [m for m in small.net.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    widths = [len(layer.weight) for layer in layers]
    assert any(width in (4, 8) for width in widths)
    assert all(width in (2, 4, 6, 8, 12) for width in widths)
    assert all(layer.weight.flatten(1).any(1).all() for layer in layers)


@pytest.mark.parametrize(
    ("name", "prior", "settings"),
    [
        ("resnet18", "magnitude", {"channels": 2}),
        ("vgg16", "log-uniform", {"channels": 2}),
        ("standins.joined", "laplace", {}),
    ],
)
def test_networks_that_people_have_lose_channels_and_answer_alike(
    name: str, prior: str, settings: dict[str, Any], bright: Images, tmp_path: Path
) -> None:
    space = spaces.make(name, {"image": (1, 8, 8), "classes": 2, **settings})
    of = space.architecture({})
    model = Model(space.build(of), Normalise.of(bright), of, CLASSES).eval()
    most = size(model).macs * 6 // 10
    masked, _ = made(model, bright, tmp_path, prior=prior, max_macs=most, epochs=1)
    check_same_answers(masked, bright)
    assert size(masked).macs <= most
    outputs = [len(weight) for weight in weights_of(compact(masked).net).values()]
    before = [len(weight) for weight in weights_of(model.net).values()]
    assert sum(outputs) < sum(before)
