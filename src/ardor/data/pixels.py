"""Size and colour of images that are already tensors."""

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 1024  # images converted to float at a time, so that memory hardly grows,
MOST = 2**28  # or fewer, if they take more bytes than this
# Red, green and blue in grey, in 65536ths: ITU-R 601, the very integers that Pillow uses.
WEIGHTS = (19595, 38470, 7471)


def resized(pixels: Tensor, size: int) -> Tensor:
    """The images, uint8, covering size x size and cropped to their centre, antialiased."""
    count, channels, height, width = pixels.shape
    if (height, width) == (size, size):
        return pixels
    result = torch.empty((count, channels, size, size), dtype=torch.uint8)
    chunk = max(1, min(CHUNK, MOST // (channels * spent(height, width, size))))
    for start in range(0, count, chunk):
        result[start : start + chunk] = _covered(pixels[start : start + chunk], size)
    return result


def spent(height: int, width: int, size: int) -> int:
    """Bytes that resizing one channel of an image takes meanwhile."""
    tall, wide = _covering(height, width, size)
    return 4 * (height * width + 2 * tall * wide + height * wide)


def recoloured(pixels: Tensor, channels: int) -> Tensor:
    """The images, uint8, in grey (1) or RGB (3)."""
    if pixels.shape[1] == channels:
        return pixels
    if channels == 3:
        return pixels.repeat(1, 3, 1, 1)
    chunk = max(1, min(CHUNK, MOST // (24 * pixels[0, 0].numel())))
    weights = torch.tensor(WEIGHTS, dtype=torch.int32).reshape(1, 3, 1, 1)
    grey = [
        (chunk.int() * weights)
        .sum(1, keepdim=True)
        .add(1 << 15)
        .div(1 << 16, rounding_mode="floor")
        for chunk in torch.split(pixels, chunk)
    ]
    return torch.cat([chunk.to(torch.uint8) for chunk in grey])


def _covered(pixels: Tensor, size: int) -> Tensor:
    """A few images scaled until the shorter side is `size`, and the longer one cropped."""
    tall, wide = _covering(pixels.shape[2], pixels.shape[3], size)
    scaled = F.interpolate(pixels.float(), (tall, wide), mode="bilinear", antialias=True)
    top, left = (tall - size) // 2, (wide - size) // 2
    return scaled[:, :, top : top + size, left : left + size].round().clamp(0, 255)


def _covering(height: int, width: int, size: int) -> tuple[int, int]:
    """Height and width of which the shorter is `size`."""
    shorter = min(height, width)
    return round(height * size / shorter), round(width * size / shorter)
