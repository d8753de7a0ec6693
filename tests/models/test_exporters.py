"""Every exporter: its files compute what the network does, wherever they are taken."""

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import torch
from safetensors.torch import load, save_file
from torch import Tensor, nn

import ardor
from ardor.data import Normalise
from ardor.errors import ArdorError
from ardor.models import exporters
from ardor.models.exporters import Files
from ardor.models.exporters._base import largest_difference
from ardor.models.exporters.onnx import Onnx
from ardor.models.model import Model
from ardor.models.smaller import compact
from ardor.spaces import Space
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import Nasbench201

CLASSES = ("a", 'b\'"""\n\\', "\ud800")  # as strange as names of folders can be
SPACES = {
    "cells": Cells(image=(1, 9, 9), classes=3, layout="NR", states=2, channels=4),
    "vinnas": Cells(image=(3, 9, 9), classes=3, layout="R", states=2, channels=4, ops="vinnas"),
    "halved": Cells(image=(1, 16, 16), classes=3, layout="R", states=1, channels=4, halvings=2),
    "nasbench201": Nasbench201(image=(3, 9, 9), classes=3, channels=4, cells=1),
}
# As a stranger has it: nothing of Ardor can be imported, and the weights are where they lie.
STRANGER = """
import sys
sys.modules["ardor"] = None
from safetensors.torch import load_file, save_file
import network
net = network.Network().eval()
save_file({"logits": net(load_file("pixels.safetensors")["pixels"]).detach()}, "logits.safetensors")
assert len(network.CLASSES) == 3
"""


def model_of(space: Space) -> Model:
    """A random network with running statistics that are not the start values."""
    architecture = space.strongest(
        {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices}
    )
    net = space.build(architecture)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.3)
            nn.init.normal_(module.bias, 0.0, 0.5)
    net(torch.randn(32, *space.image))
    channels = space.image[0]
    normalise = Normalise(torch.full((channels,), 99.0), torch.full((channels,), 70.0))
    return Model(net, normalise, architecture, CLASSES).eval()


def images(model: Model, count: int) -> Tensor:
    return torch.randint(0, 256, (count, *model.shape)).byte()


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("name", exporters.names())
def test_its_files_compute_the_same_for_any_number_of_images(name: str, space: Space) -> None:
    model = compact(model_of(space))
    found = exporters.export(name, model, images(model, 5))
    assert found.difference < found.allowed
    assert found.exporter.file in found.files
    for count in (1, 7):
        pixels = images(model, count)
        apart, largest = largest_difference(model, found.exporter, found.files, pixels)
        assert apart < found.exporter.tolerance * max(1.0, largest)


@pytest.mark.parametrize("name", exporters.names())
def test_its_files_tell_no_paths_and_hold_no_pickle(name: str) -> None:
    model = model_of(SPACES["cells"])
    for content in exporters.export(name, model, images(model, 2)).files.values():
        text = content.decode("latin-1")
        assert "/src/" not in text
        assert "site-packages" not in text
        assert "ardor.layers" not in text
        assert not content.startswith((b"\x80", b"PK"))  # as a pickle and a zip of them begin


def test_the_onnx_file_names_what_it_takes_and_gives() -> None:
    model = model_of(SPACES["cells"])
    content = exporters.export("onnx", model, images(model, 5)).files["model.onnx"]
    graph = onnx.load_from_string(content).graph
    assert [i.name for i in graph.input] == ["pixels"]
    assert [o.name for o in graph.output] == ["logits"]


def test_the_onnx_file_tells_classes_and_preprocessing_and_nothing_else() -> None:
    for space in (SPACES["cells"], SPACES["vinnas"]):
        model = model_of(space)
        content = exporters.export("onnx", model, images(model, 2)).files["model.onnx"]
        told = {each.key: each.value for each in onnx.load_from_string(content).metadata_props}
        assert told.keys() == {"ardor", "classes", "preprocessing"}
        assert told["ardor"] == ardor.__version__
        assert tuple(json.loads(told["classes"])) == CLASSES
        how = json.loads(told["preprocessing"])
        assert tuple(how["shape"]) == model.shape
        assert how["range"] == [0, 255]
        assert how["colours"] == ("L" if model.shape[0] == 1 else "RGB")
        assert f"'{how['colours']}'" in " ".join(how["steps"])


def test_a_stranger_runs_the_python_file_without_ardor(tmp_path: Path) -> None:
    model = model_of(SPACES["cells"])
    pixels = images(model, 3)
    for name, content in exporters.export("python_file", model, pixels).files.items():
        (tmp_path / name).write_bytes(content)
    save_file({"pixels": pixels}, tmp_path / "pixels.safetensors")
    done = subprocess.run([sys.executable, "-c", STRANGER], cwd=tmp_path, capture_output=True)
    assert not done.returncode, done.stderr.decode()
    logits = load((tmp_path / "logits.safetensors").read_bytes())["logits"]
    with torch.no_grad():
        assert torch.allclose(logits, model(pixels), atol=1e-5)


def test_the_python_file_holds_its_classes_and_only_the_weights_it_uses() -> None:
    model = model_of(SPACES["cells"])
    files = exporters.export("python_file", model, images(model, 2)).files
    code = files["network.py"].decode()
    assert f"CLASSES = {ascii(CLASSES)}" in code
    for name in load(files["network.safetensors"]):
        assert f"self.{name}" in code, name
    assert "import operator" not in code
    assert max(map(len, code.split("def forward")[0].splitlines())) <= 100


def test_a_file_that_differs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(SPACES["cells"])
    monkeypatch.setattr("ardor.models.exporters._base.largest_difference", lambda *_: (1e-3, 1.0))
    for name in exporters.names():
        with pytest.raises(ArdorError, match=f"the network as {name} differs"):
            exporters.export(name, model, images(model, 2))


def test_large_logits_may_differ_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(SPACES["cells"])
    monkeypatch.setattr(Onnx, "write", lambda *_: {"model.onnx": b"onnx"})
    for largest, allowed in ((8068.0, 0.8068), (0.01, 1e-4)):
        for difference in (0.9 * allowed, 1.1 * allowed):
            monkeypatch.setattr(
                "ardor.models.exporters._base.largest_difference",
                lambda *_, found=(difference, largest): found,
            )
            if difference < allowed:
                found = exporters.export("onnx", model, images(model, 2))
                assert found.to_json()["largest_difference"] == difference
                assert found.to_json()["tolerance"] == pytest.approx(allowed)
            else:
                with pytest.raises(ArdorError, match="differs"):
                    exporters.export("onnx", model, images(model, 2))


def test_noise_cannot_be_exported() -> None:
    space = Cells(image=(1, 8, 8), classes=3, layout="R", states=1, channels=2, ops="s4")
    kept = {c.name: ("noise",) if c.kind == "op" else c.options[:2] for c in space.choices}
    model = Model(
        space.build(space.architecture(kept)),
        Normalise(torch.zeros(1), torch.ones(1)),
        space.architecture(kept),
        CLASSES,
    )
    for name in exporters.names():
        with pytest.raises(ArdorError, match="draws noise"):
            exporters.export(name, model, images(model, 2))


def test_an_unknown_format_is_told_with_the_nearest() -> None:
    with pytest.raises(ArdorError, match="unknown export format 'onxx'; known: onnx") as error:
        exporters.find("onxx")
    assert error.value.hint == "did you mean 'onnx'?"


def test_what_torch_does_not_know_by_itself_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    @torch.library.custom_op("ardor_test::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return 2 * x

    twice.register_fake(torch.empty_like)
    model = model_of(SPACES["cells"])
    forward = Model.forward
    monkeypatch.setattr(Model, "forward", lambda self, pixels: twice(forward(self, pixels)))
    with pytest.raises(ArdorError, match="calls 'ardor_test.twice.default'"):
        exporters.export("python_file", model, images(model, 2))


class Sorted(nn.Module):
    """Functions with several results, sizes computed from the batch, and devices named."""

    def forward(self, x: Tensor) -> Tensor:
        values, _ = x.flatten(1).sort(1, descending=True)
        fill = x.new_full((x.shape[0], 3 + x.shape[0] - x.shape[0]), float("-inf"))
        return torch.maximum(values[:, :3], fill) + torch.zeros(x.shape[0], 3, device=x.device)


def test_the_python_file_holds_whatever_torch_does() -> None:
    model = model_of(SPACES["cells"])
    model.net = Sorted()  # type: ignore[assignment]
    files: Files = exporters.export("python_file", model, images(model, 4)).files
    assert 'float("-inf")' in files["network.py"].decode()
