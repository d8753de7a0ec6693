"""How people train such networks: a loop that ends when its CPU seconds are spent."""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.data import Images

BATCH = 64
RATE, DECAY = 3e-3, 1e-2
MOMENTUM = 0.998  # of averaged weights
WARM_UP = 0.05  # of the budget

Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Recipe:
    """What is done to a batch, and how its labels and weights are smoothed."""

    change: Change
    smoothing: float
    mixup: float = 0.0  # parameter of the Beta distribution; 0 mixes nothing
    averaged: bool = False  # whether the mean of the weights on the way is what is used


class Scaled(nn.Module):
    """A network after the normalisation of its pixels, 0 to 255."""

    def __init__(self, net: nn.Module, images: Images) -> None:
        super().__init__()
        pixels = images.pixels[:5000].float()
        self.net = net
        self.register_buffer("mean", pixels.mean((0, 2, 3), keepdim=True))
        self.register_buffer("std", pixels.std((0, 2, 3), keepdim=True).clamp_min(1.0))

    def forward(self, pixels: Tensor) -> Tensor:
        scaled: Tensor = self.net(self.scale(pixels))
        return scaled

    def scale(self, pixels: Tensor) -> Tensor:
        """Pixels with mean 0 and deviation 1."""
        return (pixels.float() - self.mean) / self.std  # type: ignore[operator]


def fit(net: nn.Module, images: Images, recipe: Recipe, seconds: float, seed: int) -> nn.Module:
    """The network after so many CPU seconds of AdamW along a cosine."""
    torch.manual_seed(seed)
    model = Scaled(net, images)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY)
    mean = copy.deepcopy(model)
    begin, size, steps = time.process_time(), min(BATCH, len(images)), 0
    while True:
        order = torch.randperm(len(images))
        for at in (order[start : start + size] for start in range(0, len(images), size)):
            progress = (time.process_time() - begin) / seconds
            if progress >= 1:
                return (mean if recipe.averaged else model).eval()
            if len(at) < size:
                continue
            for group in optimiser.param_groups:
                group["lr"] = RATE * rate(progress)
            step(model, images[at], recipe, optimiser)
            steps += 1
            if recipe.averaged:
                average_(mean, model, min(MOMENTUM, steps / (steps + 10)))


def rate(progress: float) -> float:
    """Up in a line, then down along a cosine."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return min(1.0, (progress + 1e-3) / WARM_UP) * cosine


def step(model: Scaled, batch: Images, recipe: Recipe, optimiser: torch.optim.Optimizer) -> None:
    """One step on one batch."""
    pixels = recipe.change(model.scale(batch.pixels)).contiguous(memory_format=torch.channels_last)
    labels = batch.labels
    model.train()
    if recipe.mixup:
        share = float(torch.distributions.Beta(recipe.mixup, recipe.mixup).sample())
        other = torch.randperm(len(labels))
        logits = model.net(share * pixels + (1 - share) * pixels[other])
        losses = [cross_entropy(logits, each, recipe) for each in (labels, labels[other])]
        loss = share * losses[0] + (1 - share) * losses[1]
    else:
        loss = cross_entropy(model.net(pixels), labels, recipe)
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def cross_entropy(logits: Tensor, labels: Tensor, recipe: Recipe) -> Tensor:
    """With smoothed labels."""
    return F.cross_entropy(logits, labels, label_smoothing=recipe.smoothing)


@torch.no_grad()
def average_(mean: nn.Module, model: nn.Module, keep: float) -> None:
    """Moves the mean towards the model."""
    pairs = zip(mean.state_dict().values(), model.state_dict().values(), strict=True)
    for ours, theirs in pairs:
        if ours.is_floating_point():
            ours.lerp_(theirs, 1 - keep)
        else:
            ours.copy_(theirs)


def shifted(share: float, *, mirrored: bool) -> Change:
    """Moves each image by up to that share of its side, and mirrors half of them if so asked."""

    def change(images: Tensor) -> Tensor:
        batch = len(images)
        moves = (2 * torch.rand(batch, 2) - 1) * 2 * share  # of a grid from -1 to 1
        flips = 1 - 2 * (torch.rand(batch) < 0.5).float() if mirrored else torch.ones(batch)
        return warped(images, flips, torch.ones(batch), moves)

    return change


def cropped(least: float, *, mirrored: bool) -> Change:
    """Random resized crops of at least that share, brightness, a square cut out, half mirrored."""

    def change(images: Tensor) -> Tensor:
        batch, _, height, width = images.shape
        side = (least + (1 - least) * torch.rand(batch)).sqrt()
        moves = (2 * torch.rand(batch, 2) - 1) * (1 - side)[:, None]
        flips = 1 - 2 * (torch.rand(batch) < 0.5).float() if mirrored else torch.ones(batch)
        images = warped(images, flips * side, side, moves)
        images = images * (0.8 + 0.4 * torch.rand(batch, 1, 1, 1))
        return without_square(images, min(height, width) // 4)

    return change


def warped(images: Tensor, across: Tensor, down: Tensor, moves: Tensor) -> Tensor:
    """Images scaled by so much in each direction, and moved; borders are repeated."""
    matrix = torch.zeros(len(images), 2, 3)
    matrix[:, 0, 0], matrix[:, 1, 1], matrix[:, :, 2] = across, down, moves
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def without_square(images: Tensor, side: int) -> Tensor:
    """Each image with a square of that side set to the mean."""
    batch, _, height, width = images.shape
    top, left = torch.randint(height, (batch, 1)), torch.randint(width, (batch, 1))
    rows = (torch.arange(height) - top).abs() <= side // 2
    columns = (torch.arange(width) - left).abs() <= side // 2
    return images.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)
