"""A folder, a file or a known name, as a person types it, becomes a data set to learn from."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

import torch
from torch import Tensor

from ardor.data import readers
from ardor.data.images import Dataset, Images
from ardor.data.left_out import unread
from ardor.data.limit import Limit
from ardor.data.pixels import recoloured, resized, spent
from ardor.data.readers import Reader, ReadImages, Wanted
from ardor.data.split import stratified
from ardor.errors import ArdorError

FEWEST = 4  # images of a class that a test set can be held out of
LEAST = 2  # images of a class to train on: one to learn from, one to choose by
UNTESTED = "test: no images; scores are those of images that are held out of the training"
SMALLEST = 8  # side of an image that a network can still halve three times


class Missing(ArdorError):
    """There is no such file or folder."""


def place_of(source: str) -> str:
    """The absolute path of a source; empty for a known name, which needs no path."""
    path = os.path.expanduser(source)
    named = path == os.path.basename(path) and source in names()
    return "" if named or not os.path.exists(path) else os.path.abspath(path)


def of_pictures(place: str) -> bool:
    """Whether the images at a place are files of their own, in a size of their own."""
    return bool(place) and readers.find("folder").recognises(Path(place))


def names() -> list[str]:
    """Names of the kinds of source that are known."""
    return readers.names()


def describe() -> dict[str, str]:
    """One line on each kind of source."""
    return {name: (readers.find(name).__doc__ or "").split("\n")[0] for name in names()}


def load(
    source: str,
    *,
    size: int = 0,
    channels: int = 0,
    test: float = 0.2,
    skip_broken: bool = False,
    memory: int = 0,
    seed: int = 0,
) -> Dataset:
    """The data set at a path or of a known name; 0 leaves size and channels as they are.

    The set's own test images are used where there are some; else the fraction `test` is held out,
    which may be none.
    `memory` is how many bytes reading may take; 0 allows half of the free memory.
    """
    _check_settings(size, channels, test)
    wanted = Wanted(size, channels, skip_broken, Limit(memory))
    with named_errors(source):
        return _loaded(os.fspath(source), wanted, test, seed)


def _loaded(source: str, wanted: Wanted, test: float, seed: int) -> Dataset:
    """The data set, read, shaped and split."""
    reader, path = _resolve(source)
    found = reader.read(path, wanted)
    _check_classes(found, path, test)
    pixels, notes = shaped(found.train.pixels, wanted, path)
    train = Images(pixels, found.train.labels)
    if found.test is not None:
        heldout = Images(shaped(found.test.pixels, wanted, path)[0], found.test.labels)
    else:
        kept, held = stratified(train.labels, [1 - test, test], seed=seed)
        train, heldout = train[kept], train[held]
        notes.append(f"test: {test * 100:g} % of each class, held out" if test else UNTESTED)
    _check_training(train, found.classes, path)
    name = path.stem if path.is_file() else path.absolute().name
    notes = [*found.notes, *notes]
    return Dataset(name, train, heldout, found.classes, tuple(notes), found.left_out)


def _resolve(source: str) -> tuple[Reader, Path]:
    """The reader for a source, and its path; a bare word may be a name and is left as it is."""
    path = Path(os.path.expanduser(source))
    path = path if source == path.name else path.absolute()
    for name in names() if source else ():
        reader = readers.find(name)
        if reader.recognises(path):
            return reader, path
    if source and path.is_dir():
        hint = f"sort them as in {path / 'cat' / '1.png'}, or see `ardor list data` for other kinds"
        raise ArdorError(
            f"no images found in {path}; must hold a folder of images for each class",
            unread(path) or hint,
        )
    if source and path.exists():
        raise ArdorError(
            f"cannot tell what {path} holds; a file must be .npz",
            "unpack archives first; `ardor list data` shows what is read",
        )
    raise _missing(source)


def _missing(source: str) -> ArdorError:
    """The error for a source that is neither a path nor a name."""
    if source in names():
        return ArdorError(
            f"'{source}' is a kind of data, not a place; must be the path of a folder or file",
            f"give the path: {describe()[source]}",
        )
    places = [name for name in names() if readers.find(name).recognises(Path(name))]
    near = get_close_matches(source, places, n=1, cutoff=0.6)
    hint = "give the path of a folder of images or an .npz file, or a name: " + ", ".join(places)
    return Missing(
        f"no such file or folder: '{source}'", f"did you mean '{near[0]}'?" if near else hint
    )


@contextmanager
def named_errors(source: str) -> Iterator[None]:
    """Turns errors of the disk and of memory into an ArdorError that names the source."""
    try:
        yield
    except OSError as error:
        raise ArdorError(
            f"cannot read {error.filename or source}: {error.strerror or error}",
            "check that the file is complete and may be read",
        ) from error
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        raise ArdorError(
            f"not enough memory to read {source}",
            "take fewer images, or smaller ones: --set data.size=32",
        ) from error


def shaped(pixels: Tensor, wanted: Wanted, path: Path) -> tuple[Tensor, list[str]]:
    """The pixels in the size and colour that are wanted, and notes on the changes."""
    notes = []
    size, channels = wanted.size, wanted.channels
    count, colours, height, width = pixels.shape
    if size and (height, width) != (size, size):
        notes.append(f"resized to {size}x{size}")
        needed = spent(height, width, size) * colours + count * colours * size**2
        wanted.limit.take(path, needed, "make data.size smaller")
        pixels = resized(pixels, size)
    if channels and channels != colours:
        notes.append("turned grey" if channels == 1 else "grey images repeated in RGB")
        wanted.limit.take(path, pixels.numel() / colours * channels, "make data.size smaller")
        pixels = recoloured(pixels, channels)
    return pixels, notes


def _check_settings(size: int, channels: int, test: float) -> None:
    """Raise where a setting makes no sense for any source."""
    if size and size < SMALLEST:
        raise ArdorError(
            f"data.size is {size}; must be 0 or at least {SMALLEST}", "0 keeps the size"
        )
    if channels not in (0, 1, 3):
        raise ArdorError(f"data.channels is {channels}; must be 0, 1 or 3", "0 keeps the colours")
    if not 0 <= test < 1:
        raise ArdorError(
            f"data.test is {test}; must lie between 0 and 1", "0.2 holds out a fifth, 0 nothing"
        )


def _check_classes(found: ReadImages, path: Path, test: float) -> None:
    """Raise where there is nothing to learn or too little to test on."""
    counts = torch.bincount(found.train.labels, minlength=len(found.classes)).tolist()
    if not found.train.pixels.numel() or (found.test is not None and not len(found.test)):
        raise ArdorError(f"{path} holds no images to train or to test on", "add some images")
    if len(counts) < 2:
        raise ArdorError(
            f"{path} has only one class, '{found.classes[0]}'; must have at least two",
            "add images of what is to be told apart from it, in a folder or label of their own",
        )
    for name, count in zip(found.classes, counts, strict=True):
        if found.test is None and test and count < FEWEST:
            raise ArdorError(
                f"class '{name}' in {path} has {count} images; "
                f"must have at least {FEWEST} to hold out a test set",
                "add images of this class, or leave the class out",
            )


def _check_training(images: Images, classes: tuple[str, ...], path: Path) -> None:
    """Raise where a class has too few images left to train on."""
    counts = torch.bincount(images.labels, minlength=len(classes)).tolist()
    for name, count in zip(classes, counts, strict=True):
        if count < LEAST:
            raise ArdorError(
                f"class '{name}' in {path} has {count} images to train on; "
                f"must have at least {LEAST}",
                "add images of this class, leave the class out, or lower data.test",
            )
