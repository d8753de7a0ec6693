"""One .npz file with uint8 images x and labels y, and x_test and y_test if there are any."""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ardor.data.arrays import check_labels, need, read_arrays
from ardor.data.readers import Labelled, ReadImages, Wanted, arrays_as_images
from ardor.errors import ArdorError


def recognises(path: Path) -> bool:
    """Whether it is a file whose name ends in .npz."""
    return path.suffix.lower() == ".npz" and path.is_file()


def read(path: Path, wanted: Wanted) -> ReadImages:
    """The images of x or x_train, and those of x_test where there are some."""
    names = ("x", "y", "x_train", "y_train", "x_test", "y_test")
    arrays = read_arrays(path, names, wanted.limit)
    mark = "_train" if "x" not in arrays and "x_train" in arrays else ""
    train = _part(arrays, mark, path)
    test = _part(arrays, "_test", path) if {"x_test", "y_test"} & arrays.keys() else None
    if test and test[0].shape[1:] != train[0].shape[1:]:
        raise ArdorError(
            f"images in {path} are {train[0].shape[1:]} in training, but {test[0].shape[1:]} "
            "in test; must be equal (channels, height, width)",
            "bring them to one size before they are written",
        )
    return arrays_as_images(path, train, test)


def _part(arrays: dict[str, NDArray[Any]], mark: str, path: Path) -> Labelled:
    """Images and labels of one part."""
    images = channels_first(need(arrays, f"x{mark}", path), f"x{mark}", path)
    labels = need(arrays, f"y{mark}", path)
    return images, check_labels(labels, len(images), path)


def channels_first(images: NDArray[Any], name: str, path: Path) -> NDArray[Any]:
    """The images as (n, channels, height, width), or an error that says what they must be."""
    if images.dtype != "uint8":
        raise ArdorError(
            f"{name} in {path} is {images.dtype}; must be uint8, pixels from 0 to 255",
            f"values from 0 to 1 are converted by ({name} * 255).round().astype('uint8')",
        )
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[1] in (1, 3):
        return images
    if images.ndim == 4 and images.shape[3] in (1, 3):
        return images.transpose(0, 3, 1, 2)
    raise ArdorError(
        f"{name} in {path} has shape {images.shape}; must be (n, height, width), "
        "(n, channels, height, width) or (n, height, width, channels) with 1 or 3 channels",
        "keep one grey or three RGB channels",
    )
