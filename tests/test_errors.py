"""A user who does everything wrong: one line of what, one of the way out, and nothing harmed."""

import contextlib
import errno
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ardor import runtime
from ardor.__main__ import main

# What torch, onnx or tensorboard deprecate is no failure of the command under test.
pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
SET = {
    "space.layout": "R",
    "space.states": "1",
    "space.channels": "2",
    "space.ops": "skip_connect,max_pool_3x3",
}
TINY = [*(word for name in SET for word in ("--set", f"{name}={SET[name]}")), "--epochs", "1"]
Edit = Callable[[Any], Any]


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def line(self, word: str) -> str:
        """The one line on stderr that begins so."""
        (line,) = (line for line in self.err.splitlines() if line.startswith(f"{word}: "))
        return line


def ardor(*arguments: object) -> Said:
    """The command in this process, as the shell would see it."""
    out, err = io.StringIO(), io.StringIO()
    argv, on_term = sys.argv, signal.getsignal(signal.SIGTERM)
    sys.argv = ["ardor", *map(str, arguments)]
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as end,
        ):
            main()
    finally:
        sys.argv = argv
        signal.signal(signal.SIGTERM, on_term)
    return Said(int(end.value.code or 0), out.getvalue(), err.getvalue())


def refused(*arguments: object, error: str, hint: str = "", code: int = 1) -> Said:
    """The command failed as it should: both lines at the end, no traceback, nothing on stdout."""
    said = ardor(*arguments)
    assert said.code == code, said
    assert error in said.line("error"), said
    assert hint in said.line("hint"), said
    assert len(said.line("hint")) > len("hint: "), said
    assert said.err.splitlines()[-2:] == [said.line("error"), said.line("hint")]
    assert "Traceback" not in said.err
    assert said.out == ""
    return said


def done(*arguments: object) -> Said:
    said = ardor(*arguments)
    assert said.code == 0, said
    return said


def png(path: Path, *shape: int, image: Image.Image | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = RNG.integers(0, 256, shape or (8, 8, 3), dtype=np.uint8)
    (image or Image.fromarray(noise)).save(path)
    return path


def pictures(folder: Path, *classes: str, count: int = 6) -> Path:
    for name in classes:
        for number in range(count):
            png(folder / name / f"{number}.png")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, to see that it stays."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def edit(path: Path, change: Edit) -> None:
    """Changes a JSON file as a hand would; `change` gives what is to be in it."""
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def put(*keys: str, value: Any) -> Edit:
    """The edit that sets one entry, however deep."""

    def change(content: Any) -> Any:
        below = content
        for key in keys[:-1]:
            below = below[key]
        below[keys[-1]] = value
        return content

    return change


def without(*keys: str) -> Edit:
    """The edit that drops one entry, however deep."""

    def change(content: Any) -> Any:
        below = content
        for key in keys[:-1]:
            below = below[key]
        del below[keys[-1]]
        return content

    return change


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pictures of each of two classes."""
    return pictures(tmp_path_factory.mktemp("data"), "a", "b")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A run with every stage done."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    done("run", data, "--run", folder, *TINY)
    return folder


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A run that is no further than its search, with two checkpoints."""
    folder = tmp_path_factory.mktemp("searched") / "run"
    done("search", data, "--run", folder, *TINY, "--set", "search.epochs=3")
    return folder


@pytest.fixture
def run(tmp_path: Path, whole: Path) -> Path:
    """A copy of the whole run."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


@pytest.fixture
def begun(tmp_path: Path, searched: Path) -> Path:
    """A copy of the searched run that has not written its architecture yet."""
    folder = Path(shutil.copytree(searched, tmp_path / "begun"))
    (folder / "architecture.json").unlink()
    return folder


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# Settings and options: refused before a folder is made.

SETTINGS = [
    ("--method vinas", "unknown method 'vinas'", "did you mean 'vinnas'?"),
    ("--method ''", "method.name = '' must be the name of a method", "ardor list methods"),
    ("--method ..x", "method.name = '..x' must be the name of a method", ""),
    ("--method no.such", "no module 'no.such' for the method", "PYTHONPATH"),
    ("--method json.decoder", "module 'json.decoder' has 0 classes", ""),
    ("--space cels", "unknown space 'cels'", "did you mean 'cells'?"),
    ("--preset digit", "unknown preset 'digit'", "did you mean 'digits'?"),
    ("--set search.epoch=3", "unknown setting 'search.epoch'", "did you mean 'search.epochs'?"),
    ("--set serch.epochs=3", "unknown setting 'serch'", "did you mean 'search'?"),
    ("--set method.kl_gate=1", "unknown setting 'method.kl_gate'", "'method.kl_gates'"),
    ("--set space.chanels=4", "unknown setting 'space.chanels'", "'space.channels'"),
    ("--set network.chanels=3", "unknown setting 'network.chanels'", "'network.channels'"),
    ("--set qqq=3", "unknown setting 'qqq'; known: data, device", "choose one"),
    ("--set search.batch=0", "search.batch = 0 must be greater than or equal to 2", ""),
    ("--set search.rate=-1", "search.rate = -1 must be greater than 0", ""),
    ("--set search.rate=nan", "search.rate = nan must be a finite number", ""),
    ("--set train.rate=inf", "train.rate = inf must be a finite number", ""),
    ("--set search.rate=fast", "search.rate = 'fast' must be a number", "ardor list settings"),
    ("--set method.kl_gates=nan", "method.kl_gates = nan must be a finite number", ""),
    ("--set prune.threshold=nan", "prune.threshold = nan must be a finite number", ""),
    ("--set seed=-1", "seed = -1 must be greater than or equal to 0", ""),
    ("--set seed=1.5", "seed = 1.5 must be a whole number", ""),
    ("--set seed=true", "seed = True must be a whole number", ""),
    ("--seed -1", "seed = -1 must be greater than or equal to 0", ""),
    ("--epochs -1", "search.epochs = -1 must be greater than or equal to 0", ""),
    ("--epochs 1000000", "search.epochs = 1000000 must be less than or equal to 99999", ""),
    ("--set search.epochs.x=4", "search.epochs = {'x': 4} must be a whole number", ""),
    ("--set search.augment=crop", "search.augment = 'crop' must be a list", ""),
    ("--set search.gate_betas=[0.5]", "search.gate_betas.1 = [0.5] must be given", ""),
    ("--set train.variational=7", "train.variational = 7 must be true or false", ""),
    ("--set space.layout=NXR", "space.layout 'NXR' must be cells N and R", "for example"),
    ("--set space.layout=6", "space.layout = 6 must be text", ""),
    ("--set space.layout=RRRR", "'RRRR' halves 8 pixels more often", "fewer reduction cells"),
    ("--set network.layout=RRRR", "'RRRR' halves 8 pixels more often", "fewer reduction cells"),
    ("--set space.ops=sep_conv_3x4", "unknown operation 'sep_conv_3x4'", "'sep_conv_3x3'"),
    ("--set space.ops=skip_connect", "must be at least two operations", ""),
    ("--set space.classes=3", "space.classes = 3 must be left out", "data.size"),
    ("--set network.image=[1,8,8]", "network.image = [1, 8, 8] must be left out", "data.size"),
    ("--set network.states=3", "{'states': 3} change the choice 'reduce/0>3'", "channels"),
    ("--method darts --set method.order=3", "method.order = 3 must be 1 or 2", ""),
    ("--set device=tpu", "device = 'tpu' must be 'auto', 'cpu', 'cuda' or 'mps'", ""),
    ("--device tpu", "device = 'tpu' must be 'auto', 'cpu', 'cuda' or 'mps'", ""),
    ("--time soon", "search.time = 'soon' must be a time such as 20m", "ardor list settings"),
    ("--set search.accumulate=0", "search.accumulate = 0 must be greater than or equal to 1", ""),
    ("--set novalue", "'novalue' must be NAME=VALUE", "for example"),
    ("--set =3", "'=3' must be NAME=VALUE", "for example"),
    ("--set search=3", "search = 3 must be settings by name", "search.NAME=VALUE"),
    ("--set data=3", "data = 3 must be settings by name", ""),
    ("--set method=darts", "method = 'darts' must be settings by name", ""),
    ("--set method.name=5", "method.name = 5 must be the name of a method", ""),
    ("--set data.size=4", "data.size is 4; must be 0 or at least 8", ""),
    ("--set data.channels=2", "data.channels = 2 must be 0, 1 or 3", ""),
    ("--set data.test=0", "data.test is 0.0; must lie between 0 and 1", ""),
    ("--set data.test=0.9", "class 'a' in", "lower data.test"),
    ("--set data.source=nowhere", "no such file or folder: 'nowhere'", ""),
    ("--config nowhere.toml", "'nowhere.toml': No such file or directory", "TOML"),
    ("--config .", "cannot read settings from '.': Is a directory", "TOML"),
    ("--config broken.toml", "cannot read settings from 'broken.toml': ", "TOML"),
    ("--config binary.toml", "cannot read settings from 'binary.toml': ", "TOML"),
    ("--config wrong.toml", "search.batch = -3 must be greater than or equal to 2", ""),
]


@pytest.mark.parametrize(("words", "error", "hint"), SETTINGS, ids=[s[0] for s in SETTINGS])
def test_a_wrong_setting_is_named_and_no_folder_is_made(
    data: Path, tmp_path: Path, words: str, error: str, hint: str
) -> None:
    (tmp_path / "broken.toml").write_text("[search\nepochs = 3")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "wrong.toml").write_text("[search]\nbatch = -3")
    arguments = ["" if word == "''" else word for word in words.split(" ")]
    refused("search", data, "--run", "new", *TINY, *arguments, error=error, hint=hint)
    refused("run", data, *TINY, *arguments, error=error, hint=hint)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "binary.toml",
        "broken.toml",
        "wrong.toml",
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_is_not_there_is_told_before_a_folder_is_made(data: Path) -> None:
    refused("run", data, "--run", "new", *TINY, "--device", "cuda", error="no device 'cuda'")
    assert not Path("new").exists()


USAGE = [
    ("serch", "unknown command 'serch'; known: bench, check", "did you mean 'search'?"),
    ("qqq", "unknown command 'qqq'", "choose one"),
    ("--nope", "No such option '--nope'", "see 'ardor --help'"),
    ("run", "Missing argument 'DATA'", "see 'ardor run --help'"),
    ("run d --epochs x", "'x' is not a valid integer", "see 'ardor run --help'"),
    ("run d --seed 1.5", "'1.5' is not a valid integer", "see 'ardor run --help'"),
    ("run d --set", "Option '--set' requires an argument", "--help'"),
    ("list", "Choose from: methods, spaces, data", "see 'ardor list --help'"),
    ("list qqq", "'qqq' is not one of 'methods'", "see 'ardor list --help'"),
    ("compare", "Missing argument 'RUN...'", "see 'ardor compare --help'"),
    ("predict run", "Missing argument 'IMAGES...'", "see 'ardor predict --help'"),
    ("bench digits --seeds 0", "0 is not in the range", "see 'ardor bench --help'"),
    ("prune run --threshold x", "'x' is not a valid float", "see 'ardor prune --help'"),
]


@pytest.mark.parametrize(("words", "error", "hint"), USAGE, ids=[u[0] for u in USAGE])
def test_wrong_usage_ends_with_2(words: str, error: str, hint: str) -> None:
    refused(*words.split(), error=error, hint=hint, code=2)


def test_nothing_at_all_is_answered_with_help() -> None:
    assert "Usage: ardor" in done().out


def test_an_unknown_bench_is_refused() -> None:
    refused("bench", "digit", error="unknown bench 'digit'", hint="did you mean 'digits'?")
    refused("bench", "speed", "--data", "x", error="--data x is not for the bench 'speed'")
    Path("file").write_text("mine")
    refused("bench", "digits", "--folder", "file", error="cannot write 'file/digits")
    assert Path("file").read_text() == "mine"


# Images.


def idx(path: Path, *shape: int) -> Path:
    content = RNG.integers(0, 2, shape, dtype=np.uint8).tobytes()
    path.write_bytes(struct.pack(f">{1 + len(shape)}I", 0x0800 + len(shape), *shape) + content)
    return path


def mnist(folder: Path, *, images: int = 20, labels: int = 20) -> Path:
    folder.mkdir()
    for part in ("train", "t10k"):
        idx(folder / f"{part}-images-idx3-ubyte", images, 8, 8)
        idx(folder / f"{part}-labels-idx1-ubyte", labels)
    return folder


def npz(path: Path, x: Any, y: Any, **others: Any) -> Path:
    np.savez(path, x=x, y=y, **others)
    return path


def pixels(*shape: int) -> Any:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def test_folders_that_cannot_be_learned_from_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused("check", "empty", error="no images found in empty", hint="empty/cat/1.png")
    pictures(Path("one"), "cat")
    refused("check", "one", error="one has only one class, 'cat'; must have at least two")
    png(pictures(Path("single"), "cat", "dog") / "eel" / "1.png")
    refused("check", "single", error="class 'eel' in single has 1 images; must have at least 4")
    png(pictures(Path("few"), "train/cat", "train/dog", "test/cat") / "train" / "eel" / "1.png")
    refused("check", "few", error="class 'eel' in few has 1 images to train on; must have")
    pictures(Path("more"), "train/cat", "train/dog", "test/eel")
    refused("check", "more", error="class 'eel' has test images in more, but none to train on")
    refused("check", "nowhere", error="no such file or folder: 'nowhere'", hint="digits")
    refused("check", "digit", error="no such file or folder: 'digit'", hint="'digits'?")
    refused("check", "", error="no such file or folder: ''")
    refused("check", "npz", error="'npz' is a kind of data, not a place")
    refused("check", "x" * 5000, error="File name too long")
    Path("table.csv").write_text("1,2")
    refused("check", "table.csv", error="cannot tell what table.csv holds; a file must be .npz")


def test_arrays_that_cannot_be_learned_from_are_refused() -> None:
    cut = mnist(Path("cut")) / "train-images-idx3-ubyte"
    cut.write_bytes(cut.read_bytes()[:-7])
    refused("check", "cut", error="cut/train-images-idx3-ubyte is cut short: expected 1296 bytes")
    mnist(Path("odd"), labels=19)
    refused("check", "odd", error="train has 20 images, but 19 labels; must be equal")
    two = np.arange(20) % 2
    npz(Path("odd.npz"), pixels(20, 8, 8), two[:-1])
    refused("check", "odd.npz", error="labels in odd.npz are int64 (19,); must be")
    npz(Path("none.npz"), pixels(0, 8, 8), two[:0])
    refused("check", "none.npz", error="none.npz holds no images to train or to test on")
    npz(Path("flat.npz"), pixels(20, 0, 0), two)
    refused("check", "flat.npz", error="flat.npz holds no images to train or to test on")
    npz(Path("test.npz"), pixels(20, 8, 8), two, x_test=pixels(1, 8, 8), y_test=two[:1] + 7)
    refused("check", "test.npz", error="label 7 occurs in the test images of test.npz")
    Path("text.npz").write_text("hello")
    refused("check", "text.npz", error="cannot read text.npz: it is not an .npz file")


def test_a_broken_picture_is_named_and_left_out_only_if_asked(data: Path, tmp_path: Path) -> None:
    photos = Path(shutil.copytree(data, tmp_path / "photos"))
    photo = png(photos / "a" / "half.jpg", 40, 40, 3)
    photo.write_bytes(photo.read_bytes()[:500])
    skip = ("--set", "data.skip_broken=true")
    error, hint = "cannot read image photos/a/half.jpg: ", "--set data.skip_broken=true"
    refused("check", "photos", error=error, hint=hint)
    refused("search", "photos", "--run", "new", *TINY, error=error, hint=hint)
    assert not Path("new").exists()
    assert "skipped 1 broken: a/half.jpg" in done("check", "photos", *skip).out
    assert "skipped 1 broken: a/half.jpg" in done("search", "photos", *TINY, *skip).err


def test_pictures_of_every_kind_are_read(run: Path, tmp_path: Path) -> None:
    colour = Image.fromarray(pixels(12, 9, 3))
    kinds = {
        "grey.png": colour.convert("L"),
        "alpha.png": colour.convert("RGBA"),
        "deep.png": Image.fromarray(RNG.integers(0, 65536, (7, 30)).astype(np.uint16)),
        "palette.png": colour.convert("P"),
        "bits.png": colour.convert("1"),
        "large.jpg": Image.fromarray(pixels(70, 90, 3)),
    }
    for kind, image in kinds.items():
        for name in "ab":
            png(tmp_path / "mixed" / name / kind, image=image)
    said = done("check", "mixed", "--json")
    assert json.loads(said.out)["classes"] == {"a": [5, 1], "b": [5, 1]}
    labels = json.loads(done("predict", run, "mixed/a", "--json").out)
    assert [Path(found["path"]).name for found in labels] == sorted(kinds)


def test_names_of_every_kind_are_shown_as_they_are(tmp_path: Path) -> None:
    classes = ["[red]", "[link=x]", ":smile:", "b c", "żółć 猫"]
    photos = pictures(Path("my [bold] phötos"), *classes)
    said = done("check", photos)
    for name in classes:
        assert f"class {name}" in said.out
    folder = Path("runs/[red] rün")
    assert f"run folder: {folder}" in done("search", photos, "--run", folder, *TINY).err
    done("train", folder)
    for name in classes:
        assert f"{photos}/{name}/0.png" in done("predict", folder, photos).out
    assert json.loads(done("compare", folder, "--json").out)[0]["run"] == str(folder)
    done("search", photos, *TINY)
    assert Path("runs/my [bold] phötos-vinnas-1/architecture.json").exists()
    refused("search", photos, "--run", folder, *TINY, error="exists", hint="'runs/[red] rün'")
    npz(Path("x.npz"), pixels(40, 8, 8), np.where(np.arange(40) % 2, "<b>", "[/]"))
    assert "class <b>" in done("check", "x.npz").out


def test_a_line_stays_a_line_and_bytes_that_are_no_text_are_told(data: Path) -> None:
    refused("check", "new\nline", error="'new\\nline'")
    refused("search", data, "--run", "x\udcff", *TINY, error="'x\\udcff' must be a name in UTF-8")


# Folders of runs.


def test_a_folder_that_exists_is_never_written_to(data: Path, run: Path) -> None:
    before = files(run)
    Path("file").write_text("mine")
    Path("folder").mkdir()
    refused("run", data, "--run", run, *TINY, error="exists already", hint="ardor resume")
    refused("search", data, "--run", "file", *TINY, error="'file' exists already", hint="--run")
    refused("search", data, "--run", "folder", *TINY, error="'folder' exists already")
    refused("search", data, "--run", "file/new", *TINY, error="cannot write 'file/new': Not a dir")
    assert files(run) == before
    assert Path("file").read_text() == "mine"
    assert not list(Path("folder").iterdir())


@pytest.mark.parametrize("place", ["/proc/nowhere/run", "/dev/null/run"])
def test_a_place_that_cannot_be_written_to_is_named(data: Path, place: str) -> None:
    refused("search", data, "--run", place, *TINY, error=f"cannot write '{place}'", hint="write to")


def test_what_is_no_run_is_refused_by_every_command(data: Path) -> None:
    Path("file").write_text("mine")
    Path("empty").mkdir()
    stages = ("resume", "train", "prune", "export", "evaluate", "report", "compare")
    for place in ("nowhere", "file", "empty", data):
        for command in stages:
            refused(command, place, error="it has no config.json", hint="'ardor search'")
        refused("predict", place, data, error="it has no config.json")
    refused("show", "nowhere", error="no file 'nowhere'")
    refused("show", "empty", error="no file 'empty/architecture.json'")
    refused("show", "file", error="cannot read 'file'", hint="JSON")
    assert not list(Path("empty").iterdir())


def test_a_run_that_is_not_far_enough_is_told_what_comes_first(
    tmp_path: Path, searched: Path, data: Path, begun: Path
) -> None:
    folder = Path(shutil.copytree(searched, tmp_path / "a run"))
    before = files(folder)
    for command in ("prune", "export", "evaluate"):
        refused(command, folder, error="has no trained network yet", hint="ardor train '")
    refused("prune", folder, "--threshold", "1", error="has no trained network yet")
    refused("predict", folder, data, error="has no trained network yet")
    assert files(folder) == before
    before = files(begun)
    refused("train", begun, error="has no architecture yet", hint=f"ardor resume {begun}")
    refused("train", begun, "--epochs", "2", error="has no architecture yet")
    refused("show", begun, error="architecture.json'")
    assert files(begun) == before


def test_settings_come_too_late_or_are_wrong_and_the_run_stays(
    tmp_path: Path, run: Path, searched: Path
) -> None:
    before = files(run)
    refused("train", run, error="is trained already", hint="new folder")
    refused("train", run, "--epochs", "3", error="is trained already")
    refused("prune", run, "--threshold", "nan", error="prune.threshold = nan must be")
    assert files(run) == before
    folder = Path(shutil.copytree(searched, tmp_path / "searched"))
    before = files(folder)
    for change, error in {
        "search.epochs=9": "'search' cannot change any more",
        "space.channels=9": "'space' cannot change any more",
        "trian.epochs=3": "unknown setting 'trian'",
        "train.epochs=-3": "train.epochs = -3 must be",
        "network.chanels=3": "unknown setting 'network.chanels'",
        "network.states=2": "does not belong to this space",
    }.items():
        refused("train", folder, "--set", change, error=error)
    assert files(folder) == before


ARCHITECTURES: list[tuple[Edit, str]] = [
    (put("kept", "reduce/0>2", value=["conv_9x9"]), "reduce/0>2 has no option 'conv_9x9'"),
    (without("kept", "reduce/0>2"), "choice 'reduce/0>2' is not in both"),
    (put("kept", "reduce/0>2", value=[]), "keeps other edges than those with operations"),
    (put("kept", value=3), "not an architecture"),
    (put("settings", "channels", value=7), "not those in config.json"),
    (put("space", value="other"), "not those in config.json"),
    (put("format", value=2), "format 2; this version reads 1"),
    (lambda content: [content], "not an architecture"),
]


@pytest.mark.parametrize(("change", "error"), ARCHITECTURES, ids=[a[1] for a in ARCHITECTURES])
def test_an_architecture_changed_by_hand_is_not_trained(
    tmp_path: Path, searched: Path, change: Edit, error: str
) -> None:
    folder = Path(shutil.copytree(searched, tmp_path / "run"))
    edit(folder / "architecture.json", change)
    before = files(folder)
    refused("train", folder, error=error)
    refused("train", folder, "--epochs", "2", error=error)
    assert files(folder) == before


def test_an_architecture_of_another_run_or_no_json_is_not_trained(
    tmp_path: Path, searched: Path, data: Path
) -> None:
    folder = Path(shutil.copytree(searched, tmp_path / "run"))
    done("search", data, "--run", "other", *TINY, "--set", "space.channels=3")
    shutil.copy("other/architecture.json", folder)
    refused("train", folder, error="not those in config.json")
    (folder / "architecture.json").write_text('{"format": 1,')
    for command in ("train", "show", "report"):
        refused(command, folder, error="architecture.json'")
    edit(Path("other/architecture.json"), put("probabilities", value={"reduce/0>2": "all"}))
    refused("show", "other", error="probabilities of the architecture must be numbers")


CONFIGS: list[tuple[Edit, str]] = [
    (put("search", "batch", value=0), "search.batch = 0 must be greater"),
    (put("search", "bach", value=8), "unknown setting 'search.bach'"),
    (put("search", value=[]), "search = [] must be settings by name"),
    (put("serch", value={}), "unknown setting 'serch'"),
    (put("seed", value="x"), "seed = 'x' must be a whole number"),
    (put("stages", value=["search", "sleep"]), "hold 'sleep'; must be of search, train"),
    (put("stages", value="search"), "hold 'search'; must be of search, train"),
    (put("format", value=7), "has format 7; this version reads 1"),
    (put("method", "name", value="vinas"), "unknown method 'vinas'"),
    (put("method", "kl_gates", value=-1), "method.kl_gates = -1 must be greater"),
    (put("space", "channels", value="two"), "space.channels = 'two' must be a whole number"),
    (put("space", "classes", value=5), "is 2; this run was made for 5"),
    (put("space", "image", value=[1, 8, 8]), "is (3, 8, 8); this run was made for (1, 8, 8)"),
    (put("network", value={"states": 4}), "change the choice"),
    (put("data", "source", value="gone"), "no such file or folder: 'gone'"),
    (lambda content: [content], "must hold a JSON object"),
]


@pytest.mark.parametrize(("change", "error"), CONFIGS, ids=[c[1] for c in CONFIGS])
def test_a_config_changed_by_hand_is_named(begun: Path, change: Edit, error: str) -> None:
    shutil.rmtree(begun / "checkpoint")
    edit(begun / "config.json", change)
    before = files(begun)
    refused("resume", begun, error=error)
    assert files(begun) == before


def test_a_config_that_is_no_json_is_named(begun: Path) -> None:
    (begun / "config.json").write_text("{")
    refused("resume", begun, error="config.json'", hint="JSON")
    (begun / "config.json").unlink()
    (begun / "config.json").mkdir()
    refused("resume", begun, error="config.json': Is a directory")


METRICS: list[tuple[Edit, str]] = [
    (without("stages"), "must hold numbers"),
    (put("stages", value=3), "must hold numbers"),
    (put("stages", "prune", value=3), "must hold numbers"),
    (put("test_accuracy", value="good"), "must hold numbers"),
    (put("format", value=9), "has format 9"),
    (lambda content: [content], "must hold a JSON object"),
]


@pytest.mark.parametrize(("change", "error"), METRICS)
def test_metrics_changed_by_hand_are_named(run: Path, change: Edit, error: str) -> None:
    edit(run / "metrics.json", change)
    before = files(run)
    for command in ("prune", "resume", "compare", "evaluate", "report"):
        refused(command, run, error=error)
    assert files(run) == before


def test_images_that_are_no_longer_the_same_are_noticed(tmp_path: Path, whole: Path) -> None:
    photos = pictures(Path("photos"), "cat", "dog")
    done("search", photos, "--run", "run", *TINY)
    done("train", "run")
    (photos / "dog").rename(photos / "fox")
    error = "classes of 'photos' are cat, fox; the network was trained for cat, dog"
    refused("evaluate", "run", error=error)
    pictures(photos, "dog")
    refused("evaluate", "run", error="classes of 'photos' is 3; this run was made for 2")
    shutil.rmtree(photos)
    refused("evaluate", "run", error="no such file or folder: 'photos'")


# Checkpoints.


def checkpoints(run: Path) -> list[Path]:
    return sorted((run / "checkpoint").iterdir())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


def forge(path: Path) -> None:
    tensors, facts = runtime.load(path)
    runtime.save(path, tensors, {**facts, "position": "here"})


@pytest.mark.parametrize("damage", [cut, flip, forge, lambda path: path.write_text("junk")])
def test_a_damaged_checkpoint_is_told_and_the_one_before_it_taken(
    begun: Path, searched: Path, damage: Callable[[Path], None]
) -> None:
    damage(checkpoints(begun)[-1])
    said = done("resume", begun)
    assert "search-00003" in said.line("warning")
    assert "going back to the checkpoint before it" in said.line("warning")
    name = "architecture.json"
    assert (begun / name).read_bytes() == (searched / name).read_bytes()


@pytest.mark.parametrize("damage", [cut, flip, forge, lambda path: path.write_text("junk")])
def test_the_only_checkpoint_damaged_is_an_error(
    begun: Path, damage: Callable[[Path], None]
) -> None:
    checkpoints(begun)[0].unlink()
    damage(checkpoints(begun)[0])
    before = files(begun)
    refused("resume", begun, error="search-00003-000000.safetensors'")
    assert files(begun) == before


def test_a_checkpoint_of_other_settings_is_not_taken(begun: Path) -> None:
    edit(begun / "config.json", put("space", "channels", value=3))
    before = files(begun)
    refused("resume", begun, error="does not fit this run", hint="config.json")
    assert files(begun) == before


# Networks and predictions.


def test_what_cannot_be_predicted_is_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "words.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    refused("predict", run, "none.png", error="no such file or folder: 'none.png'", hint="image")
    refused("predict", run, "text.png", error="cannot read image text.png: it is not an image")
    refused("predict", run, "words.txt", error="cannot read image words.txt: it is not an image")
    refused("predict", run, "empty", error="no images in empty", hint="give image files")
    refused("predict", run, "x" * 5000, error="File name too long")


MODELS: list[tuple[Edit, str]] = [
    (put("classes", value=["a", "b", "c"]), "must be 2 different names"),
    (put("classes", value=["a", "a"]), "must be 2 different names"),
    (put("classes", value=3), "are 3; must be 2 different names"),
    (without("classes"), "are None; must be 2 different names"),
    (put("weights", value="variational"), "is absent; must be (2, "),
    (put("architecture", "settings", "channels", value=3), "must be (3, "),
    (without("architecture"), "not an architecture"),
    (put("format", value=2), "has format 2; this version reads 1"),
    (lambda content: [content], "must hold a JSON object"),
]


@pytest.mark.parametrize(("change", "error"), MODELS, ids=[m[1] for m in MODELS])
def test_a_network_changed_by_hand_is_not_used(
    run: Path, data: Path, change: Edit, error: str
) -> None:
    edit(run / "model" / "config.json", change)
    before = files(run)
    refused("predict", run, data, error=error)
    refused("export", run, error=error)
    refused("evaluate", run, error=error)
    assert files(run) == before


def test_damaged_or_foreign_weights_are_not_used(run: Path, data: Path) -> None:
    weights = run / "model" / "model.safetensors"
    shutil.copy(run / "trained" / "model.safetensors", weights)
    refused("predict", run, data, error="must be absent", hint="the same run")
    for damage in (cut, flip):
        damage(weights)
        refused("predict", run, data, error="model/model.safetensors'")
    (run / "model" / "config.json").unlink()
    refused("predict", run, data, error="no file")
    cut(run / "trained" / "model.safetensors")
    before = files(run)
    refused("prune", run, error="trained/model.safetensors'")
    refused("prune", run, "--threshold", "1", error="trained/model.safetensors'")
    assert files(run) == before


# A disk that is full, memory that is short, a hand that stops it.


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_on_a_full_disk_all_stays_as_it_was(
    run: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    before = files(tmp_path)
    monkeypatch.setattr(os, call, full)
    refused("search", data, "--run", "new", *TINY, error="No space left on device", hint="free")
    for command in ("prune", "evaluate", "report"):
        refused(command, run, error="No space left on device", hint="free some space")
    refused("prune", run, "--threshold", "1", error="No space left on device")
    assert files(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_network_that_cannot_be_replaced_stays(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def refuse(source: Path, target: Path) -> None:
        """No room for the new one; the old one may go back."""
        if Path(target).name == "model" and (Path(source) / "config.json").stat().st_mtime > now:
            full()
        rename(source, target)

    before, now = files(run), time.time()
    monkeypatch.setattr(os, "rename", refuse)
    refused("prune", run, error="No space left on device")
    assert files(run) == before


@pytest.mark.parametrize(
    "failure",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to")],
)
def test_short_memory_is_told(
    data: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def search(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr("ardor.stages.search_space", search)
    refused("search", data, *TINY, error="not enough memory", hint="search.accumulate")


def test_a_search_that_diverges_is_told(data: Path) -> None:
    settings = (*TINY, "--set", "search.rate=1e30", "--set", "search.epochs=2")
    refused("search", data, "--run", "new", *settings, error="diverged", hint="search.rate")
    assert not Path("new/architecture.json").exists()


def test_stopped_before_a_run_is_begun_nothing_is_left(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ardor.data.load", load)
    refused("run", data, "--run", "new", *TINY, error="interrupted", hint="again", code=130)
    assert not Path("new").exists()


# The real command.

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-c", "from ardor.__main__ import main; main()"]


def test_interrupted_it_says_how_to_go_on_and_does(data: Path) -> None:
    folder = Path("a run")
    command = [*COMMAND, "search", str(data), "--run", str(folder), *TINY]
    process = subprocess.Popen(
        [*command, "--set", "search.epochs=80"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (folder / "log.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    said = Said(process.returncode, "", err)
    assert said.code == 130, said
    assert "search stopped in epoch" in said.line("error")
    assert said.line("hint") == "hint: nothing is lost: go on with 'ardor resume 'a run''"
    assert not (folder / "architecture.json").exists()
    before = json.loads((folder / "metrics.json").read_text())["stages"]["search"]["seconds"]
    assert before > 0
    done("resume", folder)
    assert (folder / "architecture.json").exists()
    assert json.loads((folder / "metrics.json").read_text())["stages"]["search"]["seconds"] > before


def test_help_is_quick_and_does_not_wait_for_torch() -> None:
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        subprocess.run([*COMMAND, "--help"], check=True, capture_output=True)
        seconds.append(time.perf_counter() - begin)
    assert min(seconds) < 0.5
    code = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules));"
    asked = [sys.executable, "-c", f"{code} from ardor.__main__ import main; main()", "--help"]
    answer = subprocess.run(asked, check=True, capture_output=True, text=True)
    assert answer.stdout.startswith("Usage: ardor")
    assert answer.stdout.endswith("False\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_takes_nothing_is_an_error() -> None:
    with open("/dev/full", "w") as output:
        ended = subprocess.run(
            [*COMMAND, "--help"], stdout=output, stderr=subprocess.PIPE, text=True, check=False
        )
    said = Said(ended.returncode, "", ended.stderr)
    assert said.code == 1
    assert said.line("error") == "error: cannot go on: No space left on device"
    assert said.err.splitlines() == [said.line("error"), said.line("hint")]


# Machines.


def test_json_is_all_there_is_on_stdout(
    data: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    picture = data / "a" / "0.png"
    commands: list[tuple[object, ...]] = [
        *(("list", what) for what in ("methods", "spaces", "data", "presets", "settings")),
        ("check", data),
        ("search", data, "--run", "new", *TINY),
        ("train", "new"),
        ("prune", "new"),
        ("evaluate", "new"),
        ("report", "new"),
        ("resume", "new"),
        ("export", run),
        ("show", run),
        ("compare", run, "new"),
        ("predict", run, picture),
    ]
    for command in commands:
        said = done(*command, "--json")
        assert said.out.count("\n") == 1, command
        assert json.loads(said.out), command


def test_a_bench_in_json_can_be_given_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f'{name} = "{value}"' for name, value in SET.items()]
    grid = tomllib.loads(
        "seeds = 1\n[settings]\nsearch.epochs = 1\ntrain.epochs = 1\n"
        f'data.source = "{data}"\n'
        + "\n".join(lines)
        + '\n[methods.random.method]\nname = "random"'
    )
    monkeypatch.setattr("ardor.benches.grid.file_of", lambda name: grid)
    first = json.loads(done("bench", "tiny", "--json").out)
    assert [row["method"] for row in first["table"]] == ["random"]
    Path("runs/bench/tiny/random-0/metrics.json").unlink()
    again = json.loads(done("bench", "tiny", "--json").out)
    assert again["table"][0]["test_accuracy"] == first["table"][0]["test_accuracy"]
    assert again["table"][0]["params"] is None
