"""Pixels 0..255 brought to mean 0 and standard deviation 1, as the first layer of a network."""

import torch
from torch import Tensor, nn

from ardor.data.images import Images
from ardor.errors import ArdorError


class Normalise(nn.Module):
    """Subtracts the mean and divides by the deviation of each channel, in units of 0..255."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.to(torch.float32).reshape(-1, 1, 1))
        self.register_buffer("std", std.to(torch.float32).reshape(-1, 1, 1))

    @classmethod
    def of(cls, images: Images) -> "Normalise":
        """The layer for these training images; a channel that never changes keeps its scale."""
        if images.pixels.numel() == 0:
            raise ArdorError("no images to take mean and deviation of", "give at least one image")
        values = torch.arange(256, dtype=torch.float64)
        shares = torch.stack([_histogram(channel) for channel in images.pixels.unbind(1)])
        mean = shares @ values
        variance = (shares * (values - mean[:, None]).square()).sum(1)
        std = variance.sqrt()
        return cls(mean, torch.where(std > 0, std, torch.ones_like(std)))

    def forward(self, pixels: Tensor) -> Tensor:
        """Normalised float32 images from uint8 or float pixels in 0..255."""
        return (pixels.to(torch.float32) - self.mean) / self.std


def _histogram(pixels: Tensor) -> Tensor:
    """Share of each of the 256 values, float64: exact sums without a float copy of the images."""
    return torch.bincount(pixels.flatten(), minlength=256).to(torch.float64) / pixels.numel()
