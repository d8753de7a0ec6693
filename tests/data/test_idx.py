"""IDX files, plain and packed: MNIST's folders."""

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins.arrays import labels, pixels, refused

from ardor.data import load


def idx(array: np.ndarray[Any, Any], magic: int | None = None) -> bytes:
    head = struct.pack(">I", 0x0800 + array.ndim if magic is None else magic)
    return head + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(folder: Path, *, train: int = 40, test: int = 20, mark: str = "-") -> None:
    for part, count in (("train", train), ("t10k", test)):
        (folder / f"{part}-images{mark}idx3-ubyte").write_bytes(idx(pixels(count, 12, 9)))
        (folder / f"{part}-labels{mark}idx1-ubyte").write_bytes(idx(labels(count)))


@pytest.mark.parametrize("mark", ["-", "."])
@pytest.mark.parametrize("packed", [False, True])
def test_idx_folders_are_read_in_every_spelling(tmp_path: Path, mark: str, packed: bool) -> None:
    write_idx(tmp_path, mark=mark)
    twin = load(str(tmp_path))
    if packed:
        for file in list(tmp_path.iterdir()):
            Path(f"{file}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
    data = load(str(tmp_path))
    assert data.shape == (1, 12, 9)
    assert (len(data.train), len(data.test)) == (40, 20)
    assert data.classes == tuple("0123456789")
    assert data.train.pixels.equal(twin.train.pixels)
    assert data.notes == ()


def test_idx_files_with_faults_are_named(tmp_path: Path) -> None:
    write_idx(tmp_path)
    file = tmp_path / "train-images-idx3-ubyte"
    good = file.read_bytes()
    file.write_bytes(good[:-5])
    refused(tmp_path, f"train-images.* is cut short: expected {len(good)} bytes, found ")
    file.write_bytes(good[:10])
    refused(tmp_path, "cut short: expected 16 bytes, found 10")
    file.write_bytes(good + b"x")
    refused(tmp_path, f"too long: expected {len(good)} bytes, found {len(good) + 1}")
    file.write_bytes(idx(pixels(40, 12, 9), magic=2049))
    refused(tmp_path, "starts with the number 2049; must be 2051")
    file.write_bytes(idx(pixels(39, 12, 9)))
    refused(tmp_path, "train has 39 images, but 40 labels; must be equal")
    file.unlink()
    refused(tmp_path, "has no train-images-idx3-ubyte")


def test_packed_idx_files_with_faults_are_named(tmp_path: Path) -> None:
    write_idx(tmp_path)
    plain = tmp_path / "t10k-images-idx3-ubyte"
    packed = Path(f"{plain}.gz")
    good = gzip.compress(plain.read_bytes())
    plain.unlink()
    packed.write_bytes(good[: len(good) // 2])
    refused(tmp_path, "t10k-images-idx3-ubyte.gz is cut short")
    packed.write_bytes(b"not packed at all")
    refused(tmp_path, "t10k-images-idx3-ubyte.gz is damaged")
    packed.write_bytes(good[:20] + bytes(40) + good[60:])
    refused(tmp_path, "t10k-images-idx3-ubyte.gz is (damaged|cut short|too long)")


def test_test_labels_must_occur_in_training(tmp_path: Path) -> None:
    write_idx(tmp_path)
    strange = np.full(20, 11, np.uint8)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(strange))
    refused(tmp_path, "label 11 occurs in the test images of .*, but not in training")


def test_a_set_without_images_or_with_one_class_is_refused(tmp_path: Path) -> None:
    write_idx(tmp_path, train=0, test=0)
    refused(tmp_path, "holds no images")
    write_idx(tmp_path, train=1, test=1)
    refused(tmp_path, "has only one class, '0'")
