"""Making a network smaller: whatever does not fit is a line, and nothing is written for it."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from standins import small as standin
from standins.user import Edit, ardor, done, edit, files, put, refused, without
from torch import nn

import ardor as library

QUICK = ["--epochs", "2", "--set", "train.batch=16", "--set", "train.augment=[]"]
QUICK += ["--set", "train.validation=0.25", "--set", "compress.cycles=2", "--times-smaller", "1.5"]
QUICK += ["--set", "export.formats=[]", "--quiet"]


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighty grey images of two classes."""
    path = tmp_path_factory.mktemp("images") / "images.npz"
    y = np.arange(80) % 2
    x = np.random.default_rng(0).integers(0, 80, (80, 8, 8)) + 80 * y[:, None, None]
    np.savez(path, x=x.astype(np.uint8), y=y.astype(np.uint8))
    return path


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "net.safetensors"
    safetensors.torch.save_file(standin.build((1, 8, 8), 2).state_dict(), path)
    return path


@pytest.fixture(scope="session")
def compressed(tmp_path_factory: pytest.TempPathFactory, images: Path, weights: Path) -> Path:
    """A run that has made a network smaller."""
    folder = tmp_path_factory.mktemp("compressed") / "run"
    done(*command(images, weights), "--run", folder)
    return folder


@pytest.fixture
def small(compressed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(compressed, tmp_path / "small"))


def command(images: Path, weights: Path, *more: object) -> list[object]:
    named = ["compress", "standins.small:build", "--weights", weights, "--data", images]
    return [*named, *QUICK, *more]


def changed(weights: Path, **change: torch.Tensor | None) -> Path:
    """A copy of the weights with some of them others, or gone."""
    held = {**safetensors.torch.load_file(weights), **change}
    safetensors.torch.save_file(
        {n: t for n, t in held.items() if t is not None}, "other.safetensors"
    )
    return Path("other.safetensors")


def test_settings_that_are_none_are_named(images: Path, weights: Path) -> None:
    words = command(images, weights)
    for more, error, hint in [
        (("--prior", "laplce"), "unknown prior 'laplce'", "laplace"),
        (("--groups", "filter"), "unknown kind of group 'filter'", "filters"),
        (("--groups", ""), "unknown kind of group ''", "known"),
        (("--times-smaller", 0.5), "compress.times_smaller = 0.5 must be above 1", "settings"),
        (("--max-params", -1), "compress.max_params = -1 must be", "settings"),
        (("--epochs", 0), "compress.epochs = 0 must be", "settings"),
        (("--set", "compress.mean=[0.5,0.5]"), "must be 1 numbers", "trained with"),
        (("--set", "compress.mean=[0]", "--set", "compress.std=[0]"), "above 0", "trained with"),
        (("--set", "train.validation=0", "--set", "compress.times_smaller=0"), "held-out", "hold"),
    ]:
        said = ardor(*words, *more)
        assert said.code == 1, said
        assert error in said.line("error"), said
        assert hint in said.line("hint"), said
    refused(*words, "--keep-accuracy", 90, error="--keep-accuracy", code=2, hint="")
    assert not Path("runs").exists()


def test_networks_that_are_none_are_named(images: Path, tmp_path: Path) -> None:
    data = ["--data", images, *QUICK]
    refused("compress", "resnet200", *data, error="unknown network 'resnet200'", hint="resnet20")
    refused("compress", "lab.nothing:build", *data, error="no module 'lab.nothing'", hint="PYTHON")
    (tmp_path / "empty").mkdir()
    refused("compress", "empty", *data, error="the folder of no model and of no run")
    refused("compress", "standins.built", *data, error="has choices", hint="--space")
    assert not Path("runs").exists()


def test_weights_that_do_not_fit_are_named(images: Path, weights: Path, compressed: Path) -> None:
    def tried(path: object, error: str, hint: str = "") -> None:
        refused(*command(images, path), error=error, hint=hint)  # type: ignore[arg-type]

    tried("none.safetensors", "cannot read weights from 'none.safetensors'")
    torch.save(nn.Linear(2, 2).state_dict(), "net.pt")
    tried("net.pt", "cannot read weights from 'net.pt'", "safetensors.torch.save_file")
    tried(
        changed(weights, **{"head.bias": None}), "'head.bias' is absent; must be (2,)", "state_dict"
    )
    tried(changed(weights, more=torch.ones(1)), "'more' is (1,); must be absent", "state_dict")
    tried(changed(weights, **{"head.bias": torch.ones(3)}), "'head.bias' is (3,); must be (2,)")
    tried(changed(weights, **{"head.bias": torch.full((2,), torch.nan)}), "not finite")
    tried(compressed / "model" / "model.safetensors", "a whole model of Ardor", "folder")
    refused(
        "compress", compressed, "--weights", weights, "--data", images, *QUICK,
        error="has weights of its own",
    )  # fmt: skip
    assert not Path("runs").exists()


def test_images_that_do_not_fit_are_named(
    images: Path, weights: Path, small: Path, tmp_path: Path
) -> None:
    with np.load(images) as held:
        x, y = held["x"], held["y"]
    np.savez("three.npz", x=x, y=np.arange(80) % 3)
    np.savez("large.npz", x=x.repeat(2, 1).repeat(2, 2), y=y)
    np.savez("wide.npz", x=x.repeat(2, 2), y=y)
    refused("compress", small, "--data", "three.npz", *QUICK, error="classes of the images are")
    more = ["--set", "data.size=16"]
    refused("compress", small, "--data", images, *QUICK, *more, error="the network in", hint="size")
    refused("compress", small, "--data", "wide.npz", *QUICK, "--set", "data.size=0", error="8x8")
    refused("compress", small, "--data", "none", *QUICK, error="none")
    done("compress", small, "--data", "large.npz", *QUICK, "--run", "other")  # made smaller
    net = standin.build((1, 8, 8), 5)
    with pytest.raises(library.ArdorError, match=r"gives \(2, 5\) for 2 images") as caught:
        library.compress(net, images, times_smaller=2)
    assert "classes" in caught.value.hint
    assert not Path("runs").exists()


class Broken(nn.Module):
    """It fails on whatever it is shown, or by what it does there."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.head = how, nn.Linear(64, 2)

    def forward(self, x: torch.Tensor) -> Any:
        if self.how == "fails":
            raise ValueError("two\nlines")
        if self.how == "looks" and float(x.sum()) > 1e9:
            return None
        return [self.head(x.flatten(1))] if self.how == "list" else self.head(x.flatten(1))


@pytest.mark.parametrize("how", ["fails", "looks", "list"])
def test_modules_that_cannot_be_followed_are_a_line(how: str, images: Path) -> None:
    with pytest.raises(library.ArdorError, match="forward of") as caught:
        library.compress(Broken(how), images, times_smaller=2)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert not Path("runs").exists()


def test_groups_that_a_network_has_not_are_said_before_anything_is_written(images: Path) -> None:
    words = ["compress", "lenet300", "--data", images, *QUICK, "--groups", "layers"]
    refused(*words, error="no groups of the kind layers", hint="--groups")
    assert not Path("runs").exists()


TAMPERED: list[tuple[str, Edit]] = [
    ("curve.json", lambda content: [content]),
    ("curve.json", put("points", value=[{"params": "x", "macs": None}, 3, {"accuracy": 1e999}])),
    ("curve.json", put("points", value={"a": 1})),
    ("curve.json", put("warnings", value=[{"<script>": 1}, None, 3])),
    ("curve.json", without("points")),
    ("layers.json", lambda content: 3),
    ("layers.json", put("layers", value=[{"layer": 3}, None, {"layer": "x", "before": []}])),
    ("layers.json", put("layers", 0, "after", value={"outputs": "<script>"})),  # type: ignore[arg-type]
    ("config.json", put("compress", value=3)),
    ("config.json", put("compress", "prior", value="os.path")),
    ("config.json", put("compress", "groups", value=[3])),
    ("config.json", put("compress", "groups", value=[])),
    ("config.json", put("compress", "times_smaller", value="many")),
    ("config.json", put("stages", value=["compress", "search"])),
    ("config.json", put("stages", value=["report"])),
    ("config.json", without("compress")),
    ("metrics.json", put("nonzero_params", value="x")),
]


@pytest.mark.parametrize(("name", "change"), TAMPERED)
def test_a_strangers_run_is_no_traceback(small: Path, name: str, change: Edit) -> None:
    edit(small / name, change)
    for words in (["report", small], ["show", small], ["resume", small]):
        said = ardor(*words)
        assert said.code in (0, 1)
        assert "Traceback" not in said.err + said.out
        assert "internal" not in said.err
    page = small / "report.html"
    assert not page.exists() or '<script>"' not in page.read_text()


def test_facts_of_a_checkpoint_that_no_loop_would_have_written_are_refused(
    small: Path, images: Path, weights: Path
) -> None:
    from ardor.runtime import tensors
    from ardor.training.compress import CompressLoop

    def stop(self: CompressLoop, number: int) -> None:
        raise library.Interrupted("stopped")

    broken = Path("broken")
    with pytest.MonkeyPatch.context() as patch:
        own, seen = CompressLoop.finish_epoch, []

        def once(self: CompressLoop) -> None:
            own(self)
            seen.append(1)
            raise library.Interrupted("stopped")

        patch.setattr(CompressLoop, "finish_epoch", once)
        said = ardor(*command(images, weights, "--run", broken))
        assert said.code == 130, said
    (path,) = (broken / "checkpoint").glob("compress-*")
    held, facts = tensors.load(path)
    for name, value in [
        ("size", [1]),
        ("trial", 0.0),
        ("said", 3),
        ("cycle", "x"),
        ("points", [3]),
    ]:
        tensors.save(path, held, {**facts, "facts": {**facts["facts"], name: value}})
        refused("resume", broken, error="does not fit this run")
    tensors.save(path, held, {**facts, "facts": {}})
    said = ardor("resume", broken)
    assert "Traceback" not in said.err


def test_nothing_is_lost_where_the_folder_is_there(
    images: Path, weights: Path, small: Path
) -> None:
    before = files(small)
    refused(*command(images, weights, "--run", small), error="exists already", hint="resume")
    assert files(small) == before
    content = json.loads((small / "config.json").read_text())
    assert content["stages"] == ["compress", "export", "evaluate", "report"]
