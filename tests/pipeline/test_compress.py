"""A network that a person has is made smaller: a run's, a model's, a module with its weights."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from standins import small as standin
from standins.user import done, files, refused
from torch import nn

import ardor
from ardor import spaces
from ardor.training.train import TrainLoop

TINY = {
    "train": {"validation": 0.25, "batch": 16, "augment": [], "mixup": 0.0, "epochs": 1},
    "compress": {"epochs": 2, "cycles": 2, "average": 0.5, "rate": 0.01},
    "export": {"formats": []},
}
WORDS = ["train.validation=0.25", "train.batch=16", "train.augment=[]", "train.mixup=0.0"]
WORDS += ["compress.cycles=2", "compress.average=0.5", "compress.rate=0.01"]
SHORT = [*(word for line in WORDS for word in ("--set", line)), "--epochs", "2"]
SMALLER = [*SHORT, "--times-smaller", "2"]
NO_EXPORT = ["--set", "export.formats=[]"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spaces, "_given", {})  # what another test has given


def pixels(classes: int = 2, side: int = 8, channels: int = 0) -> dict[str, Any]:
    y = np.arange(80) % classes
    shape = (80, channels, side, side) if channels else (80, side, side)
    noise = np.random.default_rng(0).integers(0, 80, shape)
    x = noise + (80 * y).reshape(-1, *[1] * (len(shape) - 1))
    return {"x": x.astype(np.uint8), "y": y.astype(np.uint8)}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    np.savez(tmp_path / "images.npz", **pixels())
    return tmp_path / "images.npz"


def module(**changes: Any) -> nn.Module:
    torch.manual_seed(3)
    return standin.build((1, 8, 8), 2, **changes)


def metrics(run: Path | str) -> dict[str, Any]:
    return json.loads((Path(run) / "metrics.json").read_text())


def check_smaller(run: Path | str, times: float = 2.0) -> dict[str, Any]:
    found = metrics(run)
    assert found["nonzero_params"] <= found["trained_nonzero_params"] / times
    assert found["macs"] <= found["trained_macs"]
    assert found["compact_max_difference"] < 1e-3
    return found


def test_a_module_becomes_a_smaller_module_of_its_class(images: Path) -> None:
    given = module()
    before = {name: tensor.clone() for name, tensor in given.state_dict().items()}
    run = ardor.compress(given, images, TINY, times_smaller=2, folder="small")
    net = run.model().net.module
    assert type(net) is standin.Small
    assert net.wide.out_features < given.wide.out_features
    assert net(torch.zeros(2, 1, 8, 8)).shape == (2, 2)
    assert all(torch.equal(t, before[n]) for n, t in given.state_dict().items())
    assert given.training  # as it was
    check_smaller("small")
    assert set(metrics("small")["stages"]) == {"compress", "export", "evaluate", "report"}


def test_a_module_is_given_once_more_to_open_its_run(images: Path) -> None:
    run = ardor.compress(module(), images, TINY, max_params=300, folder="small")
    answers = run.model().probabilities(torch.zeros(1, 1, 8, 8))
    spaces._given.clear()  # as in another process
    with pytest.raises(ardor.ArdorError, match="built in a script") as caught:
        ardor.load("small")
    assert "ardor.load(folder, module=...)" in caught.value.hint
    done("report", "small")
    for words in (["predict", "small", pictures()], ["evaluate", "small"]):
        refused(*words, error="built in a script", hint="module=")
    again = ardor.load("small", module=module())
    assert torch.allclose(again.probabilities(torch.zeros(1, 1, 8, 8)), answers)
    assert torch.allclose(
        ardor.load("small/model", module=module()).probabilities(torch.zeros(1, 1, 8, 8)), answers
    )
    spaces._given.clear()
    with pytest.raises(ardor.ArdorError, match="another module"):
        ardor.load("small", module=module(channels=8))


@pytest.mark.parametrize("epoch", [1, 2])  # while groups leave, and once none leaves any more
def test_the_same_call_continues_its_run(
    epoch: int, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, seen = TrainLoop.finish_epoch, []

    def failing(self: TrainLoop) -> None:
        own(self)
        seen.append(self.stage.name)
        if len(seen) == epoch:
            raise RuntimeError("the power went off")

    monkeypatch.setattr(TrainLoop, "finish_epoch", failing)
    with pytest.raises(RuntimeError, match="power"):
        ardor.compress(module(), images, TINY, times_smaller=2, folder="small")
    assert seen[-1] == ["compress", "settle"][epoch - 1]
    monkeypatch.setattr(TrainLoop, "finish_epoch", own)
    assert not Path("small/model").exists()
    ardor.compress(module(), images, TINY, times_smaller=2, folder="small")
    ardor.compress(module(), images, TINY, times_smaller=2, folder="whole")
    weights = "model/model.safetensors"
    assert Path("small", weights).read_bytes() == Path("whole", weights).read_bytes()
    with pytest.raises(ardor.ArdorError, match=r"compress.times_smaller = 2.0, not 3.0"):
        ardor.compress(module(), images, TINY, times_smaller=3, folder="small")
    with pytest.raises(ardor.ArdorError, match="another module"):
        ardor.compress(module(channels=7), images, TINY, times_smaller=2, folder="small")


def save(net: nn.Module, path: str = "net.safetensors", **change: Any) -> Path:
    safetensors.torch.save_file({**net.state_dict(), **change}, path)
    return Path(path)


def of_module(images: Path, *more: object, weights: object = "net.safetensors") -> list[object]:
    return ["compress", "standins.small:build", "--weights", weights, "--data", images, *more]


def test_a_module_with_its_weights_is_made_smaller_by_the_command(images: Path) -> None:
    save(module())
    before = files(Path())
    done(*of_module(images, *SMALLER, "--run", "small"))
    assert {name: b for name, b in files(Path()).items() if name in before} == before
    found = check_smaller("small")
    assert "test_accuracy" in found or "held_out_accuracy" in found
    given = ardor.load("small/trained").net.module.state_dict()
    assert all(torch.equal(given[name], t) for name, t in module().state_dict().items())
    said = done("predict", "small", pictures())
    assert "pruned network" in said.err
    done("show", "small")
    for command in ("report", "evaluate", "resume"):
        done(command, "small")
    again = metrics("small")
    assert again["nonzero_params"] == found["nonzero_params"]


def pictures() -> Path:
    from standins.user import png

    return png(Path("picture.png"), 8, 8)


def test_a_run_that_makes_smaller_is_not_pruned_or_trained(images: Path) -> None:
    save(module())
    done(*of_module(images, *SMALLER, *NO_EXPORT, "--run", "small"))
    before = files(Path("small"))
    for words in (
        ["prune", "small"],
        ["prune", "small", "--curve"],
        ["prune", "small", "--max-params", 9],
    ):
        refused(
            *words, error="'small' makes a network smaller already", hint="ardor compress small"
        )
    refused("train", "small", error="'small'")
    with pytest.raises(ardor.ArdorError, match="'small'"):
        ardor.train("small")
    assert files(Path("small")) == before


def test_half_precision_weights_and_those_without_counts_are_read(images: Path) -> None:
    halves = {n: t.half() for n, t in module().state_dict().items() if t.is_floating_point()}
    safetensors.torch.save_file(halves, "net.safetensors")
    done(*of_module(images, *SMALLER, *NO_EXPORT, "--run", "small"))
    given = ardor.load("small/trained").net.module.state_dict()
    assert torch.equal(given["head.weight"], halves["head.weight"].float())


def test_what_a_run_has_found_is_made_smaller_and_once_more(images: Path) -> None:
    words = ["--set", "space.layout=R", "--set", "space.states=1", "--set", "space.channels=4"]
    words += ["--set", "search.epochs=1", "--set", "train.epochs=1", *NO_EXPORT, "--quiet"]
    done("run", images, "--run", "found", *words, "--set", "train.validation=0.25")
    before = files(Path("found"))
    done(
        "compress",
        "found",
        "--data",
        images,
        *SHORT,
        "--times-smaller",
        1.2,
        *NO_EXPORT,
        "--run",
        "one",
    )
    check_smaller("one", 1.2)
    assert files(Path("found")) == before
    shutil.copytree("one/model", "alone")
    done(
        "compress",
        "alone",
        "--data",
        images,
        *SHORT,
        "--times-smaller",
        1.2,
        *NO_EXPORT,
        "--run",
        "two",
    )
    found = check_smaller("two", 1.2)
    assert found["trained_nonzero_params"] == metrics("one")["nonzero_params"]


def test_a_network_that_is_known_is_trained_first(images: Path) -> None:
    words = ["--set", "space.hidden=[12, 8]", *NO_EXPORT, "--run", "small"]
    done("compress", "lenet300", "--data", images, *SMALLER, *words)
    found = check_smaller("small")
    assert set(found["stages"]) == {"train", "compress", "export", "evaluate", "report"}
    assert max(cost["seconds"] for cost in found["stages"].values()) < 5  # by epochs, not by time
    assert list(json.loads(Path("small/curve.json").read_text())["points"])


def test_a_run_is_exported_in_every_format(images: Path) -> None:
    from ardor.models import exporters

    save(module())
    formats = [name for name in exporters.names() if available(name)]
    words = ["--set", f"export.formats={json.dumps(formats)}"]
    done(*of_module(images, *SMALLER, *words, "--run", "small"))
    table = json.loads(Path("small/export/exports.json").read_text())["exports"]
    assert set(table) == set(formats)
    assert all(
        row["largest_difference"] < 1e-3 for row in table.values() if "largest_difference" in row
    )


def available(name: str) -> bool:
    from ardor.models import exporters

    try:
        exporters.find(name)
    except ardor.ArdorError:
        return False
    return True


def test_normalisation_is_as_the_module_was_trained_with(images: Path) -> None:
    save(module())
    own = ["--set", "compress.mean=[0.5]", "--set", "compress.std=[0.25]"]
    done(*of_module(images, *SMALLER, *NO_EXPORT, *own, "--run", "small"))
    normalise = ardor.load("small").normalise
    assert normalise.mean.flatten().tolist() == [127.5]
    assert normalise.std.flatten().tolist() == [63.75]


def test_what_there_is_to_say_is_said_and_kept(images: Path) -> None:
    net = module()
    with torch.no_grad():
        net.head.bias[0] = 1000.0  # whatever it is shown, the answer is the first class
    save(net)
    said = done(
        *of_module(images, *SHORT, "--max-params", 5, *NO_EXPORT, "--json", "--run", "small")
    )
    warnings = json.loads(said.out)["warnings"]
    assert any("no more than by chance" in line for line in warnings)
    assert any("as small as asked, 5 parameters" in line for line in warnings)
    assert "by chance" in Path("small/report.html").read_text()


def test_layers_that_are_not_known_are_left_alone_and_said(images: Path) -> None:
    class Sorted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 6, 3), nn.Conv2d(6, 6, 3)
            self.head = nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.second(self.first(x)).sort(1).values
            return self.head(x.mean((2, 3)))

    run = ardor.compress(Sorted(), images, TINY, times_smaller=1.5)
    assert run.model().net.module.second.out_channels == 6
    assert run.model().net.module.first.out_channels < 6
    lines = json.loads((run.folder / "curve.json").read_text())["warnings"]
    assert ["sort" in line for line in lines].count(True) == 1


def test_a_time_is_shared_out(images: Path) -> None:
    save(module())
    words = ["--time", "7s", "--times-smaller", 2, *SHORT[:-2], *NO_EXPORT, "--run", "small"]
    done(*of_module(images, *words))
    config = json.loads(Path("small/config.json").read_text())
    assert config["compress"]["time"] == 1.0
    assert metrics("small")["stages"]["compress"]["seconds"] < 2.5
