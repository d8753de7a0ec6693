"""The command line from end to end on made-up images, and what the README shows."""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from ardor.cli import cli

README = (Path(__file__).parents[2] / "README.md").read_text()
TINY = [
    *("--set", "space.layout=R", "--set", "space.states=1", "--set", "space.channels=4"),
    *("--set", "space.ops=sep_conv_3x3,max_pool_3x3,skip_connect", "--set", "search.batch=8"),
]


def ardor(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty colour images: flames are red, ponds are blue."""
    generator, folder = np.random.default_rng(0), tmp_path_factory.mktemp("images") / "photos"
    for number in range(40):
        name, channel = ("flame", 0) if number % 2 else ("pond", 2)
        pixels = generator.integers(0, 100, (12, 12, 3), dtype=np.uint8)
        pixels[..., channel] += 120
        path = folder / name / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return folder


@pytest.fixture(scope="module")
def whole(photos: Path) -> Path:
    """A run in one command."""
    run = photos.parent / "whole"
    ardor("run", photos, "--run", run, "--epochs", 2, *TINY)
    return run


def test_one_command_from_a_folder_of_images_to_a_network(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = json.loads(ardor("run", photos, "--run", run, "--epochs", 8, *TINY, "--json").stdout)
    for name in (
        *("config.json", "log.jsonl", "architecture.json", "architecture.svg", "metrics.json"),
        *("model/model.safetensors", "model/config.json", "model/README.md", "export/model.onnx"),
        *("report.html", "trained/model.safetensors"),
    ):
        assert (run / name).stat().st_size > 0, name
    assert result["test_accuracy"] == 1.0
    assert result["onnx_max_difference"] < 1e-4
    assert 0 < result["nonzero_params"] <= result["params"]
    assert set(result["stages"]) == {"search", "train", "prune", "export", "evaluate", "report"}
    assert all(cost["peak_memory_mb"] > 0 for cost in result["stages"].values())
    assert all(cost["core_seconds"] > 0 for cost in result["stages"].values())
    config = json.loads((run / "config.json").read_text())
    assert config["space"]["classes"] == 2
    assert config["space"]["image"] == [3, 12, 12]
    assert config["versions"]["torch"]
    predictions = json.loads(ardor("predict", run, photos, "--json").stdout)
    right = [p["label"] == Path(p["path"]).parent.name for p in predictions]
    assert len(right) == 40
    assert np.mean(right) > 0.9
    for prediction in predictions:
        assert sum(prediction["probabilities"].values()) == pytest.approx(1.0, abs=1e-5)
    assert "reduce" in ardor("show", run).stdout
    assert "vinnas" in ardor("compare", run).stdout
    assert ardor("resume", run, "--quiet").exit_code == 0  # nothing left to do


def test_the_single_steps_do_what_one_command_does(
    photos: Path, whole: Path, tmp_path: Path
) -> None:
    parts = tmp_path / "parts"
    ardor("search", photos, "--run", parts, "--epochs", 2, *TINY)
    for step in ("train", "prune", "export", "evaluate", "report"):
        ardor(step, parts)
    for name in ("architecture.json", "trained/model.safetensors", "model/model.safetensors"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes()
    first, second = (json.loads((f / "metrics.json").read_text()) for f in (whole, parts))
    assert first["test_nll"] == second["test_nll"]


def test_pruning_again_takes_another_threshold(whole: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    before = json.loads((run / "metrics.json").read_text())
    result = json.loads(ardor("prune", run, "--threshold", "-30", "--json").stdout)
    assert result["nonzero_params"] < before["nonzero_params"]
    assert "test_accuracy" not in result  # measured on another network
    assert not (run / "export" / "model.onnx").exists()
    ardor("resume", run)
    assert (run / "export" / "model.onnx").exists()


def test_another_method_and_a_larger_network(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    larger = ["--set", "network.channels=6", "--set", "network.auxiliary=true"]
    plain = ["--set", "train.variational=false", "--set", "search.candidates=3"]
    options = ["--method", "rsps", "--epochs", 1, *TINY, *larger, *plain]
    result = json.loads(ardor("run", photos, "--run", run, *options, "--json").stdout)
    model = json.loads((run / "model" / "config.json").read_text())
    assert model["architecture"]["settings"]["channels"] == 6
    assert result["nonzero_params"] <= result["params"]
    found = json.loads((run / "architecture.json").read_text())
    accuracies = [c["held_out_accuracy"] for c in found["candidates"]]
    assert accuracies == sorted(accuracies, reverse=True)


@pytest.mark.parametrize("what", ["methods", "spaces", "data", "presets", "settings", "benches"])
def test_lists(what: str) -> None:
    listed = json.loads(ardor("list", what, "--json").stdout)
    assert listed
    assert all(isinstance(line, str) for line in listed.values())
    known = {"methods": "vinnas", "spaces": "cells", "benches": "speed"}
    known |= {"data": "digits", "presets": "digits"}
    assert known.get(what, "search.epochs") in listed


def test_check_tells_what_is_there(photos: Path) -> None:
    found = json.loads(ardor("check", photos, "--json").stdout)
    assert found["classes"] == {"flame": [16, 4], "pond": [16, 4]}
    assert found["shape"] == [3, 12, 12]


@pytest.mark.data
def test_real_data_from_end_to_end(real_data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    few = ("search.fraction=0.05", "train.validation=0.9", "train.batch=16", "train.rate=0.01")
    sets = [word for setting in few for word in ("--set", setting)]
    for name in ("images-idx3-ubyte.gz", "labels-idx1-ubyte.gz"):
        for half in ("train", "t10k"):  # the small half alone, or it would take long
            (tmp_path / f"{half}-{name}").symlink_to(real_data / "mnist" / f"t10k-{name}")
    ardor("run", tmp_path, "--run", run, "--epochs", 1, *TINY, *sets)
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test_accuracy"] > 0.2


def test_the_readmes_python_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "runs" / "first" / "report.html").exists()


def test_the_readmes_commands_exist() -> None:
    lines = re.findall(r"^    (ardor .*?)(?:  +#.*)?$", README, flags=re.M)
    assert len(lines) >= 5
    for line in lines:
        name, *arguments = shlex.split(line)[1:]
        cli.commands[name].make_context(name, arguments)
