"""CIFAR-10 and CIFAR-100 in every layout; pickles that admit arrays and nothing else."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins.arrays import Poison, labels, pixels, refused

from ardor.data import load
from ardor.data.pickles import ADMITTED
from ardor.data.readers.cifar import CIFAR100


def write_npz(folder: Path, name: str, x: Any, y: Any) -> None:
    np.savez(folder / f"{name}.npz", x=x, y=y)


def write_binary(folder: Path, name: str, x: Any, y: Any) -> None:
    records = np.concatenate([y.astype(np.uint8)[:, None], x.reshape(len(x), -1)], 1)
    (folder / f"{name}.bin").write_bytes(records.tobytes())


def write_pickle(folder: Path, name: str, x: Any, y: Any) -> None:
    content = {b"data": x.reshape(len(x), -1), b"labels": y.tolist(), b"batch_label": b"batch"}
    (folder / name).write_bytes(pickle.dumps(content, protocol=2))


WRITERS = [write_npz, write_binary, write_pickle]


def write_cifar(folder: Path, write: Callable[..., None], batches: int = 5) -> Any:
    x, y = pixels(20 * batches, 3, 32, 32), labels(20 * batches)
    for number in range(batches):
        part = slice(20 * number, 20 * (number + 1))
        write(folder, f"data_batch_{number + 1}", x[part], y[part])
    write(folder, "test_batch", x[:10], y[:10])
    return x, y


@pytest.mark.parametrize("write", WRITERS)
def test_cifar_is_read_in_each_layout(tmp_path: Path, write: Callable[..., None]) -> None:
    x, y = write_cifar(tmp_path, write)
    data = load(str(tmp_path))
    assert np.array_equal(data.train.pixels.numpy(), x)
    assert np.array_equal(data.train.labels.numpy(), y)
    assert np.array_equal(data.test.pixels.numpy(), x[:10])
    assert data.classes[:3] == ("airplane", "automobile", "bird")
    assert data.notes == ()


def test_cifar_class_names_come_from_the_set(tmp_path: Path) -> None:
    write_cifar(tmp_path, write_binary)
    (tmp_path / "batches.meta.txt").write_text("\n".join("abcdefghij") + "\n\n")
    assert load(str(tmp_path)).classes == tuple("abcdefghij")
    (tmp_path / "batches.meta.txt").write_text("a\nb\n")
    refused(tmp_path, "label 2 in .*data_batch_1.bin; must be 0..1")


def test_cifar_class_names_come_from_the_python_file(tmp_path: Path) -> None:
    write_cifar(tmp_path, write_pickle)
    meta = {b"label_names": [letter.encode() for letter in "abcdefghij"]}
    (tmp_path / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))
    assert load(str(tmp_path)).classes == tuple("abcdefghij")


@pytest.mark.parametrize("write", WRITERS)
def test_part_of_cifar_is_read_with_a_note(tmp_path: Path, write: Callable[..., None]) -> None:
    write_cifar(tmp_path, write, batches=1)
    data = load(str(tmp_path))
    assert len(data.train) == 20
    assert data.notes == ("only 1 of 5 training batches found",)


def test_cifar_without_test_or_training_batch_is_refused(tmp_path: Path) -> None:
    write_cifar(tmp_path, write_npz)
    (tmp_path / "test_batch.npz").rename(tmp_path / "aside")
    refused(tmp_path, "has no test_batch.npz")
    (tmp_path / "aside").rename(tmp_path / "test_batch.npz")
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}.npz").unlink()
    refused(tmp_path, "has no data_batch_1.npz")


def test_cifar_files_with_faults_are_named(tmp_path: Path) -> None:
    write_cifar(tmp_path, write_npz)
    file = tmp_path / "data_batch_2.npz"
    write_npz(tmp_path, "data_batch_2", pixels(5, 3, 28, 28), labels(5))
    refused(
        tmp_path, r"data_batch_2.npz are uint8 \(5, 3, 28, 28\); must be uint8 \(n, 3, 32, 32\)"
    )
    write_npz(tmp_path, "data_batch_2", pixels(5, 3, 32, 32), labels(4))
    refused(tmp_path, r"data_batch_2.npz are uint8 \(4,\); must be integers .* of 5 images")
    write_npz(tmp_path, "data_batch_2", pixels(5, 3, 32, 32), labels(5) + 10)
    refused(tmp_path, "label 10 in .*data_batch_2.npz; must be 0..9")
    np.savez(file, y=labels(5))
    refused(tmp_path, "data_batch_2.npz holds no array 'x'")
    file.write_bytes(file.read_bytes()[:60])
    refused(tmp_path, "cannot read .*data_batch_2.npz")


def test_binary_and_python_batches_with_faults_are_named(tmp_path: Path) -> None:
    write_cifar(tmp_path, write_binary)
    file = tmp_path / "data_batch_3.bin"
    file.write_bytes(file.read_bytes()[:-100])
    refused(tmp_path, "data_batch_3.bin is cut short: expected a multiple of 3073 bytes")
    for old in tmp_path.iterdir():
        old.unlink()
    write_cifar(tmp_path, write_pickle)
    file = tmp_path / "data_batch_3"
    good = file.read_bytes()
    for bad, match in [
        (good[:-100], "refused to read the pickle .*data_batch_3"),
        (b"", "refused to read the pickle"),
        (pickle.dumps([1, 2]), "must hold a dictionary"),
        (pickle.dumps({"labels": [1]}), "has no array 'data'"),
        (pickle.dumps({"data": np.zeros((2, 3072)), "labels": [1, 2]}, 2), "kind uint8"),
        (pickle.dumps({"data": pixels(2, 3072), "labels": "ab"}, 2), "no list of integers"),
    ]:
        file.write_bytes(bad)
        refused(tmp_path, match)


def write_cifar100(folder: Path, layout: str, names: tuple[str, ...] = ()) -> Any:
    """Tiny official files: `y` holds coarse labels, then fine ones."""
    x, y = pixels(40, 3, 32, 32), np.stack([labels(40, 20), labels(40, 20) + 80], 1)
    for name, part in (("train", slice(40)), ("test", slice(20))):
        coarse, fine = y[part].T.tolist()
        if layout == ".bin":
            records = np.concatenate([y[part], x[part].reshape(len(x[part]), -1)], 1)
            (folder / f"{name}.bin").write_bytes(records.tobytes())
        else:
            content = {b"data": x[part].reshape(-1, 3072), b"filenames": [b"a.png"]}
            content |= {b"coarse_labels": coarse, b"fine_labels": fine}
            (folder / name).write_bytes(pickle.dumps(content, protocol=2))
    if names and layout == ".bin":
        (folder / "fine_label_names.txt").write_text("\n".join(names) + "\n")
        (folder / "coarse_label_names.txt").write_text("people\ntrees\n")
    elif names:
        meta = {b"coarse_label_names": [b"trees"], b"fine_label_names": [n.encode() for n in names]}
        (folder / "meta").write_bytes(pickle.dumps(meta, protocol=2))
    return x, y


@pytest.mark.parametrize("layout", [".bin", ""])
def test_cifar100_is_read_with_its_fine_labels_in_both_layouts(tmp_path: Path, layout: str) -> None:
    x, y = write_cifar100(tmp_path, layout)
    data = load(str(tmp_path))
    assert np.array_equal(data.train.pixels.numpy(), x)
    assert np.array_equal(data.train.labels.numpy() + 80, y[:, 1])  # the classes that occur
    assert np.array_equal(data.test.pixels.numpy(), x[:20])
    assert (data.classes[0], data.classes[10], data.classes[-1]) == ("squirrel", "train", "worm")
    assert data.notes == ()
    assert len(set(CIFAR100.classes)) == 100
    assert list(CIFAR100.classes) == sorted(CIFAR100.classes)


@pytest.mark.parametrize("layout", [".bin", ""])
def test_cifar100_class_names_come_from_the_set(tmp_path: Path, layout: str) -> None:
    names = tuple(f"kind_{number}" for number in range(100))
    write_cifar100(tmp_path, layout, names)
    assert load(str(tmp_path)).classes == names[80:]


def test_cifar100_files_with_faults_are_named(tmp_path: Path) -> None:
    write_cifar100(tmp_path, ".bin", ("a", "b"))
    refused(tmp_path, "label 80 in .*train.bin; must be 0..1")
    (tmp_path / "test.bin").unlink()
    refused(tmp_path, "has no test.bin")
    write_cifar100(tmp_path, ".bin")
    (tmp_path / "train.bin").write_bytes((tmp_path / "train.bin").read_bytes()[:-1])
    refused(tmp_path, "train.bin is cut short: expected a multiple of 3074 bytes")
    for old in tmp_path.iterdir():
        old.unlink()
    write_cifar100(tmp_path, "")
    write_pickle(tmp_path, "train", pixels(4, 3, 32, 32), labels(4))  # CIFAR-10's has `labels`
    refused(tmp_path, "train has no list of integers as its labels")
    (tmp_path / "meta").write_bytes(pickle.dumps({"fine_label_names": 3}))
    refused(tmp_path, "meta has no list 'fine_label_names'")
    (tmp_path / "meta").write_bytes(b"no pickle")
    refused(tmp_path, "refused to read the pickle .*meta")


def test_a_file_called_train_is_not_yet_cifar100(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(b"weights")
    refused(tmp_path, "no images found in")


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("call", [os.mkdir, eval, np.load, getattr])
def test_a_poisoned_pickle_is_refused_and_does_nothing(
    tmp_path: Path, call: Callable[..., Any], protocol: int
) -> None:
    write_cifar(tmp_path, write_pickle)
    trace = tmp_path / "trace"
    arguments = {eval: (f"__import__('os').mkdir({str(trace)!r})",), os.mkdir: (str(trace),)}
    poison = Poison(call, *arguments.get(call, (str(trace), "x")))
    content = {b"data": pixels(2, 3072), b"labels": [0, 1], b"more": poison}
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(content, protocol=protocol))
    refused(tmp_path, "refused to read the pickle .*data_batch_1: it asks for .* not plain data")
    assert not trace.exists()


def test_a_pickle_cannot_change_how_the_next_one_is_read(tmp_path: Path) -> None:
    write_cifar(tmp_path, write_pickle, batches=1)
    # BUILD with a slot state sets attributes on what lies on the stack: here on a function.
    spoil = b"\x80\x02c_codecs\nencode\nN}X\x06\x00\x00\x00spoiltK\x01s\x86b."
    (tmp_path / "data_batch_2").write_bytes(spoil)
    refused(tmp_path, "refused to read the pickle .*must hold a dictionary")
    assert not hasattr(ADMITTED["_codecs", "encode"], "spoilt")


DOUBLING = b")" + b"2\x86" * 100  # pairs of pairs: a hundred deep, and 2 ** 100 of them


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02}" + DOUBLING + b"K\x01s.",
        b"\x80\x02(" + DOUBLING + b"K\x01d.",
        b"\x80\x02}(" + DOUBLING + b"K\x01u.",
        b"\x80\x04(" + DOUBLING + b"\x91.",  # a frozen set of them
        b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b".",  # a byte array, so it says
        b"\x80\x02c_codecs\nencode\n2X\x03\x00\x00\x00abcX\x06\x00\x00\x00latin1\x86q\x01R0"
        + b"c_codecs\nencode\nq\x00"
        + b"h\x00h\x01R" * 90
        + b".",
    ],
)
def test_a_pickle_cannot_take_for_ever_or_all_memory(tmp_path: Path, content: bytes) -> None:
    write_cifar(tmp_path, write_pickle, batches=1)
    (tmp_path / "data_batch_1").write_bytes(content)
    refused(tmp_path, "refused to read the pickle .*data_batch_1: (the keys|it )")


def test_labels_and_class_names_that_are_none_are_told(tmp_path: Path) -> None:
    write_cifar(tmp_path, write_pickle, batches=1)
    batch, meta = tmp_path / "data_batch_1", tmp_path / "batches.meta"
    good = batch.read_bytes()
    for label, match in [
        (10**30, "a label in .*data_batch_1 has more than 63 bits"),
        (10**5000, "a label in .*data_batch_1 has more than 63 bits"),
        (-1, "label -1 in .*data_batch_1; must be 0..9"),
    ]:
        content = {"data": pixels(20, 3072), "labels": [label] * 20}
        batch.write_bytes(pickle.dumps(content, protocol=2))
        refused(tmp_path, match)
    batch.write_bytes(good)
    letters = [letter.encode() for letter in "abcdefghi"]
    meta.write_bytes(pickle.dumps({"label_names": [*letters, b"\xff"]}, protocol=2))
    assert load(str(tmp_path)).classes[-1] == "\\xff"
    meta.write_bytes(pickle.dumps({"label_names": [*letters, b"a"]}, protocol=2))
    refused(tmp_path, "batches.meta calls two classes 'a'")
    meta.write_bytes(pickle.dumps({"label_names": [*letters, ()]}, protocol=2))
    refused(tmp_path, "batches.meta has no list 'label_names' of names")
