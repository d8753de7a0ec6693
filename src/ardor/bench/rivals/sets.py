"""The images that all contenders see: cut from real data sets once, and kept in a file."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ardor.data import Dataset, Images, load, stratified
from ardor.errors import ArdorError
from ardor.runtime.files import write

TEST = 0.2  # of each class, where the source has no test images of its own


@dataclass(frozen=True)
class Cut:
    """Some of the training images of a source, and all that it has to test on."""

    source: str  # below the folder of the data sets; "digits" are built in
    images: int  # to train on; 0 is all
    mirrored: bool  # whether an image keeps its class in a mirror


SETS: Mapping[str, Cut] = {
    "digits": Cut("digits", 0, mirrored=False),
    "sign-digits": Cut("sign-digits", 0, mirrored=True),
    "cifar10-600": Cut("cifar10", 600, mirrored=True),
    "cifar10-6000": Cut("cifar10", 6000, mirrored=True),
    "fashion-6000": Cut("fashion-mnist", 6000, mirrored=True),
    "cifar10": Cut("cifar10", 0, mirrored=True),
}


def prepared(name: str, seed: int, root: Path | None, folder: Path) -> Path:
    """The file with the images of a set; which of the source's, the seed says."""
    path = folder / image_file(name, seed)
    if not path.exists():
        keep(cut(SETS[name], seed, root), path)
    return path


def keep(found: Dataset, path: Path) -> None:
    """Writes images into one file."""
    content = io.BytesIO()
    train, test = found.train, found.test
    np.savez(
        content,
        x_train=train.pixels.numpy(),
        y_train=train.labels.numpy(),
        x_test=test.pixels.numpy(),
        y_test=test.labels.numpy(),
    )
    write(path, content.getvalue())


def image_file(name: str, seed: int) -> Path:
    """Where the images of a set are, below the folder of the bench."""
    return Path("images") / f"{name}-{seed}.npz"


def cut(wanted: Cut, seed: int, root: Path | None) -> Dataset:
    """The data set with as many training images as are wanted, every class alike."""
    found = load(place(wanted, root), test=TEST)  # the same test images for every seed
    train = found.train
    if wanted.images:
        (few,) = stratified(train.labels, [wanted.images / len(train)], seed=seed)
        train = train[few]
    return Dataset(found.name, train, found.test, found.classes, found.notes)


def place(wanted: Cut, root: Path | None) -> str:
    """Where a source is."""
    if wanted.source == "digits":
        return wanted.source
    if root is None or not (root / wanted.source).is_dir():
        raise ArdorError(
            f"the bench 'rivals' needs a folder '{wanted.source}' of images"
            + ("" if root is None else f", and '{root}' has none"),
            "name the folder of the data sets with --data, or some sets with --methods: "
            "ardor bench rivals --methods digits",
        )
    return str(root / wanted.source)


def accuracy_on(model: torch.nn.Module, images: Images) -> float:
    """The share of images whose largest logit is that of their class."""
    right = 0
    with torch.no_grad():
        for start in range(0, len(images), 250):
            few = images[torch.arange(start, min(start + 250, len(images)))]
            right += int((model(few.pixels).argmax(1) == few.labels).sum())
    return right / len(images)
