"""The built-in 1,797 handwritten digits of scikit-learn, grey, 8x8; needs no path."""

from pathlib import Path

import numpy as np

from ardor.data.readers import ReadImages, Wanted, arrays_as_images


def recognises(path: Path) -> bool:
    """Whether the source is the bare word; ./digits is a folder."""
    return path == Path("digits")


def read(path: Path, wanted: Wanted) -> ReadImages:
    """The digits with their sixteen greys spread over 0..255."""
    # Here, because scikit-learn takes a second to import and only this reader needs it.
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    pixels = np.rint(images * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    return arrays_as_images(path, (pixels, labels), None)
