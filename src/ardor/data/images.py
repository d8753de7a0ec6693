"""Labelled images as two tensors, and a data set as two of those with its class names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ardor.data.left_out import LeftOut
from ardor.errors import ArdorError

UNLABELLED = -1  # in place of a label, of an image that only a teacher says something of


# Tensors compare element by element, so the equality a dataclass would make cannot work.
@dataclass(frozen=True, eq=False)
class Taught:
    """What a teacher says of images as they are, and how it is learned beside their labels."""

    answers: Tensor  # log-probabilities, float32 (images, classes)
    temperature: float
    share: float  # of the loss of an image with a label


@dataclass(frozen=True, eq=False)
class Images:
    """Pixels, uint8 (images, channels, height, width), and labels, int64 (images,)."""

    pixels: Tensor
    labels: Tensor
    taught: Taught | None = None  # in the same order

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
        taught = self.taught and replace(self.taught, answers=self.taught.answers[index])
        return Images(self.pixels[index], self.labels[index], taught)


def joined(parts: Sequence[Images]) -> Images:
    """The images of all parts; each has a teacher's answers, or none has."""
    pixels, labels = (
        torch.cat([getattr(part, name) for part in parts]) for name in ("pixels", "labels")
    )
    taught = [part.taught for part in parts if part.taught]
    if len(taught) < len(parts):
        return Images(pixels, labels)
    answers = torch.cat([each.answers for each in taught])
    return Images(pixels, labels, replace(taught[0], answers=answers))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images to train on and, if there are any, to test on; `notes` says what was done to them."""

    name: str
    train: Images
    test: Images
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()  # files of the source that are not in it
    unlabelled: Images | None = None  # to be learned from a teacher alone

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        channels, height, width = self.train.pixels.shape[1:]
        return channels, height, width
