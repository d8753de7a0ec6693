"""CIFAR-10 or CIFAR-100: a folder of the official .bin or Python files; CIFAR-10 also as .npz."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ardor.data.arrays import check_labels, need, read_arrays
from ardor.data.limit import Limit
from ardor.data.pickles import read_plain_pickle
from ardor.data.readers import Labelled, ReadImages, Wanted, arrays_as_images
from ardor.errors import ArdorError

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
AGAIN = "download the set again, or remove the file"


@dataclass(frozen=True)
class Variant:
    """The names of the files of one set of the family."""

    train: tuple[str, ...]
    test: str
    layouts: tuple[str, ...]  # suffixes of its files
    least: int  # of its files by which it is known: "train" alone may be anything
    text: str  # the file with the name of a class on each line
    meta: str  # the Python file with those names
    label_bytes: int  # in front of each binary image; the last of them is the class
    labels: str  # the classes of the images, in the Python files
    label_names: str  # the names of the classes, in the Python file `meta`
    classes: tuple[str, ...]  # the names where no file gives them


CIFAR10 = Variant(
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test="test_batch",
    layouts=(".npz", ".bin", ""),
    least=1,
    text="batches.meta.txt",
    meta="batches.meta",
    label_bytes=1,
    labels="labels",
    label_names="label_names",
    classes=(
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
)

FINE = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange
orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit
raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel
streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip
turtle wardrobe whale willow_tree wolf woman worm
"""

# Its twenty coarse classes are not used: networks learn the hundred fine ones.
CIFAR100 = Variant(
    train=("train",),
    test="test",
    layouts=(".bin", ""),
    least=2,
    text="fine_label_names.txt",
    meta="meta",
    label_bytes=2,
    labels="fine_labels",
    label_names="fine_label_names",
    classes=tuple(FINE.split()),
)


def recognises(path: Path) -> bool:
    """Whether the folder holds one of the sets, in any layout."""
    return any(_held(path))


def read(path: Path, wanted: Wanted) -> ReadImages:
    """The training batches that exist, and the test batch."""
    variant, suffix = next(_held(path))
    files = _batches(path, variant, suffix)
    _check_complete(files, path, variant, suffix)
    classes = _class_names(path, variant)
    # Not in threads: numpy parses headers with `ast`, which Python 3.11 cannot do in two at once.
    *train, test = (_batch(file, suffix, variant, classes, wanted.limit) for file in files)
    pixels, labels = (np.concatenate(arrays) for arrays in zip(*train, strict=True))
    whole = len(variant.train)
    notes = [f"only {len(train)} of {whole} training batches found"] if len(train) < whole else []
    return arrays_as_images(path, (pixels, labels), test, classes=classes, notes=notes)


def _held(path: Path) -> Iterator[tuple[Variant, str]]:
    """The sets that a folder holds, each with the suffix of its files."""
    for variant in (CIFAR10, CIFAR100):
        named = any((path / name).is_file() for name in (variant.text, variant.meta))
        for suffix in variant.layouts:
            there = len(_batches(path, variant, suffix))
            if there and there + named >= variant.least:
                yield variant, suffix


def _check_complete(files: list[Path], path: Path, variant: Variant, suffix: str) -> None:
    """Raise unless there is something to train on and something to test on."""
    test = path / f"{variant.test}{suffix}"
    if test in files and len(files) > 1:
        return
    missing = f"{variant.train[0]}{suffix}" if test in files else test.name
    raise ArdorError(
        f"{path} has no {missing}; must hold training batches and a test batch",
        f"put {missing} into the folder",
    )


def _batches(folder: Path, variant: Variant, suffix: str) -> list[Path]:
    """The batches that exist in one layout, the test batch last."""
    files = [folder / f"{name}{suffix}" for name in (*variant.train, variant.test)]
    return [file for file in files if file.is_file()]


def _class_names(folder: Path, variant: Variant) -> tuple[str, ...]:
    """Names of the classes from the set's own file, or those that everyone knows."""
    text, pickled = folder / variant.text, folder / variant.meta
    if text.is_file():
        return _distinct(text, text.read_bytes().split())
    if pickled.is_file():
        names = read_plain_pickle(pickled, variant.label_names).get(variant.label_names)
        if not isinstance(names, list) or not all(isinstance(n, (str, bytes)) for n in names):
            raise ArdorError(f"{pickled} has no list '{variant.label_names}' of names", AGAIN)
        return _distinct(pickled, names)
    return variant.classes


def _distinct(path: Path, names: Sequence[str | bytes]) -> tuple[str, ...]:
    """The names as text, or an error where two classes have one name."""
    # Bytes that are not UTF-8 are kept as escapes, so that two names never become one.
    texts = [n.decode(errors="backslashreplace") if isinstance(n, bytes) else n for n in names]
    repeated = next((name for name, count in Counter(texts).items() if count > 1), None)
    if repeated is not None:
        raise ArdorError(f"{path} calls two classes '{repeated}'; must be distinct", AGAIN)
    return tuple(texts)


def _batch(
    path: Path, suffix: str, variant: Variant, classes: tuple[str, ...], limit: Limit
) -> Labelled:
    """The images and labels of one file, or an error where they are not those of CIFAR."""
    pixels, labels = LAYOUTS[suffix](path, variant, limit)
    if pixels.dtype != np.uint8 or pixels.shape[1:] != SHAPE:
        raise ArdorError(
            f"images in {path} are {pixels.dtype} {pixels.shape}; must be uint8 (n, 3, 32, 32)",
            AGAIN,
        )
    labels = check_labels(labels, len(pixels), path)
    known = range(len(classes))
    strange = [value for value in np.unique(labels).tolist() if value not in known]
    if strange:
        raise ArdorError(f"label {strange[0]} in {path}; must be 0..{len(classes) - 1}", AGAIN)
    return pixels, labels


def _from_npz(path: Path, variant: Variant, limit: Limit) -> Labelled:
    arrays = read_arrays(path, ("x", "y"), limit)
    return need(arrays, "x", path), need(arrays, "y", path)


def _from_binary(path: Path, variant: Variant, limit: Limit) -> Labelled:
    """Records of label bytes and pixels; there is no header."""
    limit.take(path, path.stat().st_size)
    record = variant.label_bytes + PIXELS
    raw = np.fromfile(path, np.uint8)
    if len(raw) % record or not len(raw):
        raise ArdorError(
            f"{path} is cut short: expected a multiple of {record} bytes, found {len(raw)}", AGAIN
        )
    records = raw.reshape(-1, record)
    return records[:, variant.label_bytes :].reshape(-1, *SHAPE), records[
        :, variant.label_bytes - 1
    ]


def _from_pickle(path: Path, variant: Variant, limit: Limit) -> Labelled:
    """The official Python layout: rows of 3072 bytes under `data`, a list of labels."""
    limit.take(path, path.stat().st_size)
    content = read_plain_pickle(path, "data", variant.labels)
    pixels, labels = content.get("data"), content.get(variant.labels)
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        raise ArdorError(f"{path} has no array 'data' of uint8 (n, {PIXELS})", AGAIN)
    return pixels.reshape(-1, *SHAPE), _integers(labels, path)


def _integers(labels: object, path: Path) -> NDArray[Any]:
    """A list of labels as an array."""
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise ArdorError(f"{path} has no list of integers as its labels", AGAIN)
    if any(abs(label) >= 2**63 for label in labels):
        raise ArdorError(f"a label in {path} has more than 63 bits; must be a class", AGAIN)
    return np.array(labels, np.int64)


LAYOUTS: Mapping[str, Callable[[Path, Variant, Limit], Labelled]] = {
    ".npz": _from_npz,
    ".bin": _from_binary,
    "": _from_pickle,
}
