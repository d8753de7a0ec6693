"""Random changes to whole batches of training images; no image is touched on its own.

Crop and flip as is usual for CIFAR, random erasing (Zhong et al. 2017; the aspect uniform and a
rectangle that does not fit drawn anew, as in the authors' code), cutout (DeVries & Taylor 2017).
Zoom is the random resized crop of Szegedy et al. 2015, "Going Deeper with Convolutions", section 6,
with a part that keeps the shape of the image and is never less than 40 % of it. Mixup: Zhang et al.
2018, "mixup: Beyond Empirical Risk Minimization", section 2.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ardor.errors import unknown

ERASE_CHANCE = 0.5
ERASE_AREA = (0.02, 0.4)
ERASE_ASPECT = (0.3, 3.3)
ERASE_TRIES = 10  # a rectangle fits a square image with probability 0.97: ten hardly ever fail
ZOOM_AREA = (0.4, 1.0)  # of the image; from 0.08 on, as in the paper, small networks learn little
BRIGHTNESS = (0.8, 1.2)
SMALL = 16  # pixels of a side, below which images are moved by parts of a pixel


def augment(images: Tensor, names: Sequence[str]) -> Tensor:
    """The float batch (images, channels, height, width) after each named change, in order."""
    for name in names:
        if name not in AUGMENTATIONS:
            raise unknown("augmentation", name, AUGMENTATIONS)
    # Noted before the first change, as `crop` changes the layout.
    last = images.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if last else torch.contiguous_format
    for name in names:
        images = AUGMENTATIONS[name](images)
    return images.contiguous(memory_format=layout)


def mixed(images: Tensor, labels: Tensor, classes: int, strength: float) -> tuple[Tensor, Tensor]:
    """Each image mixed with another of its batch, and so are their labels, (images, classes).

    Labels that are shares already, of any shape, are mixed as they are. The share of an image is a
    draw from Beta(strength, strength), one for the batch.
    """
    share = torch.distributions.Beta(strength, strength).sample().to(images)
    other = torch.randperm(len(images), device=images.device)
    targets = F.one_hot(labels, classes).to(images.dtype) if labels.dim() == 1 else labels
    return images.lerp(images[other], share), targets.lerp(targets[other], share)


def mixing(passes: float, images: int) -> float:
    """The strength of mixing that suits so many passes over so many images.

    Few images seen often are soon known by heart, and want much of it; many of them seen once in a
    while want none.
    """
    return min(1.0, max(0.0, 5 * passes / images - 0.1))


def crop(images: Tensor) -> Tensor:
    """Each image moved by up to an eighth of its side, its border repeated where it moved away.

    The paper fills with black; zeros in normalised images would be grey, as in no test image. Small
    images are moved by parts of a pixel: a whole one is much of what they show.
    """
    batch, _, height, width = images.shape
    if min(height, width) < SMALL:
        draws = torch.rand(2, batch, 1, device=images.device)
        return _part(images, torch.ones_like(draws[0]), *_within((-0.25, 0.25), draws))
    down, right = max(1, height // 8), max(1, width // 8)
    padded = F.pad(images, (right, right, down, down), mode="replicate")
    tops, lefts = (torch.randint(2 * most + 1, (batch, 1)).tolist() for most in (down, right))
    # Slices are twice as fast as indices, which gather pixel by pixel.
    parts = [
        part[:, top : top + height, left : left + width]
        for part, (top,), (left,) in zip(padded, tops, lefts, strict=True)
    ]
    return torch.stack(parts) if parts else images


def flip(images: Tensor) -> Tensor:
    """Each image mirrored left to right with probability one half."""
    mirrored = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
    return torch.where(mirrored, images.flip(3), images)


def zoom(images: Tensor) -> Tensor:
    """A random part of each image, of its shape, brought back to its size (bilinear)."""
    batch = len(images)
    side = _within(ZOOM_AREA, torch.rand(batch, 1, device=images.device)).sqrt()
    # An image reaches from -1 to 1, so that its part may lie 1 - side off the middle.
    across, down = (1 - side) * _within((-1.0, 1.0), torch.rand(2, batch, 1, device=images.device))
    return _part(images, side, across, down)


def brightness(images: Tensor) -> Tensor:
    """Each image, in normalised pixels, times a factor of its own."""
    draws = torch.rand(len(images), 1, 1, 1, device=images.device)
    return images * _within(BRIGHTNESS, draws).to(images.dtype)


def erase(images: Tensor) -> Tensor:
    """Half of the images with a random rectangle of standard normal noise."""
    batch, _, height, width = images.shape
    tall, wide, fits = _rectangles(images)
    first = fits.int().argmax(1, keepdim=True)
    tall, wide = tall.gather(1, first), wide.gather(1, first)
    top = _below(height - tall + 1, images)
    left = _below(width - wide + 1, images)
    chosen = fits.any(1) & (torch.rand(batch, device=images.device) < ERASE_CHANCE)
    mask = _box(top, tall, left, wide, images) & chosen[:, None, None, None]
    # Not randn_like: in the channels_last layout that is six times slower.
    noise = torch.randn(images.shape, dtype=images.dtype, device=images.device)
    return torch.where(mask, noise, images)


def cutout(images: Tensor) -> Tensor:
    """Each image with a square of half its shorter side set to 0, clipped at the borders."""
    batch, _, height, width = images.shape
    side = torch.full((batch, 1), max(1, min(height, width) // 2), device=images.device)
    top = torch.randint(height, (batch, 1), device=images.device) - side // 2
    left = torch.randint(width, (batch, 1), device=images.device) - side // 2
    return images.masked_fill(_box(top, side, left, side, images), 0)


AUGMENTATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "crop": crop,
    "flip": flip,
    "zoom": zoom,
    "brightness": brightness,
    "erase": erase,
    "cutout": cutout,
}


def _part(images: Tensor, side: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """A part of each image with that share of its side, so far off the middle; (batch, 1) each."""
    height, width = images.shape[2:]
    columns = (side * _middles(width, images) + across)[:, None, :].expand(-1, height, -1)
    rows = (side * _middles(height, images) + down)[:, :, None].expand(-1, -1, width)
    where = torch.stack([columns, rows], 3).to(images.dtype)
    # Beyond the middles of the outer pixels, only those are known.
    return F.grid_sample(images, where, padding_mode="border", align_corners=False)


def _middles(length: int, like: Tensor) -> Tensor:
    """The middles of so many pixels in a row that reaches from -1 to 1."""
    return (2 * torch.arange(length, device=like.device) + 1) / length - 1


def _rectangles(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Heights and widths of candidate rectangles and whether they fit; each (batch, tries)."""
    batch, _, height, width = images.shape
    draws = torch.rand(2, batch, ERASE_TRIES, device=images.device)
    area = _within(ERASE_AREA, draws[0]) * (height * width)
    aspect = _within(ERASE_ASPECT, draws[1])
    tall = (area * aspect).sqrt().round().long().clamp_min(1)
    wide = (area / aspect).sqrt().round().long().clamp_min(1)
    return tall, wide, (tall < height) & (wide < width)


def _within(bounds: tuple[float, float], draws: Tensor) -> Tensor:
    """Draws from 0..1 stretched to the bounds."""
    low, high = bounds
    return low + (high - low) * draws


def _below(limits: Tensor, like: Tensor) -> Tensor:
    """A random integer from 0 up to, not including, each limit."""
    return (torch.rand(limits.shape, device=like.device) * limits).long()


def _box(top: Tensor, tall: Tensor, left: Tensor, wide: Tensor, like: Tensor) -> Tensor:
    """True inside each image's rectangle; bounds (batch, 1), result (batch, 1, height, width)."""
    rows = torch.arange(like.shape[2], device=like.device)
    columns = torch.arange(like.shape[3], device=like.device)
    inside_rows = (rows >= top) & (rows < top + tall)
    inside_columns = (columns >= left) & (columns < left + wide)
    return (inside_rows[:, :, None] & inside_columns[:, None, :])[:, None]
