"""Images without labels, for a teacher to look at: a folder of them, or x of an .npz file."""

import os
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from ardor.data.arrays import need, read_arrays
from ardor.data.check import digests
from ardor.data.images import UNLABELLED, Dataset, Images
from ardor.data.limit import Limit
from ardor.data.pictures import is_picture, read_pictures
from ardor.data.readers import Wanted, npz
from ardor.data.sources import named_errors, shaped
from ardor.errors import ArdorError


def with_unlabelled(
    data: Dataset, source: str, *, skip_broken: bool = False, memory: int = 0
) -> Dataset:
    """The data set with the images of a source, in its size and colours; without "" as it is.

    Those that are among its labelled images are left out: a teacher would tell of test images.
    """
    if not source or data.unlabelled is not None:
        return data
    limit = Limit(memory)
    limit.taken = sum(part.pixels.numel() for part in (data.train, data.test)) if memory else 0
    with named_errors(source):
        pixels = _read(Path(os.path.expanduser(source)), data.shape, skip_broken, limit)
    images = _labelless(pixels)
    known = {*digests(data.train), *digests(data.test)}
    new = torch.tensor([digest not in known for digest in digests(images)], dtype=torch.bool)
    if not new.any():
        raise ArdorError(
            f"every image in {source} is among the labelled ones; must hold some without labels",
            "leave out teacher.unlabelled: the teacher is learned from on labelled images too",
        )
    same = len(new) - int(new.sum())
    left = f"; {same:,} left out, which are among the labelled ones" if same else ""
    note = f"unlabelled: {int(new.sum()):,} of {source}{left}"
    return replace(data, unlabelled=images[new] if same else images, notes=(*data.notes, note))


def _labelless(pixels: Tensor) -> Images:
    return Images(pixels, torch.full((len(pixels),), UNLABELLED, dtype=torch.int64))


def _read(path: Path, shape: tuple[int, int, int], skip_broken: bool, limit: Limit) -> Tensor:
    """The pixels of all images at a path."""
    if path.is_dir():
        files = sorted(_pictures(path))
        limit.take(path, len(files) * prod(shape), "take fewer, or make data.size smaller")
        pixels, _ = read_pictures(files, shape, skip_broken=skip_broken, limit=limit)
    elif npz.recognises(path):
        array = need(read_arrays(path, ("x",), limit), "x", path)
        first = torch.from_numpy(npz.channels_first(array, "x", path).copy())
        pixels = _fitted(first, shape, path, limit)
    else:
        what = "is neither a folder nor an .npz file" if path.exists() else "does not exist"
        raise ArdorError(
            f"teacher.unlabelled = '{path}' {what}; must hold images without labels",
            "give a folder of images, or an .npz file with an array x of uint8",
        )
    if not len(pixels):
        raise ArdorError(f"no images found in {path}", "put images without labels there")
    return pixels


def _fitted(pixels: Tensor, shape: tuple[int, int, int], path: Path, limit: Limit) -> Tensor:
    """Pixels of an array, brought to the shape of the labelled images."""
    channels, height, width = shape
    size = height if height == width else 0
    found, _ = shaped(pixels, Wanted(size, channels, False, limit), path)
    if tuple(found.shape[1:]) != shape:
        raise ArdorError(
            f"images in {path} are {tuple(found.shape[1:])}; must be {shape}, as the labelled ones",
            "give data.size, so that all are brought to it",
        )
    return found


def _pictures(folder: Path) -> Iterator[Path]:
    """The image files in a folder and below it, without what is hidden."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from filter(is_picture, (Path(place, name) for name in names))
