"""A summary of a data set, with warnings about problems for learning from it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ardor.data.images import Dataset, Images
from ardor.data.left_out import LeftOut

IMBALANCE = 10  # times as many images in the largest class as in the smallest
FEW = 10  # a class with fewer images is too small to measure anything


@dataclass(frozen=True)
class Summary:
    """Counts of each class, training then test; `problems` are warnings, not failures."""

    name: str
    classes: Mapping[str, tuple[int, int]]
    shape: tuple[int, int, int]
    notes: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    problems: list[str]


def check(data: Dataset) -> Summary:
    """Counts class by class, with warnings."""
    classes = _counts(data)
    problems = [*_class_problems(classes), *_image_problems(data)]
    return Summary(data.name, classes, data.shape, data.notes, data.left_out, problems)


def _counts(data: Dataset) -> dict[str, tuple[int, int]]:
    """Training and test images of each class."""
    train, test = (
        torch.bincount(part.labels, minlength=len(data.classes)).tolist()
        for part in (data.train, data.test)
    )
    return dict(zip(data.classes, zip(train, test, strict=True), strict=True))


def _class_problems(classes: Mapping[str, tuple[int, int]]) -> list[str]:
    """Warnings on how many images the classes have."""
    problems: list[str] = []
    largest = max(classes, key=lambda name: classes[name][0])
    smallest = min(classes, key=lambda name: classes[name][0])
    most, fewest = classes[largest][0], classes[smallest][0]
    if most > IMBALANCE * fewest:
        problems.append(
            f"strong imbalance: class '{largest}' has {most} training images, "
            f"class '{smallest}' has {fewest}"
        )
    few = [name for name, counts in classes.items() if sum(counts) < FEW]
    if few:
        problems.append(f"fewer than {FEW} images in {_classes(few)}")
    untested = [name for name, counts in classes.items() if counts[1] == 0]
    if len(untested) == len(classes):
        problems.append(
            "no test images: a network is scored on images held out of its training, "
            "train.validation of them"
        )
    elif untested:
        problems.append(f"no test images in {_classes(untested)}")
    return problems


def _image_problems(data: Dataset) -> list[str]:
    """Warnings on the images themselves."""
    problems: list[str] = []
    known = set(digests(data.train))
    repeated = sum(digest in known for digest in digests(data.test))
    if repeated:
        problems.append(f"{repeated} of {len(data.test)} test images are also in training")
    constant = _constant(data.train.pixels) + _constant(data.test.pixels)
    if constant:
        problems.append(f"{constant} images are of one single colour value")
    return problems


def _classes(names: list[str]) -> str:
    """The classes by name, as part of a sentence."""
    return ("class " if len(names) == 1 else "classes ") + ", ".join(f"'{n}'" for n in names)


def digests(images: Images) -> list[bytes]:
    """A hash of the pixels of each image."""
    rows = images.pixels.flatten(1).numpy()
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]


def _constant(pixels: Tensor) -> int:
    """How many images have the same value everywhere."""
    flat = pixels.flatten(1)
    return int((flat.amin(1) == flat.amax(1)).sum())
