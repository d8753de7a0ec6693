"""Networks of plain weights are pruned where it is asked for, and else left as they are."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from ardor.cli import cli
from ardor.data import Images, Normalise
from ardor.models.model import Model
from ardor.models.sizes import multiply_adds, nonzero_parameters, parameters
from ardor.models.smaller import compact, prune
from ardor.pipeline.curve import curve, smallest_within, thresholds_of
from ardor.pipeline.prune_stage import picked
from ardor.pipeline.run import Run
from ardor.pipeline.stages import do
from ardor.runtime.device import Runtime
from ardor.settings.sections import NOTHING
from ardor.spaces.cells import Cells

SPACE = Cells(image=(1, 8, 8), classes=2, layout="R", states=2, channels=4, auxiliary=True)


@pytest.fixture
def model(bright: Images) -> Model:
    """A network of plain weights."""
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in SPACE.choices}
    architecture = SPACE.strongest(scores)
    net = SPACE.build(architecture)
    net(torch.randn(32, 1, 8, 8))
    return Model(net, Normalise.of(bright), architecture, ("dark", "bright")).eval()


def test_the_curve_of_a_plain_network_falls_in_every_size(model: Model, bright: Images) -> None:
    points = curve(model, bright, Runtime(), thresholds_of(model), multiple=4)
    for sizes in ([p.threshold for p in points], [p.params for p in points]):
        assert sizes == sorted(sizes)
    assert points[0].params < 0.1 * points[-1].params
    assert points[0].macs < points[-1].macs
    for point in (points[0], points[len(points) // 2]):
        small = compact(prune(model, point.threshold), 4)
        assert point.macs == multiply_adds(small.net, small.shape)
        assert point.params == nonzero_parameters(small.net)


def test_without_a_threshold_every_weight_of_a_plain_network_stays(model: Model) -> None:
    whole = prune(model)
    state = model.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in whole.state_dict().items())
    assert nonzero_parameters(prune(model, 3.0).net) < nonzero_parameters(whole.net)


def ardor(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the digits with plain weights, through the prune stage with nothing asked for."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    settings = {
        "data": {"source": "digits"},
        "space": {"layout": "R", "states": 1, "channels": 4, "ops": "sep_conv_3x3,skip_connect"},
        "search": {"epochs": 1, "fraction": 0.1, "batch": 16},
        "train": {"epochs": 3, "rate": 0.02, "augment": (), "variational": False},
    }
    torch.manual_seed(0)
    run = Run.create(folder, settings, stages=("search", "train", "prune"))
    for stage in run.stages:
        do(run, stage)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy to work on."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_run_with_plain_weights_is_not_pruned_unless_asked(run: Path) -> None:
    opened = Run.open(run)
    before = opened.metrics
    assert before["threshold"] == NOTHING
    assert before["params"] == parameters(opened.trained().net)
    older = json.loads((run / "config.json").read_text())
    older["prune"] = {"threshold": 3.0}  # as written before plain weights could be pruned
    (run / "config.json").write_text(json.dumps(older))
    assert json.loads(ardor("prune", run, "--json").stdout)["threshold"] == NOTHING
    asked = json.loads(ardor("prune", run, "--threshold", 3, "--json").stdout)
    assert asked["threshold"] == 3.0
    assert asked["nonzero_params"] < before["nonzero_params"]


def test_a_plain_network_gets_as_small_as_is_asked_for(run: Path) -> None:
    whole = Run.open(run).metrics["macs"]
    found = json.loads(ardor("prune", run, "--max-macs", whole // 2, "--json").stdout)
    assert found["macs"] <= whole // 2
    points = json.loads((run / "curve.json").read_text())["points"]
    taken = next(p for p in points if p["threshold"] == found["threshold"])
    assert taken["macs"] == found["macs"]
    assert taken["accuracy"] == max(p["accuracy"] for p in points if p["macs"] <= whole // 2)


def test_what_pruning_may_lose_decides_until_a_threshold_is_given(run: Path) -> None:
    found = json.loads(ardor("prune", run, "--set", "prune.within=0.005", "--json").stdout)
    points = json.loads((run / "curve.json").read_text())["points"]
    taken = next(p for p in points if p["threshold"] == found["threshold"])
    assert taken["accuracy"] >= points[-1]["accuracy"] - 0.005
    assert taken["nll"] <= points[-1]["nll"] + 0.01
    assert found["nonzero_params"] == taken["params"] < points[-1]["params"]
    again = json.loads(ardor("prune", run, "--json").stdout)  # the settings still say so
    assert again["threshold"] == found["threshold"]
    asked = json.loads(ardor("prune", run, "--threshold", -1, "--json").stdout)
    assert (asked["threshold"], Run.open(run).config.prune.within) == (-1.0, 0.0)


def test_without_validation_images_nothing_is_given_up(run: Path) -> None:
    opened = Run.open(run)
    train = opened.config.train.model_copy(update={"validation": 0.0})
    prune_ = opened.config.prune.model_copy(update={"within": 0.1})
    opened.config = opened.config.model_copy(update={"train": train, "prune": prune_})
    point = picked(opened, opened.trained())
    assert point.threshold == NOTHING


def test_a_tenth_of_the_accuracy_is_worth_no_more_weights_than_half(
    model: Model, bright: Images
) -> None:
    points = curve(model, bright, Runtime(), thresholds_of(model))
    sizes = [smallest_within(points, share, 1).params for share in (0.5, 0.1, 0.001)]
    assert sizes == sorted(sizes)
