"""Labelled images as two tensors, and a data set as two of those with its class names."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ardor.data.left_out import LeftOut
from ardor.errors import ArdorError


# Tensors compare element by element, so the equality a dataclass would make cannot work.
@dataclass(frozen=True, eq=False)
class Images:
    """Pixels, uint8 (images, channels, height, width), and labels, int64 (images,)."""

    pixels: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        pixels, labels = self.pixels, self.labels
        if pixels.dtype != torch.uint8 or pixels.ndim != 4:
            raise ArdorError(
                f"pixels are {pixels.dtype} {tuple(pixels.shape)}; "
                "must be torch.uint8 (images, channels, height, width)",
                "scale the pixels to 0..255 and convert them: (x * 255).round().to(torch.uint8)",
            )
        if labels.dtype != torch.int64 or labels.shape != pixels.shape[:1]:
            raise ArdorError(
                f"labels are {labels.dtype} {tuple(labels.shape)}; "
                f"must be torch.int64 ({len(pixels)},), one for each image",
                "give one class number for each image: labels.long()",
            )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Tensor) -> "Images":
        return Images(self.pixels[index], self.labels[index])


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images to train on and, if there are any, to test on; `notes` says what was done to them."""

    name: str
    train: Images
    test: Images
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()  # files of the source that are not in it

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        channels, height, width = self.train.pixels.shape[1:]
        return channels, height, width
