"""Networks in which nothing is chosen: trained as any architecture, searched never."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

import ardor
from ardor import discover, spaces
from ardor.cli import cli
from ardor.models.sizes import parameters
from ardor.pipeline.run import Run

TINY = ["--set", "train.epochs=1", "--set", "train.batch=128", "--set", "export.formats=[]"]
TINY += ["--quiet", "--json"]
MINE = """
from torch import nn


def build(image, classes, *, width: int = 4):
    layers = [nn.Conv2d(image[0], width, 3), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(width * 36, classes))
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with modules of one's own, which nobody has trusted yet."""
    trusted = set(discover._trusted)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "nets.py").write_text(MINE)
    (tmp_path / "own" / "broken.py").write_text("def build(:\n")
    (tmp_path / "own" / "needy.py").write_text("import nothing_of_this_name\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    discover._trusted.clear()
    discover._trusted.update(trusted)
    for name in [name for name in sys.modules if name.split(".")[0] == "own"]:
        del sys.modules[name]


def command(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))


def network(name: str, *more: str) -> Run:
    result = command("run", "digits", "--architecture", name, "--run", "run", *TINY, *more)
    assert result.exit_code == 0, result.output + str(result.exception)
    return Run.open("run")


def test_a_network_is_trained_with_all_that_a_run_has() -> None:
    small = ["--set", "space.channels=4", "--set", "space.depth=1"]
    run = network("resnet20", *small, "--set", 'export.formats=["onnx"]')
    assert run.config.space["channels"] == 4
    assert run.config.train.mixup == "auto"  # as in the usual preset
    assert dict(run.architecture.kept) == {}
    assert {"params", "onnx_bytes", "test_accuracy"} <= run.metrics.keys()
    page = Path("run/report.html").read_text()
    assert "resnet20 on digits" in page
    assert "What was found" not in page
    assert "How the training went" in page
    model = ardor.load("run")
    pixels = torch.randint(0, 256, (3, *model.shape))
    assert torch.equal(model.probabilities(pixels), run.model().probabilities(pixels))
    shown = command("show", "run")
    assert "resnet20 is a network" in shown.stdout


def test_it_stays_as_it_is_unless_less_is_asked_for() -> None:
    run = network("lenet300", "--set", "space.hidden=[30,10]")
    assert run.metrics["nonzero_params"] == run.metrics["params"] == parameters(run.trained().net)
    result = command("prune", "run", "--max-params", "1500", "--quiet", "--json")
    assert result.exit_code == 0, result.output
    assert Run.open("run").metrics["nonzero_params"] <= 1500


def test_an_architecture_file_of_a_network_will_do() -> None:
    network("lenet300", "--set", "space.hidden=[7]")
    file = "run/architecture.json"
    result = command("run", "digits", "--architecture", file, "--run", "again", *TINY)
    assert result.exit_code == 0, result.output
    first, second = (Run.open(folder).architecture for folder in ("run", "again"))
    assert first == second


def test_a_module_of_ones_own_is_one_because_it_is_typed() -> None:
    run = network("own.nets:build", "--set", 'export.formats=["onnx","python_file"]')
    assert run.architecture.space == "own.nets"
    assert set(json.loads(Path("run/export/exports.json").read_text())["exports"]) == {
        "onnx",
        "python_file",
    }
    discover._trusted.discard("own.nets")
    result = command("evaluate", "run")
    assert "imported only where you name it yourself" in str(result.exception)
    assert command("evaluate", "run", "--trust", "own.nets").exit_code == 0


@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["run", "dry"])
def test_it_is_not_searched(dry: list[str]) -> None:
    result = command("run", "digits", "--space", "lenet300", "--run", "run", *TINY, *dry)
    error = result.exception
    assert isinstance(error, ardor.ArdorError)
    assert str(error) == "the space 'lenet300' has no choices: there is nothing to search"
    assert "ardor run DATA --architecture lenet300" in error.hint
    assert "ardor compress lenet300" in error.hint
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("resnet21", "no file 'resnet21', and no architecture of that name"),
        ("own.nets:make", "the function 'make' of 'own.nets:make' must be 'build'"),
        ("nets:build", "the module 'nets' must be in a folder"),
        ("own.gone", "no module 'own.gone'"),
        ("own.broken", "module 'own.broken' cannot be imported: SyntaxError"),
        ("own.needy:build", "module 'own.needy' cannot be imported: ModuleNotFoundError"),
        ("gone.json", "no file 'gone.json'"),
        ("examples.mobile", "the space 'examples.mobile' has choices"),
        ("lenet5", "images for lenet5 have 8x8 pixels; must have at least 16x16"),
    ],
)
def test_what_is_no_network_is_said_in_a_line(
    typed: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    result = command("run", "digits", "--architecture", typed, "--run", "run", *TINY)
    assert isinstance(result.exception, ardor.ArdorError), result.output
    assert str(result.exception).startswith(said)
    assert "\n" not in str(result.exception)
    assert result.exception.hint
    assert not Path("run").exists()


def test_networks_are_listed_beside_the_spaces() -> None:
    assert not set(spaces.networks()) & set(spaces.names())
    result = command("list", "networks", "--json")
    assert json.loads(result.stdout).keys() == set(spaces.networks())
    assert "He et al. 2016" in json.loads(result.stdout)["resnet20"]


def test_a_run_without_a_name_is_named_after_its_network() -> None:
    result = command("run", "digits", "--architecture", "lenet300", *TINY)
    assert result.exit_code == 0, result.output
    assert Path("runs/digits-lenet300-1/report.html").exists()
