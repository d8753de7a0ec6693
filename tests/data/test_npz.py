"""Arrays in .npz files."""

import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins.arrays import Poison, labels, pixels, refused

from ardor.data import load


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((10, 12), (1, 10, 12)), ((3, 10, 12), (3, 10, 12)), ((10, 12, 3), (3, 10, 12))],
)
def test_npz_images_may_come_in_any_usual_order(
    tmp_path: Path, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    x = pixels(30, *shape)
    file = tmp_path / "mine.npz"
    np.savez(file, x=x, y=labels(30, 3))
    data = load(str(file))
    assert data.name == "mine"
    assert data.shape == expected
    assert (len(data.train), len(data.test)) == (24, 6)
    assert data.test.labels.bincount().tolist() == [2, 2, 2]
    np.savez(file, x_train=x, y_train=labels(30, 3)[:, None], x_test=x[:5], y_test=labels(5, 3))
    data = load(str(file))
    assert len(data.test) == 5
    twin = x[7].transpose(2, 0, 1) if shape[-1] == 3 else x[7].reshape(expected)
    assert np.array_equal(data.train.pixels[7].numpy(), twin)


def test_npz_classes_are_the_labels_that_occur(tmp_path: Path) -> None:
    file = tmp_path / "named.npz"
    np.savez(file, x=pixels(12, 8, 8), y=np.array(["dog", "cat", "eel"] * 4))
    assert load(str(file)).classes == ("cat", "dog", "eel")
    x, y = pixels(12, 8, 8), np.array([3, 30, 300] * 4)
    np.savez(file, x=x, y=y, x_test=x[:2], y_test=[300, 30])
    data = load(str(file))
    assert data.test.labels.tolist() == [2, 1]
    assert data.classes == ("3", "30", "300")
    assert data.train.labels.unique().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"x": np.zeros((8, 9, 9)), "y": labels(8)}, "x in .* is float64; must be uint8"),
        ({"x": pixels(8, 9, 9, 4), "y": labels(8)}, r"x in .* has shape \(8, 9, 9, 4\)"),
        ({"x": pixels(8, 9), "y": labels(8)}, r"x in .* has shape \(8, 9\)"),
        ({"x": pixels(8, 9, 9), "y": labels(7)}, "one for each of 8 images"),
        ({"x": pixels(8, 9, 9), "y": np.zeros(8)}, "labels in .* are float64"),
        ({"x": pixels(8, 9, 9), "y": np.eye(8, dtype=int)}, r"int64 \(8, 8\)"),
        ({"x": pixels(8, 9, 9)}, "holds no array 'y'"),
        ({"images": pixels(8, 9, 9)}, "holds no array 'x'"),
        ({"x": pixels(8, 9, 9), "y": labels(8, 1)}, "has only one class, '0'"),
        ({"x": pixels(0, 9, 9), "y": labels(0)}, "holds no images"),
        ({"x": pixels(7, 9, 9), "y": labels(7, 2)}, "class '1' in .* has 3 images; .* at least 4"),
        ({"x": pixels(8, 9, 9), "y": labels(8, 2), "x_test": pixels(2, 9, 9)}, "array 'y_test'"),
        (
            {"x": pixels(8, 9, 9), "y": labels(8, 2), "x_test": pixels(2, 8, 8), "y_test": [0, 1]},
            r"are \(1, 9, 9\) in training, but \(1, 8, 8\)",
        ),
        (
            {"x": pixels(8, 9, 9), "y": labels(8, 2), "x_test": pixels(2, 9, 9), "y_test": [0, 5]},
            "label 5 occurs in the test images",
        ),
    ],
)
def test_npz_files_with_faults_are_refused(
    tmp_path: Path, arrays: dict[str, Any], match: str
) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    refused(tmp_path / "bad.npz", match)


def test_npz_files_are_never_unpickled(tmp_path: Path) -> None:
    file, trace = tmp_path / "bad.npz", tmp_path / "trace"
    poison = np.array([Poison(os.mkdir, str(trace))], dtype=object)
    np.savez(file, x=pixels(8, 9, 9), y=poison)
    refused(file, "cannot read .*bad.npz: Object arrays cannot be loaded")
    file.write_bytes(pickle.dumps(Poison(os.mkdir, str(trace))))
    refused(file, "cannot read .*bad.npz")
    assert not trace.exists()


def test_npz_files_that_are_none_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "bad.npz"
    np.savez_compressed(file, x=pixels(50, 9, 9), y=labels(50))
    good = file.read_bytes()
    for bad in (b"", b"hello", good[:500], good[:300] + bytes(50) + good[350:]):
        file.write_bytes(bad)
        refused(file, "cannot read .*bad.npz")
    with file.open("wb") as handle:
        np.save(handle, pixels(3, 9, 9))
    refused(file, "single array without a name")


def header(shape: str, kind: str = "'|u1'", content: bytes = b"") -> bytes:
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


@pytest.mark.parametrize(
    ("member", "match"),
    [
        (b"hello", "x.npy is no array"),
        (b"", "x.npy is no array"),
        (header("[" * 5000), "x.npy is no array"),
        (header("-" * 9000 + "1"), "x.npy is no array"),
        (header(f"({10**30}, 9, 9)"), "x.npy is not as long as its shape"),
        (header("(-8, -9, 9)", content=bytes(648)), "x.npy is not as long as its shape"),
        (header("(8, 9, 9)", content=bytes(649)), "x.npy is not as long as its shape"),
    ],
)
def test_members_that_are_no_arrays_are_told(tmp_path: Path, member: bytes, match: str) -> None:
    file = tmp_path / "bad.npz"
    np.savez(file, y=labels(8, 2))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("x.npy", member)
    refused(file, f"cannot read .*bad.npz: {match}")
