"""Image files as tensors: any mode, depth and orientation to 8-bit grey or RGB of one size."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from ardor.data.decode import pixels_of
from ardor.data.limit import Limit
from ardor.errors import ArdorError

SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
)
# Only these decoders: otherwise a file named .png could reach Ghostscript.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
DEEP = frozenset({"I", "I;16", "I;16L", "I;16B", "I;16N"})
GREY = DEEP | {"1", "L", "LA", "La"}
DECODING = 16  # bytes for a pixel: as decoded, in full colour, on white, and without alpha


@dataclass(frozen=True)
class Header:
    """The header of an image file; sizes as stored, not yet turned upright."""

    width: int
    height: int
    grey: bool


def is_picture(path: Path) -> bool:
    """Whether the name is that of an image file, and not a hidden one."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def read_header(path: Path, limit: Limit) -> Header:
    """Size and colour of an image file, without decoding it."""
    with _opened(path, limit) as image:
        return Header(image.width, image.height, image.mode in GREY)


def read_pictures(
    paths: Sequence[Path],
    shape: tuple[int, int, int],
    *,
    skip_broken: bool = False,
    limit: Limit | None = None,
) -> tuple[Tensor, list[Path]]:
    """The images, uint8 (images, *shape), and the paths they were read from, in order."""
    if shape[0] not in (1, 3):
        raise ArdorError(
            f"images cannot be read with {shape[0]} channels; must be 1 or 3",
            "ask for 1 (grey) or 3 (RGB)",
        )
    limit = limit or Limit()
    pixels = torch.empty((len(paths), *shape), dtype=torch.uint8)
    read: list[Path] = []
    for path in paths:
        try:
            pixels[len(read)] = _decode(Path(path), shape, limit)
        except ArdorError:
            if not skip_broken:
                raise
            continue
        read.append(path)
    return pixels[: len(read)], read


def _decode(path: Path, shape: tuple[int, int, int], limit: Limit) -> Tensor:
    """One image, upright, in 8 bits, covering the wanted size and cropped to its centre."""
    with _opened(path, limit) as image:
        return torch.from_numpy(pixels_of(image, *shape))


@contextmanager
def _opened(path: Path, limit: Limit) -> Iterator[Image.Image]:
    """The opened image; what goes wrong with it becomes an error that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=FORMATS) as image:
                needed = DECODING * image.width * image.height
                limit.unpack(path, needed, path.stat().st_size, "scale it down, or leave it out")
                yield image
    except (ArdorError, MemoryError):
        raise
    # Decoders fail with whatever the broken bytes led them to: OSError, SyntaxError, KeyError.
    except Exception as error:
        raise ArdorError(
            f"cannot read image {path}: {_reason(error)}",
            "mend or remove the file; a run leaves such files out with --set data.skip_broken=true",
        ) from error


def _reason(error: Exception) -> str:
    """Why an image could not be read, in one line without its path."""
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image, or not of a kind that is read (PNG, JPEG, BMP, GIF, ...)"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()) or type(error).__name__
