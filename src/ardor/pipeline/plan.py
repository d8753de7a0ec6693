"""How the time of a run is shared out: by the number and size of its images, and measured steps."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ardor import data, methods
from ardor.pipeline.estimate import timed
from ardor.pipeline.resolve import final_space, resolved, searched_space, unnamed
from ardor.runtime.device import Runtime
from ardor.settings.sections import Config
from ardor.training.train import TrainLoop, split_validation

Layers = tuple[Mapping[str, Any], ...]

# Without a time: as long as so many passes over the images take, but no longer than a person waits.
USUAL, SHORTEST, LONGEST = 100, 60.0, 900.0  # passes; seconds
REST = 8.0  # seconds that pruning, export and report take at least
LOOKS = 6  # passes over images that are not learned from: pruning, and scores at the end
SIDES = (48, 32)  # that larger images are brought to, where there would be few passes
FEW = 25  # passes, below which smaller images are better
# A search pays from so many images and passes on; it then takes this share of the time.
IMAGES, PASSES, SEARCH = 5000, 60, 0.2
# Methods that learn by gradients have nothing to go by without a search.
SEARCH_BY_GRADIENTS = 0.35


def planned(
    layers: Layers, config: Config, images: data.Dataset, *, searching: bool
) -> tuple[Config, data.Dataset]:
    """The settings with times for search and training, and the images at the side that suits."""
    pace = seconds_per_image(config, images)
    limit = usual(pace, images) if config.time == "auto" else config.time
    side = suited(config, images, pace, limit)
    if side != images.shape[1]:
        layers = (*layers, {"data": {"size": side}})
        pace *= (side / images.shape[1]) ** 2
        config, images = resolved(layers)
    times = shares(config, images, pace, limit, searching=searching)
    config, images = resolved((times, *layers), images)
    return config.model_copy(update={"time": limit}), images


def usual(pace: float, images: data.Dataset) -> float:
    """The time of a run that was given none."""
    return round(min(LONGEST, max(SHORTEST, USUAL * pace * len(images.train) + REST)))


def suited(config: Config, images: data.Dataset, pace: float, limit: float) -> int:
    """The side of the images: smaller, where there would be time for few passes over them."""
    side = images.shape[1]
    if config.data.size:
        return side
    for smaller in SIDES:
        passes = (limit - REST) / (pace * len(images.train)) * (images.shape[1] / side) ** 2
        if side > smaller and passes < FEW:
            side = smaller
    return side


def shares(
    config: Config, images: data.Dataset, pace: float, limit: float, *, searching: bool
) -> dict[str, Any]:
    """Times of search and training; what is left is for pruning, export and report."""
    held_out = len(images.test) + config.train.validation * len(images.train)
    rest = min(0.3 * limit, REST + LOOKS * held_out * pace / 3)  # a look is a third of a step
    passes = (limit - rest) / (pace * len(images.train))
    share = search_share(config, len(images.train), passes) if searching else 0.0
    search = round(share * (limit - rest), 1)
    train = {"time": round(limit - rest - search, 1)}
    if search or not searching:
        return {"search": {"time": search} if search else {}, "train": train}
    # The prior alone decides: nothing is learned that a training could begin with.
    return {
        "search": {"epochs": 0, "candidates": 1},
        "train": {**train, "start": "scratch"},
    }


def search_share(config: Config, images: int, passes: float) -> float:
    """The share of the time that a search is worth."""
    found = methods.find(config.method["name"])
    if found.search.get("epochs") == 0:
        return 0.0
    if not found.learns_by_scores:
        return SEARCH_BY_GRADIENTS
    return SEARCH if images >= IMAGES and passes >= PASSES else 0.0


def seconds_per_image(config: Config, images: data.Dataset) -> float:
    """The time of a training step of the architecture that is likeliest now, for each image."""
    runtime = Runtime.start(config.device, config.seed)
    method = methods.make(config.method["name"], searched_space(config), unnamed(config.method))
    architecture = final_space(config).adopted(method.draw(1)[0])
    parts = split_validation(images.train, config.train, config.seed)
    with tempfile.TemporaryDirectory() as folder:
        scratch = config.train.model_copy(update={"start": "scratch"})
        loop = TrainLoop(architecture, parts, scratch, Path(folder), runtime)
        seconds = timed(lambda: loop.step(loop.images[torch.arange(loop.size)]))
    return seconds / loop.size


def left_for_training(config: Config, spent: float) -> float:
    """The time that a training may take, once it is known what was spent before it."""
    assert config.time != "auto"
    rest = config.time - config.search.time - config.train.time
    return max(1.0, round(config.time - spent - rest, 1))


def words(config: Config, images: data.Dataset) -> str:
    """The plan in a line: "64x64; search 9 min, training 17 min, pruning and report 20 s"."""
    assert config.time != "auto"
    rest = config.time - config.search.time - config.train.time
    steps = {
        "search": config.search.time,
        "training": config.train.time,
        "pruning and report": rest,
    }
    times = ", ".join(f"{name} {span(seconds)}" for name, seconds in steps.items() if seconds)
    return f"{images.shape[1]}x{images.shape[2]} pixels; {times}"


def span(seconds: float) -> str:
    """A time in minutes, or in seconds where it is short."""
    return f"{seconds / 60:.3g} min" if seconds >= 90 else f"{seconds:.0f} s"
