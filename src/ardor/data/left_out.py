"""The files of a folder that are left out of a data set, each with the reason."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ardor.data.pictures import SUFFIXES

# Kinds of image that are not read, by how their names end.
UNREAD = frozenset(
    {
        *(".heic", ".heif", ".avif", ".jxl", ".jp2", ".jpe", ".jfif", ".tga", ".ico", ".svg"),
        *(".psd", ".eps", ".exr", ".hdr", ".dng", ".raw", ".cr2", ".cr3", ".nef", ".arw", ".orf"),
        *(".rw2", ".pbm", ".pnm", ".dcm"),
    }
)
BROKEN = "cannot be read: broken, or no image whatever its name says"
CACHE = ".ardor-"  # how the names begin of what Ardor keeps beside images
FOLLOWED = 2  # folders below that are entered through links as well: classes, and those in train/
NAMED = 5  # files of a kind that are named for reading; more are counted


@dataclass(frozen=True)
class LeftOut:
    """A file, or a folder with nothing to use in it, by its path in the source."""

    path: str  # of a folder it ends with /
    why: str


def left_out(path: Path, roots: Sequence[Path], used: Collection[Path]) -> list[LeftOut]:
    """All in a folder that is not used; `roots` are the folders that hold those of the classes."""
    known, filled = frozenset(used), {file.parent for file in used}
    return [
        LeftOut(f"{item.relative_to(path)}{'/' * item.is_dir()}", why)
        for item in _everything(path, 0)
        if item not in known and (why := _why(item, path, roots, filled))
    ]


def unread(path: Path) -> str:
    """What to do about a folder by class whose images are all of kinds that are not read."""
    kinds = sorted({file.suffix.lower() for file in path.glob("*/*")} & UNREAD)
    return f"{', '.join(kinds)} files are not read: save them as JPEG or PNG" if kinds else ""


def grouped(found: Iterable[LeftOut]) -> Iterator[str]:
    """A line for each reason: how many, why, and the first by name."""
    kinds: dict[str, list[str]] = {}
    for one in found:
        kinds.setdefault(one.why, []).append(one.path)
    for why, paths in kinds.items():
        more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
        yield f"{len(paths):,} ({why}): {', '.join(paths[:NAMED])}{more}"


def files(found: Iterable[LeftOut]) -> int:
    """How many of these are files."""
    return sum(not one.path.endswith("/") for one in found)


def _everything(folder: Path, depth: int) -> Iterator[Path]:
    """Files and folders in order of name, each folder before what is in it."""
    try:
        inside = sorted(folder.iterdir())
    except OSError:
        return  # a folder that may not be opened is named, what is in it is not known
    for item in inside:
        if item.name.startswith(CACHE):
            continue
        yield item
        entered = item.is_dir() and not item.name.startswith(".")
        if entered and (depth < FOLLOWED or not item.is_symlink()):
            yield from _everything(item, depth + 1)


def _why(item: Path, path: Path, roots: Sequence[Path], filled: Collection[Path]) -> str:
    """Why it is left out; nothing of a folder whose files speak for themselves."""
    if item.name.startswith("."):
        return "hidden: the name begins with a dot"
    if item.is_dir():
        return _why_folder(item, path, roots, filled)
    if not item.is_file():
        return "no regular file"
    suffix = item.suffix.lower()
    if suffix in UNREAD:
        return f"{suffix} is not read; save as JPEG or PNG"
    if suffix not in SUFFIXES:
        return "not named as an image"
    if item.parent in roots:
        return "beside the folders of the classes: of no class"
    if any(root in item.parents for root in roots):
        return "in a folder inside that of a class; move it up into the class's own"
    return f"outside {' and '.join(f'{root.name}/' for root in roots)}"


def _why_folder(item: Path, path: Path, roots: Sequence[Path], filled: Collection[Path]) -> str:
    """Why a folder is no class, or is left out with all that is in it."""
    if item in roots or item in filled:
        return ""
    if item.parent in roots:
        return "folder without images of its own that are read: no class"
    return "folder that is not used" if item.parent == path else ""
