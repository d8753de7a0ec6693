"""Runs whose network begins with what the search has learned, as a person makes them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from standins.user import cut, done, edit, files, put, refused, without

import ardor
from ardor.runtime.tensors import load

SETTINGS = {
    "space.layout": "NR",
    "space.states": "1",
    "space.channels": "4",
    "space.ops": "none,sep_conv_3x3,max_pool_3x3,skip_connect",
    "search.batch": "16",
    "train.batch": "16",
    "train.start": "search",
}
TINY = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
WEIGHTS = Path("searched", "weights.safetensors")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ninety-six small images of two classes, as arrays."""
    y = np.arange(96) % 2
    x = np.random.default_rng(0).integers(0, 120, (96, 8, 8)) + 100 * y[:, None, None]
    path = tmp_path_factory.mktemp("images") / "images.npz"
    np.savez(path, x=x.astype(np.uint8), y=y.astype(np.uint8))
    return path


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Path:
    """A run that is no further than its search."""
    folder = tmp_path_factory.mktemp("searched") / "run"
    done("search", images, "--run", folder, "--method", "gdas", "--epochs", "2", *TINY)
    return folder


@pytest.fixture
def run(tmp_path: Path, searched: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(searched, tmp_path / "run"))


@pytest.mark.parametrize("method", ["vinnas", "gdas"])
@pytest.mark.parametrize("epochs", [0, 1])
def test_from_a_search_to_a_network_that_is_used(method: str, epochs: int, images: Path) -> None:
    options = ["--method", method, "--epochs", "6", *TINY, "--set", f"train.epochs={epochs}"]
    result = json.loads(done("run", images, "--run", "run", *options, "--json").out)
    assert set(result["stages"]) == {"search", "train", "prune", "export", "evaluate", "report"}
    assert result["onnx_max_difference"] < 1e-4
    assert result["test_accuracy"] > 0.5
    for folder in ("trained", "model"):
        assert json.loads(Path("run", folder, "config.json").read_text())["form"] == "searched"
    learned, trained = load(Path("run") / WEIGHTS)[0], ardor.load("run").net.state_dict()
    kept = [torch.equal(w, trained[n]) for n, w in learned.items() if n in trained]
    assert kept
    if method == "gdas" and not epochs:
        weights = load(Path("run", "trained", "model.safetensors"))[0]
        assert all(torch.equal(w, weights[f"net.{name}"]) for name, w in learned.items())
    curve = json.loads(done("prune", "run", "--curve", "--json").out)
    assert len({point["params"] for point in curve["points"]}) > 1
    done("prune", "run", "--threshold", "0", "--fine-tune", "1")
    again = json.loads(done("evaluate", "run", "--json").out)
    assert again["nonzero_params"] <= result["nonzero_params"]
    assert "test_accuracy" in again
    pixels = np.load(images)["x"][:4]
    shares = ardor.load("run").probabilities(torch.from_numpy(pixels)[:, None])
    assert torch.allclose(shares.sum(1), torch.ones(4), atol=1e-5)


def test_killed_before_the_training_and_resumed_it_is_the_same(run: Path) -> None:
    shutil.copytree(run, "killed")
    Path("killed", "architecture.json").unlink()  # killed after the weights had been written
    done("resume", "killed")
    for folder in (run, Path("killed")):
        done("train", folder, "--epochs", "2")
    for name in (WEIGHTS, Path("architecture.json"), Path("trained", "model.safetensors")):
        assert (run / name).read_bytes() == Path("killed", name).read_bytes()


def test_a_searched_run_is_trained_either_way(run: Path) -> None:
    shutil.copytree(run, "new")
    done("train", run, "--epochs", "0")
    done("train", "new", "--epochs", "1", "--set", "train.start=scratch")
    forms = [
        "form" in json.loads((folder / "trained" / "config.json").read_text())
        for folder in (run, Path("new"))
    ]
    assert forms == [True, False]


def test_a_dry_run_times_the_network_that_would_be_trained(images: Path) -> None:
    result = done("run", images, "--run", "run", *TINY, "--dry-run", "--epochs", "2", "--json")
    assert json.loads(result.out)["train"]["seconds"] > 0
    assert not Path("run").exists()


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_what_cannot_begin_so_is_refused_before_the_search(
    images: Path, run: Path, dry: list[str]
) -> None:
    larger = ["--set", "network.channels=6", *dry]
    error = "network.channels = 6 must be 4, as in the search, with train.start = 'search'"
    hint = "--set train.start=scratch"
    refused("run", images, "--run", "new", *TINY, *larger, error=error, hint=hint)
    given = ["--architecture", run, "--set", "train.start=search", *dry]
    refused("run", images, "--run", "new", *given, error="needs a search", hint=hint)
    assert not Path("new").exists()
    done("run", images, "--run", "new", *TINY, "--set", "network.channels=4", "--dry-run")


def test_what_comes_too_late_is_named_and_the_run_stays(run: Path, searched: Path) -> None:
    before, hint = files(run), "--set train.start=scratch"
    refused("train", run, "--set", "network.channels=6", error="must be 4", hint=hint)
    assert files(run) == before
    (run / WEIGHTS).unlink()  # as in a run of before
    before = files(run)
    for options in ([], ["--set", "train.start=search"]):
        refused("train", run, *options, error="has kept no weights of a search", hint=hint)
    assert files(run) == before
    edit(run / "config.json", without("train", "start"))
    done("train", run, "--epochs", "1")


def test_weights_changed_by_hand_are_not_used(run: Path) -> None:
    cut(run / WEIGHTS)
    before = files(run)
    refused("train", run, error="weights.safetensors'")
    assert files(run) == before


def test_a_form_changed_by_hand_is_named(run: Path) -> None:
    done("train", run, "--epochs", "0")
    trained = run / "trained" / "config.json"
    for value, error in (("other", "form in"), (3, "is 3; must be 'searched'")):
        edit(trained, put("form", value=value))
        refused("prune", run, error=error, hint="put back")
    edit(trained, without("form"))
    refused("prune", run, error="do not fit its config.json")
