"""Size and colour of images that are already tensors, changed in place of a decoder."""

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 1024  # images in float at a time, so that memory stays that of the uint8 images
# Red, green and blue in grey, in 65536ths: ITU-R 601, the very integers that Pillow uses.
WEIGHTS = (19595, 38470, 7471)


def resized(pixels: Tensor, size: int) -> Tensor:
    """The images, uint8, covering size x size and cropped to their centre, antialiased."""
    count, channels, height, width = pixels.shape
    if (height, width) == (size, size):
        return pixels
    result = torch.empty((count, channels, size, size), dtype=torch.uint8)
    for start in range(0, count, CHUNK):
        result[start : start + CHUNK] = _covered(pixels[start : start + CHUNK], size)
    return result


def recoloured(pixels: Tensor, channels: int) -> Tensor:
    """The images, uint8, in grey (1) or RGB (3)."""
    if pixels.shape[1] == channels:
        return pixels
    if channels == 3:
        return pixels.repeat(1, 3, 1, 1)
    weights = torch.tensor(WEIGHTS, dtype=torch.int32).reshape(1, 3, 1, 1)
    grey = [
        (chunk.int() * weights)
        .sum(1, keepdim=True)
        .add(1 << 15)
        .div(1 << 16, rounding_mode="floor")
        for chunk in torch.split(pixels, CHUNK)
    ]
    return torch.cat([chunk.to(torch.uint8) for chunk in grey])


def _covered(pixels: Tensor, size: int) -> Tensor:
    """A few images scaled until the shorter side is `size`, and the longer one cropped."""
    height, width = pixels.shape[2:]
    shorter = min(height, width)
    tall, wide = round(height * size / shorter), round(width * size / shorter)
    scaled = F.interpolate(pixels.float(), (tall, wide), mode="bilinear", antialias=True)
    top, left = (tall - size) // 2, (wide - size) // 2
    return scaled[:, :, top : top + size, left : left + size].round().clamp(0, 255)
