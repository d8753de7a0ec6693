"""A network away from where it was made: opened by its folder alone, or used without Ardor."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from standins.user import TINY, done, edit, files, pictures, png, put, refused, without
from torch import nn

import ardor
from ardor import discover
from ardor.data import Normalise, read_pictures
from ardor.models import exporters
from ardor.models.card import card
from ardor.models.model import Model
from ardor.spaces.cells import Cells

# As a stranger has it: the ONNX file, three libraries, and what its metadata says.
STRANGER = """
import json, sys
import numpy as np
import onnxruntime
from PIL import Image, ImageOps

network = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
said = network.get_modelmeta().custom_metadata_map
classes, how = json.loads(said["classes"]), json.loads(said["preprocessing"])
channels, height, width = how["shape"]
image = Image.open("photo.jpg")
image.draft(None, how["draft"])
ImageOps.exif_transpose(image, in_place=True)
image = image.convert(how["colours"])
assert (how["resize"], how["range"]) == ("ImageOps.fit", [0, 255])
resampling = Image.Resampling[how["resampling"]]
for fitted in (
    ImageOps.fit(image, (width, height), resampling), image.resize((width, height), resampling)
):
    pixels = np.array(fitted, np.float32).reshape(1, height, width, channels)
    (logits,) = network.run(["logits"], {"pixels": pixels.transpose(0, 3, 1, 2)})
    shares = np.exp(logits[0] - logits[0].max())
    print(json.dumps(dict(zip(classes, (shares / shares.sum()).tolist()))))
"""
PYTHON_FILE = """
import json
import torch
from PIL import Image
from network import CLASSES, PREPROCESSING, Network, pixels_of

pixels = pixels_of(Image.open("photo.jpg"), *PREPROCESSING["shape"])
shares = Network()(torch.from_numpy(pixels)[None]).softmax(1)[0]
print(json.dumps(dict(zip(CLASSES, shares.tolist()))))
"""


def without_ardor(program: str, place: Path) -> list[str]:
    """The lines that a program prints in a folder, where nothing of Ardor can be imported."""
    code = f'import sys\nsys.modules["ardor"] = None\n{program}'
    said = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True)
    assert not said.returncode, said.stderr
    return said.stdout.splitlines()


@pytest.fixture(params=[1, 3], ids=["grey", "colour"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copied model, what was exported of it, and a photo that is neither square nor upright."""
    channels = request.param
    space = Cells(image=(channels, 12, 12), classes=3, layout="R", states=1, channels=4)
    found = space.strongest({c.name: torch.rand(1, 1, len(c.options)) for c in space.choices})
    net = space.build(found)
    nn.init.normal_(net.classify.weight, 0, 6.0)  # type: ignore[union-attr, arg-type]
    normalise = Normalise(torch.full((channels,), 120.0), torch.full((channels,), 60.0))
    model = Model(net, normalise, found, ("cat", "dög", "a b")).eval()
    model.save(tmp_path / "copied", card=card("model", model))
    images = torch.randint(0, 256, (4, *model.shape)).byte()
    for name in ("onnx", "python_file"):
        for file, content in exporters.export(name, model, images).files.items():
            (tmp_path / file).write_bytes(content)
    # Bright at both ends, which the crop leaves out.
    bright = np.abs(np.linspace(-255, 255, 90))[None, :, None] * np.array([1, 0.6, 0.3])
    speckled = bright + 20 * np.random.default_rng(0).random((60, 90, 3))
    turned = Image.Exif()
    turned[0x0112] = 6
    photo = Image.fromarray(speckled.clip(0, 255).astype(np.uint8))
    photo.save(tmp_path / "photo.jpg", exif=turned)
    return tmp_path


def predicted(place: Path) -> dict[str, float]:
    """What `ardor predict` says of the photo."""
    (found,) = json.loads(done("predict", place / "copied", place / "photo.jpg", "--json").out)
    shares: dict[str, float] = found["probabilities"]
    return shares


def test_the_onnx_file_alone_says_how_to_get_what_ardor_predicts(place: Path) -> None:
    right, resized = map(json.loads, without_ardor(STRANGER, place))
    assert right == pytest.approx(predicted(place), abs=1e-3)
    assert max(abs(resized[name] - right[name]) for name in right) > 0.01


def test_the_python_file_has_the_reader_of_pictures_too(place: Path) -> None:
    (found,) = without_ardor(PYTHON_FILE, place)
    assert json.loads(found) == pytest.approx(predicted(place), abs=1e-3)


def test_the_card_has_a_whole_program_and_the_commands_that_work_beside_it(place: Path) -> None:
    text = (place / "copied" / "README.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
    expected = predicted(place)
    label = max(expected, key=expected.__getitem__)
    name, share = without_ardor(program, place)[0].rsplit(" ", 1)
    assert name == label
    assert float(share) == pytest.approx(expected[label], abs=1e-3)
    assert str(place) not in text
    assert "ardor predict model photo.jpg" in text
    assert 'ardor.load("model")' in text


def test_the_settings_of_a_model_say_how_pixels_are_made(place: Path) -> None:
    told = json.loads((place / "copied" / "config.json").read_text())["preprocessing"]
    assert {"shape", "mean", "std", "colours", "resize", "resampling", "steps"} <= told.keys()
    network = (place / "network.py").read_text()
    assert "ImageOps.fit(image, (12, 12)" in " ".join(told["steps"])
    assert "Image.Resampling.BILINEAR" in network


def test_every_kind_of_picture_is_read_as_the_python_file_reads_it(place: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (31, 20, 4), dtype=np.uint8)
    drawn = Image.fromarray(noise)
    deep = Image.fromarray(noise[..., 0].astype(np.uint16) * 257)
    kinds = {"a": drawn, "b": drawn.convert("LA"), "c": drawn.convert("P"), "d": deep}
    for name, image in {**kinds, "e": drawn.convert("1"), "f": drawn.convert("RGB")}.items():
        png(place / "kinds" / f"{name}.png", image=image)
    program = """
import json, pathlib
from PIL import Image
from network import PREPROCESSING, pixels_of
for path in sorted(pathlib.Path("kinds").iterdir()):
    print(json.dumps(pixels_of(Image.open(path), *PREPROCESSING["shape"]).tolist()))
"""
    shape = ardor.load(place / "copied").shape
    read, _ = read_pictures(sorted((place / "kinds").iterdir()), shape)
    assert [json.loads(line) for line in without_ardor(program, place)] == read.tolist()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every stage done."""
    folder = tmp_path_factory.mktemp("whole")
    done("run", pictures(folder / "data", "a", "b"), "--run", folder / "run", *TINY)
    return folder / "run"


def test_a_run_and_its_copied_model_predict_alike(whole: Path, tmp_path: Path) -> None:
    picture = png(tmp_path / "new.png", 20, 11, 3)
    copied = shutil.copytree(whole / "model", tmp_path / "elsewhere" / "mine")
    before = files(copied)
    said = done("predict", whole, picture, "--json")
    alone = done("predict", copied, picture, "--json")
    assert alone.out == said.out
    assert (alone.err, said.err) == ("", f"by the pruned network of {whole}\n")
    assert done("predict", whole, picture, "--quiet").err == ""
    pixels = read_pictures([picture], (3, 8, 8))[0]
    shares = [ardor.load(place).probabilities(pixels) for place in (whole, str(copied))]
    assert torch.equal(*shares)
    assert files(copied) == before
    for name in ("model", "trained"):
        text = (whole / name / "README.md").read_text()
        assert str(whole.parent) not in text
        assert f"ardor predict {name} photo.jpg" in text


def test_a_run_that_was_not_pruned_says_so(whole: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    shutil.rmtree(run / "model")
    said = done("predict", run, png(tmp_path / "new.png"))
    assert "by the trained network" in said.err
    assert "nothing was pruned yet" in said.err


def test_what_is_neither_a_model_nor_a_run_is_told_of_both(whole: Path, tmp_path: Path) -> None:
    picture = png(tmp_path / "new.png")
    model = Path(shutil.copytree(whole / "model", tmp_path / "model"))
    both = "name a model's folder, which has model.safetensors and config.json, or a run's"

    def strange(error: str) -> None:
        refused("predict", model, picture, error=error, hint=both)
        with pytest.raises(ardor.ArdorError, match="of no model and of no run"):
            ardor.load(model)

    (model / "model.safetensors").rename(tmp_path / "weights")
    strange("and no model.safetensors")
    (tmp_path / "weights").rename(model / "model.safetensors")
    edit(model / "config.json", without("architecture"))
    strange("its config.json is of something else")
    (model / "config.json").unlink()
    strange("it has no config.json")
    refused("predict", whole / "export", picture, error="it has no config.json", hint=both)


def test_a_space_of_ones_own_is_imported_only_where_it_is_named(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = png(tmp_path / "new.png")
    model = Path(shutil.copytree(whole / "model", tmp_path / "model"))
    space = "from ardor.spaces.cells import Cells\nclass Mine(Cells): pass\n"
    (tmp_path / "lab_of").mkdir()
    (tmp_path / "lab_of" / "mine.py").write_text(space)
    monkeypatch.syspath_prepend(str(tmp_path))
    edit(model / "config.json", put("architecture", "space", value="lab_of.mine"))
    refused(
        "predict", model, picture, error="'lab_of.mine' is a module", hint="--trust lab_of.mine"
    )
    assert "lab_of" not in sys.modules
    done("predict", model, picture, "--trust", "lab_of.mine")
    discover._trusted.clear()
    with pytest.raises(ardor.ArdorError, match=r"lab_of\.mine"):
        ardor.load(model)
    assert ardor.load(model, trust=("lab_of.mine",)).classes == ("a", "b")
