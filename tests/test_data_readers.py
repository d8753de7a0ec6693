"""Array sources: idx, CIFAR, npz; how a source is found; what `check` says."""

import gzip
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ardor.data import Dataset, Normalise, describe, load, names
from ardor.data.check import check
from ardor.data.pickles import ADMITTED
from ardor.data.readers.cifar import CIFAR100
from ardor.errors import ArdorError

DATA = Path(os.environ.get("ARDOR_DATA", Path(__file__).parents[2] / "shared" / "data"))
RNG = np.random.default_rng(0)


def pixels(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def labels(count: int, classes: int = 10) -> np.ndarray[Any, Any]:
    return (np.arange(count) % classes).astype(np.uint8)


def refused(source: object, match: str, **settings: Any) -> ArdorError:
    with pytest.raises(ArdorError, match=match) as caught:
        load(str(source), **settings)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    return caught.value


def test_every_reader_is_listed_with_a_line() -> None:
    assert names() == ["cifar", "digits", "folder", "idx", "npz"]
    assert list(describe()) == names()
    assert all(line.endswith(".") and "\n" not in line for line in describe().values())


def test_a_source_that_is_not_there_is_answered_with_the_way_out(tmp_path: Path) -> None:
    assert "did you mean 'digits'?" in refused("digit", "no such file or folder: 'digit'").hint
    assert "digits" in refused(tmp_path / "absent", "no such file or folder").hint
    assert "path" in refused("cifar", "'cifar' is a kind of data, not a place").hint
    refused("", "no such file or folder: ''")
    refused("~nobody-of-that-name/x", "no such file or folder")


def test_a_source_that_no_reader_knows_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "images.zip"
    file.write_bytes(b"PK")
    refused(file, "cannot tell what .*images.zip holds")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no images found in .*empty")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"size": 5}, "size is 5; must be 0 or at least 8"),
        ({"size": -1}, "size is -1"),
        ({"channels": 2}, "channels is 2; must be 0, 1 or 3"),
        ({"test": 0.0}, "test is 0.0; must lie between 0 and 1"),
        ({"test": 1.5}, "test is 1.5"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], match: str) -> None:
    refused("digits", match, **settings)


def test_size_and_colour_of_arrays_can_be_asked_for() -> None:
    plain, large = load("digits"), load("digits", size=16, channels=3)
    assert large.shape == (3, 16, 16)
    assert large.notes[:2] == ("resized to 16x16", "grey images repeated in RGB")
    assert large.train.pixels[:, 0].equal(large.train.pixels[:, 2])
    means = [data.train.pixels.float().mean() for data in (plain, large)]
    assert abs(means[0] - means[1]) < 3


def test_colour_becomes_grey_as_pillow_does_it(tmp_path: Path) -> None:
    from PIL import Image

    x = pixels(20, 9, 9, 3)
    np.savez(tmp_path / "a.npz", x=x, y=labels(20, 2), x_test=x[:2], y_test=labels(2))
    grey = load(str(tmp_path / "a.npz"), channels=1)
    twin = np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in x])
    assert grey.notes == ("turned grey",)
    assert np.array_equal(grey.train.pixels[:, 0].numpy(), twin)


def test_images_that_are_not_square_are_covered_and_cropped(tmp_path: Path) -> None:
    x = np.zeros((8, 10, 40), np.uint8)
    x[:, :, 15:25] = 200
    np.savez(tmp_path / "wide.npz", x=x, y=labels(8, 2))
    data = load(str(tmp_path / "wide.npz"), size=10)
    assert data.shape == (1, 10, 10)
    assert (data.train.pixels == 200).all()


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
    refused(tmp_path, "t10k-images-idx3-ubyte.gz is (damaged|cut short)")


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


class Poison:
    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.recipe = call, arguments

    def __reduce__(self) -> Any:
        return self.recipe


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


def test_check_counts_classes_and_finds_nothing_wrong_with_good_data() -> None:
    summary = check(load("digits"))
    assert summary.name == "digits"
    assert summary.shape == (1, 8, 8)
    assert list(summary.classes) == list("0123456789")
    assert sum(train + test for train, test in summary.classes.values()) == 1797
    assert summary.problems == []


def test_check_warns_in_plain_words(tmp_path: Path) -> None:
    x, y = pixels(120, 9, 9), np.array([0] * 110 + [1] * 6 + [2] * 4)
    x[:3] = 7
    np.savez(tmp_path / "a.npz", x=x, y=y, x_test=x[[5, 6, 119]], y_test=[0, 0, 1])
    assert check(load(str(tmp_path / "a.npz"))).problems == [
        "strong imbalance: class '0' has 110 training images, class '2' has 4",
        "fewer than 10 images in classes '1', '2'",
        "no test images in class '2'",
        "3 of 3 test images are also in training",
        "3 images are of one single colour value",
    ]


def test_check_raises_as_load_does() -> None:
    with pytest.raises(ArdorError, match="no such file or folder"):
        check(load("/nowhere"))


def real(name: str) -> Dataset:
    if not (DATA / name).is_dir():
        pytest.skip(f"{DATA / name} is absent")
    return load(str(DATA / name))


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "mean", "std", "ones"),
    [("mnist", 0.1307, 0.3081, 6742), ("fashion-mnist", 0.2860, 0.3530, 6000)],
)
def test_mnist_and_fashion_are_whole(name: str, mean: float, std: float, ones: int) -> None:
    data = real(name)
    assert (len(data.train), len(data.test)) == (60000, 10000)
    assert data.shape == (1, 28, 28)
    assert int(data.train.labels.bincount()[1]) == ones
    layer = Normalise.of(data.train)
    assert layer.mean.item() / 255 == pytest.approx(mean, abs=5e-5)
    assert layer.std.item() / 255 == pytest.approx(std, abs=5e-5)


@pytest.mark.data
def test_cifar10_has_its_published_mean_and_deviation() -> None:
    data = real("cifar10")
    assert (len(data.train), len(data.test)) == (50000, 10000)
    assert data.train.labels.bincount().tolist() == [5000] * 10
    layer = Normalise.of(data.train)
    expected = torch.tensor([[0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]])
    measured = torch.stack([layer.mean.flatten(), layer.std.flatten()]) / 255
    torch.testing.assert_close(measured, expected, atol=5e-5, rtol=0)
