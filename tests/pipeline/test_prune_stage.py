"""The pruning curve, picking from it, and fine-tuning: on the command line and below it."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from conftest import stopping_at
from torch import nn

from ardor.cli import cli
from ardor.data import Images, Normalise
from ardor.errors import ArdorError, Interrupted
from ardor.layers.variational import Variational, VariationalConv2d
from ardor.models.model import Model
from ardor.models.sizes import nonzero_parameters
from ardor.models.smaller import compact, prune
from ardor.pipeline.changes import changed
from ardor.pipeline.curve import SHARES, accuracy, curve, thresholds_of
from ardor.pipeline.prune_stage import measure_curve
from ardor.pipeline.run import Run
from ardor.pipeline.stages import do
from ardor.runtime.device import Runtime
from ardor.settings.merge import resolve
from ardor.settings.sections import NOTHING, PruneConfig, TrainConfig
from ardor.spaces.cells import Cells
from ardor.training.train import tune

SPACE = Cells(image=(1, 8, 8), classes=2, layout="R", states=2, channels=4, auxiliary=True)
TUNE = TrainConfig(epochs=2, batch=16, rate=0.01, augment=("crop",), variational=False)


@pytest.fixture
def model(bright: Images) -> Model:
    """A posterior that is unsure of many of its weights."""
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in SPACE.choices}
    architecture = SPACE.strongest(scores)
    net = SPACE.build(architecture, conv=VariationalConv2d)
    for layer in net.modules():
        if isinstance(layer, Variational):
            nn.init.normal_(layer.log_var, -4.0, 4.0)
    net(torch.randn(32, 1, 8, 8))
    return Model(net, Normalise.of(bright), architecture, ("dark", "bright")).eval()


def test_more_leaves_at_lower_thresholds(model: Model, bright: Images) -> None:
    points = curve(model, bright, Runtime(), thresholds_of(model))
    assert [p.threshold for p in points] == sorted(p.threshold for p in points)
    assert [p.params for p in points] == sorted(p.params for p in points)
    assert points[0].params < points[-1].params
    whole = prune(model, float("inf"))
    assert points[-1].accuracy == accuracy(whole, bright, Runtime())
    assert points[-1].params == nonzero_parameters(compact(whole).net)
    at = next(p for p in points if p.threshold == 3.0)
    right = prune(model, 3.0).probabilities(bright.pixels).argmax(1) == bright.labels
    assert at.accuracy == right.double().mean().item()


def test_thresholds_reach_every_share_of_the_weights(model: Model) -> None:
    layers = [m for m in model.net.modules() if isinstance(m, Variational)]
    for layer in layers:
        nn.init.normal_(layer.log_var, -30.0, 1.0)  # far from any round threshold
    whole = sum(layer.weight.numel() for layer in layers)
    left = [sum(int(m.pruned(t).count_nonzero()) for m in layers) for t in thresholds_of(model)]
    for share in SHARES:
        assert min(abs(count / whole - share) for count in left) < 0.01
    inner = left[:-2]  # the last two, at 3 and where nothing leaves, are always there
    assert all(more > 1.03 * less for less, more in zip(inner, inner[1:], strict=False))


def test_accuracy_is_a_percentage_or_a_share() -> None:
    assert PruneConfig(keep_accuracy=99.5).keep_accuracy == pytest.approx(0.995)
    assert PruneConfig(keep_accuracy=0.995).keep_accuracy == 0.995
    assert PruneConfig(keep_accuracy=1).keep_accuracy == 1.0
    assert resolve(resolve({"prune": {"keep_accuracy": 99.5}}).model_dump()).prune.picking
    for wrong in ({"keep_accuracy": 101}, {"keep_accuracy": -1}, {"max_params": -1}):
        with pytest.raises(ArdorError, match="must be"):
            resolve({"prune": wrong})
    assert resolve({"prune": {"max_macs": 5}, "train": {"variational": False}}).prune.picking


def test_zeros_stay_zero_and_the_rest_learns(model: Model, bright: Images, tmp_path: Path) -> None:
    small = compact(prune(model, -2.0))
    before = {name: p.clone() for name, p in small.net.named_parameters()}
    runtime = Runtime.start("cpu", 0)
    tuned = tune(small, bright, TUNE, run=tmp_path, runtime=runtime)
    for name, parameter in tuned.net.named_parameters():
        assert torch.equal(parameter == 0, before[name] == 0), name
    assert all(torch.equal(p, before[name]) for name, p in small.net.named_parameters())
    moved = [not torch.equal(p, before[n]) for n, p in tuned.net.named_parameters() if p.any()]
    assert all(moved)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["epoch"]) for line in lines] == [("tune", 1), ("tune", 2)]
    assert lines[-1]["held_out"]["accuracy"] >= 0


def test_stopped_and_resumed_fine_tuning_is_the_same(
    model: Model, bright: Images, tmp_path: Path
) -> None:
    small = compact(prune(model, -1.0))
    start = Runtime.start
    whole = tune(small, bright, TUNE, run=tmp_path / "whole", runtime=start("cpu", 0))
    with pytest.raises(Interrupted):
        tune(small, bright, TUNE, run=tmp_path / "broken", runtime=stopping_at(1))
    resumed = tune(small, bright, TUNE, run=tmp_path / "broken", runtime=start("cpu", 0))
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def ardor(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the digits, pruned; nothing after that is done."""
    folder = tmp_path_factory.mktemp("curve") / "run"
    settings = {
        "data": {"source": "digits"},
        "space": {"layout": "R", "states": 1, "channels": 4, "ops": "sep_conv_3x3,skip_connect"},
        "search": {"epochs": 1, "fraction": 0.1, "batch": 16},
        "train": {"epochs": 3, "rate": 0.02, "kl_start": 0.0, "augment": ()},
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


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_curve_changes_nothing_else(run: Path) -> None:
    before = content(run)
    assert "nothing leaves" in ardor("prune", run, "--curve").stdout
    after = content(run)
    assert json.loads(after.pop("curve.json"))["images"] == "validation"
    assert after == before
    ardor("report", run)
    assert "Accuracy by parameters that are not zero" in (run / "report.html").read_text()


def test_the_curve_looks_at_the_images_that_training_watched(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    watched = lines[-1]["held_out"]["accuracy"]  # with the weights pruned at 3
    opened = Run.open(run)
    found = measure_curve(opened, opened.trained(), 3.0, NOTHING)
    assert found["count"] == pytest.approx(0.1 * len(opened.dataset.train), abs=10)
    assert found["points"][0]["accuracy"] == pytest.approx(watched, abs=1e-6)
    assert found["points"][0]["params"] == opened.metrics["nonzero_params"]


def test_without_validation_images_the_curve_says_so(run: Path) -> None:
    opened = Run.open(run)
    train = opened.config.train.model_copy(update={"validation": 0.0})
    opened.config = opened.config.model_copy(update={"train": train})
    found = measure_curve(opened, opened.trained(), 3.0)
    assert found["images"] == "training"
    assert found["count"] == len(opened.dataset.train)


def test_a_number_of_parameters_picks_a_threshold(run: Path) -> None:
    posterior = content(run / "trained")
    most = 500
    found = json.loads(ardor("prune", run, "--max-params", most, "--json").stdout)
    points = json.loads((run / "curve.json").read_text())["points"]
    assert points[0]["params"] <= most < points[-1]["params"]
    assert found["nonzero_params"] <= most
    best = max(p["accuracy"] for p in points if p["params"] <= most)
    taken = next(p for p in points if p["threshold"] == found["threshold"])
    assert taken["accuracy"] == best
    assert taken["params"] == found["nonzero_params"]
    assert Run.open(run).config.prune.threshold == found["threshold"]
    assert content(run / "trained") == posterior
    again = json.loads(ardor("prune", run, "--threshold", 3, "--json").stdout)
    assert again["threshold"] == 3.0  # what was asked before does not count any more


def test_sizes_before_and_after(run: Path) -> None:
    found = json.loads(ardor("prune", run, "--threshold", -1, "--json").stdout)
    small = Model.load(run / "model")
    assert found["nonzero_params"] == nonzero_parameters(small.net)
    assert found["nonzero_params"] <= found["masked_nonzero_params"] < found["trained_params"]
    assert found["params"] <= found["trained_params"]
    assert found["macs"] <= found["trained_macs"]
    assert found["sparse_bytes"] < found["trained_sparse_bytes"]
    assert found["file_bytes"] <= found["trained_file_bytes"]
    assert found["compact_max_difference"] < 1e-4


def test_too_much_is_refused_in_a_line(run: Path) -> None:
    with pytest.raises(ArdorError, match="no network of the pruning curve has at most 3"):
        ardor("prune", run, "--max-params", 3)
    wrong = CliRunner().invoke(cli, ["prune", str(run), "--threshold", "1", "--max-params", "9"])
    assert wrong.exit_code == 2


def test_fine_tuning_from_the_command_line(run: Path) -> None:
    posterior = content(run / "trained")
    options = ["--threshold", 0, "--fine-tune", 2, "--set", "prune.rate=0.01"]
    found = json.loads(ardor("prune", run, *options, "--json").stdout)
    assert found["validation_accuracy"] >= found["untuned_validation_accuracy"]
    assert content(run / "trained") == posterior
    before, after = (Model.load(run / name) for name in ("pruned", "model"))
    assert nonzero_parameters(after.net) <= nonzero_parameters(before.net)
    assert not list((run / "checkpoint").glob("tune-*"))
    again = json.loads(ardor("prune", run, "--threshold", 0, "--fine-tune", 0, "--json").stdout)
    assert "validation_accuracy" not in again
    untuned = Model.load(run / "model").state_dict()
    assert all(torch.equal(t, untuned[name]) for name, t in before.state_dict().items())


def test_interrupted_fine_tuning_is_resumed(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    options = {"prune": {"fine_tune": 2, "threshold": 0.0}}
    whole, broken = (changed(Run.open(folder), "prune", options) for folder in (run, other))
    do(whole, "prune")
    stopped = stopping_at(4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "runtime", lambda self: stopped)
        with pytest.raises(Interrupted):
            do(broken, "prune")
    assert Run.open(other).stages_left() == ["prune"]
    ardor("resume", other)
    for name in ("model.safetensors", "config.json"):
        assert (run / "model" / name).read_bytes() == (other / "model" / name).read_bytes()


def test_one_command_for_a_size(tmp_path: Path) -> None:
    small = [
        *("--set", "space.layout=R", "--set", "space.states=1", "--set", "space.channels=4"),
        *("--set", "space.ops=sep_conv_3x3,skip_connect", "--set", "search.fraction=0.1"),
        *("--epochs", 1, "--set", "train.variational=auto", "--set", "prune.within=0.01"),
        *("--max-params", 900, "--max-macs", 15_000),
    ]
    run = tmp_path / "run"
    found = json.loads(ardor("run", "digits", "--run", run, *small, "--json").stdout)
    assert found["nonzero_params"] <= 900
    assert found["macs"] <= 15_000 < found["trained_macs"]
    made = Run.open(run).config
    assert (made.train.variational, made.train.kl_start) == (True, 0.5)
    assert (made.prune.max_params, made.prune.max_macs, made.prune.keep_accuracy) == (
        900,
        15_000,
        0,
    )
    assert found["latency_ms"] > 0
    assert found["trained_latency_ms"] > 0
    assert found["onnx_bytes"] == (run / "export" / "model.onnx").stat().st_size
    page = (run / "report.html").read_text()
    assert "before pruning" in page
    assert "What pruning costs" in page
