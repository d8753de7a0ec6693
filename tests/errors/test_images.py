"""Images: those that cannot be learned from are refused, all others read."""

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from standins.user import RNG, TINY, done, pictures, png, refused


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
    pictures(Path("odd"), "a", "b\udcff")
    refused("run", "odd", *TINY, error="class 'b\\udcff' in", hint="rename its folder")


def test_what_images_may_take_of_the_memory_can_be_set(data: Path) -> None:
    limit = ("--set", "data.size=1024", "--set", "data.memory=0.5MB")
    error, hint = "needs 72 MB of memory; 0 MB are allowed", "--set data.memory=1GB"
    refused("check", data, *limit, error=error, hint=hint)
    refused("search", data, "--run", "new", *TINY, *limit, error=error, hint=hint)
    assert not Path("new").exists()
    done("check", data, *limit[:2], "--set", "data.memory=1GB")
    for value in ("lots", "2XB", "-1", "true", "9" * 400 + "GB"):
        refused("check", data, "--set", f"data.memory={value}", error="data.memory = ")


def test_things_that_never_end_are_no_images(data: Path, tmp_path: Path) -> None:
    photos = Path(shutil.copytree(data, tmp_path / "photos"))
    for name in ("pipe.png", "train", "data_batch_1", "train-images-idx3-ubyte"):
        os.mkfifo(photos / name)
    os.mkfifo(photos / "a" / "pipe.png")
    assert json.loads(done("check", "photos", "--json").out)["classes"] == {
        "a": [5, 1],
        "b": [5, 1],
    }
    os.mkfifo("pipe.npz")
    refused("check", "pipe.npz", error="cannot tell what")
    refused("check", "/dev/zero", error="cannot tell what")
