"""From a picture to the pixels that a network takes: done, and told to programs without Ardor."""

import inspect
from typing import Any


def pixels_of(image: Any, channels: int, height: int, width: int) -> Any:
    """The pixels of a picture that PIL.Image.open has just opened: uint8 (channels, height, width).

    Upright, in 8 bits, with white behind what is transparent; it covers the size, and what is too
    much on two sides is cropped, half on each. One channel is grey, three are RGB.
    """
    # Its imports stand in it, so that its text works wherever it is put.
    from contextlib import suppress

    import numpy as np
    from PIL import Image, ImageOps

    # A large JPEG is decoded at a fraction of its size, never under twice the wanted one.
    image.draft(None, (2 * max(height, width), 2 * max(height, width)))
    image.load()
    with suppress(Exception):  # broken EXIF records raise of every kind, and the pixels are good
        ImageOps.exif_transpose(image, in_place=True)
    if image.mode == "F":
        raise ValueError("it holds floating-point pixels, whose range is unknown")
    if image.mode.startswith("I"):
        values = np.array(image, np.int32).clip(0, 65535)
        image = Image.fromarray(((values + 128) // 257).astype(np.uint8))
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image if image.mode == "RGBA" else image.convert("RGBA"))
        image = white.convert("RGB")
    mode = "L" if channels == 1 else "RGB"
    image = image if image.mode == mode else image.convert(mode)
    if image.size != (width, height):
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    return np.array(image).reshape(height, width, channels).transpose(2, 0, 1)


def text() -> str:
    """The source of `pixels_of`, for a program of its own."""
    return inspect.getsource(pixels_of)


def told(channels: int, height: int, width: int) -> dict[str, Any]:
    """What `pixels_of` does, as a program reads it and step by step as a person does."""
    colours, most = "L" if channels == 1 else "RGB", 2 * max(height, width)
    return {
        "shape": [channels, height, width],
        "range": [0, 255],
        "colours": colours,
        "draft": [most, most],
        "resize": "ImageOps.fit",
        "resampling": "BILINEAR",
        "steps": [
            "With Pillow, image = Image.open(file)",
            f"image.draft(None, ({most}, {most})): decodes a large JPEG at a fraction of its size",
            "ImageOps.exif_transpose(image, in_place=True): upright",
            "16 bits of grey to 8: (value + 128) // 257; white behind what is transparent",
            f"image = image.convert('{colours}')",
            f"image = ImageOps.fit(image, ({width}, {height}), Image.Resampling.BILINEAR): "
            "crops the centre and scales it, antialiased, in one go; a plain resize differs",
            f"float32 (batch, {channels}, {height}, {width}) in 0..255, "
            "as they are: the network takes off the mean and divides by the deviation itself",
        ],
    }
