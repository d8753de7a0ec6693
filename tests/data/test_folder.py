"""Folders of image files: layouts, sizes, every mode of a picture, and broken files."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from standins.arrays import RNG, refused

from ardor.data import Dataset, load, read_pictures
from ardor.data.check import check
from ardor.errors import ArdorError


def noise(*shape: int) -> Image.Image:
    return Image.fromarray(RNG.integers(0, 256, shape, dtype=np.uint8))


def save(image: Image.Image, path: Path, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


def fill(folder: Path, *classes: str, count: int = 5, shape: tuple[int, ...] = (12, 12, 3)) -> Path:
    for name in classes:
        for number in range(count):
            save(noise(*shape), folder / name / f"{number}.png")
    return folder


def single(path: Path, channels: int, side: int = 8) -> torch.Tensor:
    pixels, read = read_pictures([path], (channels, side, side))
    assert read == [path]
    return pixels[0]


def same(one: Dataset, other: Dataset) -> bool:
    pairs = ((one.train, other.train), (one.test, other.test))
    return all(a.pixels.equal(b.pixels) and a.labels.equal(b.labels) for a, b in pairs)


def test_folders_are_classes_and_a_test_set_is_held_out(tmp_path: Path) -> None:
    fill(tmp_path, "eel", "cat", "dog", count=10)
    data = load(str(tmp_path))
    assert data.name == tmp_path.name
    assert data.classes == ("cat", "dog", "eel")
    assert data.shape == (3, 12, 12)
    assert data.train.labels.bincount().tolist() == [8, 8, 8]
    assert data.test.labels.bincount().tolist() == [2, 2, 2]
    assert data.notes == ("test: 20 % of each class, held out",)
    assert same(data, load(str(tmp_path)))
    assert not same(data, load(str(tmp_path), seed=1))


def test_pixels_and_labels_belong_together(tmp_path: Path) -> None:
    for value, name in enumerate(["a", "b", "c"]):
        for number in range(6):
            save(Image.new("RGB", (9, 9), (value, number, 7)), tmp_path / name / f"{number}.bmp")
    data = load(str(tmp_path), test=0.5)
    for part in (data.train, data.test):
        assert part.pixels[:, 0, 4, 4].long().equal(part.labels)
        assert (part.pixels[:, 2] == 7).all()


@pytest.mark.parametrize("held_out", ["test", "val"])
def test_the_own_test_set_of_a_folder_is_used(tmp_path: Path, held_out: str) -> None:
    fill(tmp_path / "train", "cat", "dog", count=3)
    fill(tmp_path / held_out, "cat", "dog", count=2)
    data = load(str(tmp_path))
    assert (len(data.train), len(data.test)) == (6, 4)
    assert data.notes == ()


def test_validation_images_next_to_test_images_are_left_out(tmp_path: Path) -> None:
    for part, count in (("train", 3), ("val", 4), ("test", 2)):
        fill(tmp_path / part, "cat", "dog", count=count)
    data = load(str(tmp_path))
    assert (len(data.train), len(data.test)) == (6, 4)
    assert data.notes == ("left out: val/",)


def test_only_a_train_folder_is_split(tmp_path: Path) -> None:
    fill(tmp_path / "train", "cat", "dog", count=5)
    assert len(load(str(tmp_path)).test) == 2


def test_a_train_can_be_a_class(tmp_path: Path) -> None:
    assert load(str(fill(tmp_path, "train", "bus"))).classes == ("bus", "train")


def test_a_train_folder_without_classes_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "train", "test")
    refused(tmp_path, "train has no folders of images; must have one for each class")


def test_a_class_only_in_the_test_set_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "train", "cat", "dog")
    fill(tmp_path / "test", "cat", "yak")
    refused(tmp_path, "class 'yak' has test images .*, but none to train on")


def test_one_class_only_is_named(tmp_path: Path) -> None:
    refused(fill(tmp_path, "cat"), "has only one class, 'cat'; must have at least two")


def test_a_class_with_too_few_images_is_named_with_its_count(tmp_path: Path) -> None:
    fill(tmp_path, "cat", count=9)
    fill(tmp_path, "dog", count=3)
    refused(tmp_path, "class 'dog' .* has 3 images; must have at least 4 to hold out a test set")


def test_a_folder_without_class_folders_is_refused(tmp_path: Path) -> None:
    save(noise(9, 9), tmp_path / "1.png")
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "readme.txt").write_text("no image")
    assert "cat" in refused(tmp_path, "no images found in").hint


def test_hidden_and_other_files_are_ignored(tmp_path: Path) -> None:
    fill(tmp_path, "cat", "dog")
    twin = load(str(tmp_path))
    (tmp_path / "cat" / "._0.png").write_bytes(b"resource fork")
    (tmp_path / "cat" / "Thumbs.db").write_bytes(b"x")
    (tmp_path / "labels.csv").write_text("x")
    fill(tmp_path / ".cache", "eel")
    fill(tmp_path, ".hidden")
    (tmp_path / "docs").mkdir()
    data = load(str(tmp_path))
    assert same(data, twin)
    assert data.notes == ("left out: docs/", *twin.notes)


def test_hidden_folders_alone_are_no_images(tmp_path: Path) -> None:
    fill(tmp_path, ".cat", ".dog")
    refused(tmp_path, "no images found in")


def test_every_kind_of_file_is_read(tmp_path: Path) -> None:
    kinds = ["png", "JPG", "jpeg", "bmp", "gif", "webp", "tif", "tiff", "ppm", "PNG"]
    for kind in kinds:
        for name in ("cat", "dog"):
            save(noise(10, 10, 3), tmp_path / name / f"1.{kind}")
    for name in ("cat", "dog"):
        save(noise(10, 10), tmp_path / name / "1.pgm")
    data = load(str(tmp_path))
    assert len(data.train) + len(data.test) == 2 * 11
    assert data.shape == (3, 10, 10)
    assert "grey images repeated in RGB" in data.notes


@pytest.mark.parametrize(
    ("shapes", "side"),
    [
        ([(12, 12)], 12),  # equal and square: as they are
        ([(64, 64)], 64),
        ([(100, 100)], 64),  # too large
        ([(20, 30)], 20),  # not square: the shorter side
        ([(10, 40), (60, 20), (50, 30)], 20),  # median of the shorter sides 10, 20, 30
        ([(5, 5)], 8),  # too small
    ],
)
def test_images_come_to_one_stated_size(
    tmp_path: Path, shapes: list[tuple[int, int]], side: int
) -> None:
    for name in ("cat", "dog"):
        for number in range(6):
            save(noise(*shapes[number % len(shapes)]), tmp_path / name / f"{number}.png")
    data = load(str(tmp_path))
    assert data.shape == (1, side, side)
    resized = shapes != [(side, side)]
    assert (f"resized to {side}x{side}" in data.notes) == resized


def test_size_and_channels_can_be_asked_for(tmp_path: Path) -> None:
    fill(tmp_path, "cat", "dog")
    data = load(str(tmp_path), size=16, channels=1)
    assert data.shape == (1, 16, 16)
    assert data.notes[:2] == ("resized to 16x16", "turned grey")
    assert load(str(tmp_path), size=12, channels=3).notes == data.notes[2:]


def test_resizing_covers_and_crops_the_centre_without_aliasing(tmp_path: Path) -> None:
    wide = np.zeros((16, 64), np.uint8)
    wide[:, 20:44] = 200  # a few more columns than the crop, for the filter to reach
    path = save(Image.fromarray(wide), tmp_path / "wide.png")
    assert (single(path, 1) == 200).all()
    checkers = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    path = save(Image.fromarray(checkers), tmp_path / "checkers.png")
    assert (single(path, 1).int() - 127).abs().max() <= 2
    assert read_pictures([path], (3, 10, 20))[0].shape == (1, 3, 10, 20)


def test_grey_needs_every_image_grey(tmp_path: Path) -> None:
    fill(tmp_path, "cat", "dog", shape=(12, 12))
    save(noise(12, 12).convert("1"), tmp_path / "cat" / "bit.png")
    save(noise(12, 12).convert("LA"), tmp_path / "cat" / "alpha.png")
    save(Image.new("I;16", (12, 12)), tmp_path / "cat" / "deep.png")
    assert load(str(tmp_path)).shape == (1, 12, 12)
    save(noise(12, 12, 3), tmp_path / "cat" / "colour.png")
    assert load(str(tmp_path)).shape == (3, 12, 12)


@pytest.mark.parametrize("kind", ["png", "tif", "pgm"])
def test_sixteen_bits_are_scaled_to_eight(tmp_path: Path, kind: str) -> None:
    deep = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    path = save(Image.fromarray(deep), tmp_path / f"deep.{kind}")
    expected = torch.from_numpy(np.rint(deep / 257).astype(np.uint8))
    assert single(path, 1)[0].equal(expected)
    assert single(path, 3)[1].equal(expected)


def test_what_is_transparent_is_laid_on_white(tmp_path: Path) -> None:
    half = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    half.paste((0, 0, 100, 255), (0, 0, 4, 8))
    pixels = single(save(half, tmp_path / "rgba.png"), 3)
    assert pixels[:, 4, 1].tolist() == [0, 0, 100]
    assert pixels[:, 4, 6].tolist() == [255, 255, 255]
    grey = single(save(Image.new("LA", (8, 8), (0, 51)), tmp_path / "la.png"), 1)
    assert grey.unique().tolist() == [204]


@pytest.mark.parametrize("transparency", [1, bytes([255, 0])])
def test_palettes_are_read_with_their_transparency(tmp_path: Path, transparency: Any) -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([10, 20, 30, 200, 0, 0])
    image.paste(1, (4, 0, 8, 8))
    path = save(image, tmp_path / "palette.png", transparency=transparency)
    pixels = single(path, 3)
    assert pixels[:, 0, 0].tolist() == [10, 20, 30]
    assert pixels[:, 0, 7].tolist() == [255, 255, 255]


def test_bits_and_inks_are_read(tmp_path: Path) -> None:
    bits = Image.new("1", (8, 8), 1)
    bits.putpixel((0, 0), 0)
    assert single(save(bits, tmp_path / "bits.png"), 1).unique().tolist() == [0, 255]
    inks = save(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), tmp_path / "inks.tif")
    assert single(inks, 3)[:, 0, 0].tolist() == [255, 0, 0]


def test_the_first_frame_of_a_film_is_taken(tmp_path: Path) -> None:
    frames = [Image.new("L", (8, 8), value) for value in (40, 90)]
    path = save(frames[0], tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    assert single(path, 1).unique().tolist() == [40]


@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_images_are_turned_upright(tmp_path: Path, kind: str) -> None:
    image = Image.new("L", (64, 64), 0)
    image.paste(255, (0, 0, 64, 32))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter: what is stored on top is on the right
    path = save(image, tmp_path / f"turned.{kind}", exif=exif)
    pixels = single(path, 1)[0].float()
    assert pixels[:, :3].mean() < 5
    assert pixels[:, 5:].mean() > 250


def test_a_large_photograph_is_reduced_faithfully(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 1000).astype(np.uint8)[None].repeat(800, 0)
    path = save(Image.fromarray(ramp), tmp_path / "photo.jpg", quality=95)
    centre = torch.linspace(255 * 0.1, 255 * 0.9, 9)
    middles = (centre[1:] + centre[:-1]) / 2
    assert (single(path, 1)[0].float() - middles).abs().max() < 3


def huge_png() -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        )

    head = struct.pack(">IIBBBBB", 50000, 50000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def broken(folder: Path, kind: str) -> bytes:
    whole = save(noise(40, 40, 3), folder.parent / f"{folder.name}.{kind}").read_bytes()
    return whole[: len(whole) // 2]


@pytest.mark.parametrize("kind", ["png", "jpg", "bmp", "tif", "webp", "ppm"])
def test_a_cut_image_is_named_or_skipped(tmp_path: Path, kind: str) -> None:
    folder = fill(tmp_path / "set", "cat", "dog")
    twin = load(str(folder))
    (folder / "dog" / f"cut.{kind}").write_bytes(broken(folder, kind))
    error = refused(folder, f"cannot read image .*cut.{kind}: ")
    assert "data.skip_broken=true" in error.hint
    data = load(str(folder), skip_broken=True)
    assert same(data, twin)
    assert f"skipped 1 broken: dog/cut.{kind}" in data.notes


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not an image"),
        (b"hello", "it is not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "it is not an image"),
        (huge_png(), "exceeds limit"),
    ],
)
def test_what_is_no_image_is_named_or_skipped(tmp_path: Path, content: bytes, reason: str) -> None:
    fill(tmp_path, "cat", "dog")
    (tmp_path / "cat" / "bad.png").write_bytes(content)
    refused(tmp_path, f"cannot read image .*bad.png: .*{reason}")
    assert "skipped 1 broken: cat/bad.png" in load(str(tmp_path), skip_broken=True).notes


def test_floating_point_pixels_are_refused(tmp_path: Path) -> None:
    path = save(Image.new("F", (8, 8)), tmp_path / "float.tif")
    with pytest.raises(ArdorError, match="floating-point pixels"):
        read_pictures([path], (1, 8, 8))


def test_many_broken_files_are_counted(tmp_path: Path) -> None:
    fill(tmp_path, "cat", "dog")
    for number in range(13):
        (tmp_path / "cat" / f"bad{number:02}.png").write_bytes(b"x")
    note = load(str(tmp_path), skip_broken=True).notes[0]
    assert note.startswith("skipped 13 broken: cat/bad00.png, ")
    assert note.endswith(" and 3 more")


def test_a_class_or_a_set_of_only_broken_files_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "cat", "dog")
    (tmp_path / "eel").mkdir()
    (tmp_path / "eel" / "1.png").write_bytes(b"x")
    refused(tmp_path, "class 'eel' .* has 0 images", skip_broken=True)
    for file in tmp_path.glob("*/*.png"):
        file.write_bytes(b"x")
    refused(tmp_path, "no image in .* can be read", skip_broken=True)


def test_pictures_are_read_in_the_order_given(tmp_path: Path) -> None:
    paths = [
        save(Image.new("L", (8, 8), value), tmp_path / f"{9 - value}.png") for value in range(5)
    ]
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"x")
    pixels, read = read_pictures([*paths[:2], bad, *paths[2:]], (1, 8, 8), skip_broken=True)
    assert pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert read == paths
    pixels, read = read_pictures([], (3, 8, 8))
    assert (pixels.shape, read) == ((0, 3, 8, 8), [])
    with pytest.raises(ArdorError, match="no such file"):
        read_pictures([tmp_path / "absent.png"], (1, 8, 8))
    with pytest.raises(ArdorError, match="2 channels; must be 1 or 3"):
        read_pictures(paths, (2, 8, 8))


def test_check_finds_the_same_picture_in_training_and_test(tmp_path: Path) -> None:
    fill(tmp_path / "train", "cat", "dog", count=10)
    image = (tmp_path / "train" / "cat" / "0.png").read_bytes()
    fill(tmp_path / "test", "cat", "dog", count=2)
    (tmp_path / "test" / "dog" / "copy.png").write_bytes(image)
    summary = check(load(str(tmp_path)))
    assert summary.classes == {"cat": (10, 2), "dog": (10, 3)}
    assert summary.problems == ["1 of 5 test images are also in training"]
