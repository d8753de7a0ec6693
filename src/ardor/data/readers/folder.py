"""A folder of image files by class (cat/1.png), or train/ and test/ (or val/) of such folders."""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from math import prod
from pathlib import Path
from statistics import median

import torch

from ardor.data.images import Images
from ardor.data.left_out import BROKEN, LeftOut, left_out
from ardor.data.pictures import Header, is_picture, read_header, read_pictures
from ardor.data.readers import ReadImages, Wanted
from ardor.errors import ArdorError

HELD_OUT = ("test", "val")  # the first that exists is the test set
LARGEST, SMALLEST = 64, 8  # limits of the side that is chosen when none is given
NAMED = 10  # files named in a note; more are counted

Classes = Mapping[str, list[Path]]  # class -> its files, both in order of name


def recognises(path: Path) -> bool:
    """Whether the folder holds image files in folders of its own."""
    files = chain(path.glob("*/*"), path.glob("train/*/*"))
    return any(is_picture(file) and file.parent.name[0] != "." for file in files)


def read(path: Path, wanted: Wanted) -> ReadImages:
    """All images in one size and colour, upright; the classes are the names of the folders."""
    train, test, notes, roots = _layout(path)
    strange = sorted(test.keys() - train.keys())
    if strange:
        raise ArdorError(
            f"class '{strange[0]}' has test images in {path}, but none to train on",
            "add training images of that class, or remove its test images",
        )
    _check_names(path, train)
    headers = _survey(path, [*_files(train), *_files(test)], wanted)
    shape = _shape(headers.values(), wanted)
    wanted.limit.take(path, len(headers) * prod(shape), "take fewer, or make data.size smaller")
    broken: list[Path] = []
    images = _images(train, tuple(train), shape, wanted, broken)
    held_out = _images(test, tuple(train), shape, wanted, broken) if test else None
    notes += _changes(headers.values(), shape)
    if broken:
        notes.append(f"skipped {len(broken)} broken: {_listed(broken, path)}")
    unread = [LeftOut(str(file.relative_to(path)), BROKEN) for file in broken]
    unread += left_out(path, roots, [*_files(train), *_files(test)])
    return ReadImages(images, held_out, tuple(train), tuple(notes), tuple(unread))


def _layout(path: Path) -> tuple[Classes, Classes, list[str], list[Path]]:
    """Files to train on and to test on by class, a note on other folders, and where classes are."""
    folders = _folders(path)
    inner = _classes(folders["train"]) if "train" in folders else {}
    # "train" may also be a class, next to cars and buses.
    if not inner and not ("train" in folders and folders.keys() <= {"train", *HELD_OUT}):
        classes = _classes(path)
        return classes, {}, _unused(folders.keys() - classes.keys()), [path]
    if not inner:
        raise ArdorError(
            f"{folders['train']} has no folders of images; must have one for each class",
            f"move the images into folders, as in {folders['train'] / 'cat' / '1.png'}",
        )
    held_out = next((name for name in HELD_OUT if name in folders), "")
    test = _classes(folders[held_out]) if held_out else {}
    used = {"train", held_out} if test else {"train"}
    roots = [folders[name] for name in ("train", held_out) if name in used]
    return inner, test, _unused(folders.keys() - used), roots


def _check_names(path: Path, classes: Iterable[str]) -> None:
    """Raise where the name of a class could not be written into any file."""
    for name in classes:
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ArdorError(
                f"class '{name}' in {path} must have a name in UTF-8", "rename its folder"
            )


def _folders(path: Path) -> dict[str, Path]:
    """The folders in the folder by name, without hidden ones."""
    inside = sorted(path.iterdir())
    return {item.name: item for item in inside if item.is_dir() and item.name[0] != "."}


def _classes(path: Path) -> dict[str, list[Path]]:
    """The image files in each folder that has some."""
    files = {name: sorted(filter(is_picture, f.iterdir())) for name, f in _folders(path).items()}
    return {name: pictures for name, pictures in files.items() if pictures}


def _files(classes: Classes) -> list[Path]:
    return [file for files in classes.values() for file in files]


def _survey(path: Path, files: Iterable[Path], wanted: Wanted) -> dict[Path, Header]:
    """The headers of all image files, or of those that can be read."""
    headers: dict[Path, Header] = {}
    for file in files:
        try:
            headers[file] = read_header(file, wanted.limit)
        except ArdorError:
            if not wanted.skip_broken:
                raise
    if not headers:
        raise ArdorError(f"no image in {path} can be read", "check how the files were copied")
    return headers


def _shape(headers: Collection[Header], wanted: Wanted) -> tuple[int, int, int]:
    """Channels, height and width that all images are brought to."""
    channels = wanted.channels or (1 if all(header.grey for header in headers) else 3)
    # For images that are all square and of one size, the median is that size.
    shorter = int(median(min(header.width, header.height) for header in headers))
    size = wanted.size or max(SMALLEST, min(LARGEST, shorter))
    return channels, size, size


def _images(
    part: Classes,
    classes: tuple[str, ...],
    shape: tuple[int, int, int],
    wanted: Wanted,
    broken: list[Path],
) -> Images:
    """The images of one part; files that cannot be read are added to `broken`."""
    files = _files(part)
    pixels, read = read_pictures(files, shape, skip_broken=wanted.skip_broken, limit=wanted.limit)
    broken += sorted(set(files) - set(read))
    numbers = {name: number for number, name in enumerate(classes)}
    labels = [numbers[file.parent.name] for file in read]
    return Images(pixels, torch.tensor(labels, dtype=torch.int64))


def _changes(headers: Collection[Header], shape: tuple[int, int, int]) -> list[str]:
    """Notes on the changes to images of another shape."""
    channels, height, width = shape
    notes: list[str] = []
    if any((header.width, header.height) != (width, height) for header in headers):
        notes.append(f"resized to {width}x{height}")
    if channels == 1 and not all(header.grey for header in headers):
        notes.append("turned grey")
    if channels == 3 and any(header.grey for header in headers):
        notes.append("grey images repeated in RGB")
    return notes


def _unused(folders: Iterable[str]) -> list[str]:
    """A note on folders that hold nothing that is used."""
    names = sorted(folders)
    return [f"left out: {', '.join(f'{name}/' for name in names)}"] if names else []


def _listed(files: list[Path], path: Path) -> str:
    """The first of the files by name, and how many more there are."""
    names = [str(file.relative_to(path)) for file in files[:NAMED]]
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    return ", ".join(names) + more
