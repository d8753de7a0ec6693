"""How the time of a run is shared out: by the number and size of its images, and measured steps."""

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ardor import data, methods
from ardor.architecture import Architecture
from ardor.pipeline import teaching
from ardor.pipeline.resolve import final_space, resolved, searched_space, unnamed
from ardor.runtime.cost import timed
from ardor.runtime.device import Runtime
from ardor.settings.sections import Config
from ardor.training.train import TrainLoop, split_validation

Layer = Mapping[str, Any]
Layers = tuple[Layer, ...]

# Without a time: as long as so many passes over the images take, but no longer than a person waits.
USUAL, SHORTEST, LONGEST = 100, 60.0, 900.0  # passes; seconds
REST = 6.0  # seconds that pruning, export and report take at least
LOOKS = 6  # passes over images that are not learned from: pruning, and scores at the end
SIDES = (48, 32)  # that larger images are brought to, where there would be few passes
FEW = 25  # passes, below which smaller images are better
# A search by scores pays from so many images and passes on; it then takes this share of the time.
IMAGES, PASSES, SEARCH = 20_000, 200, 0.2
# Methods that learn by gradients have nothing to go by without a search.
SEARCH_BY_GRADIENTS = 0.35


@dataclass(frozen=True)
class Plan:
    """The settings of a run with times for its stages, its images, and what there is to say."""

    config: Config
    images: data.Dataset
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Work:
    """What a plan is made from."""

    config: Config
    images: data.Dataset
    stages: Collection[str]
    given: Architecture | None
    pace: float  # seconds of a step of training, for each image

    @property
    def labelled(self) -> int:
        """How many images there are to search with."""
        return len(self.images.train)

    @property
    def train(self) -> int:
        """How many images there are to learn from, with those that only a teacher knows."""
        more = self.images.unlabelled
        return self.labelled + (len(more) if more else 0)

    def passes(self, seconds: float) -> float:
        """How often all images are seen in so many seconds."""
        return seconds / (self.pace * self.train)


def planned(
    layers: Layers,
    config: Config,
    images: data.Dataset,
    stages: Collection[str],
    given: Architecture | None = None,
) -> Plan:
    """The settings with times for search and training, and the images at the side that suits."""
    if config.time == "auto" and any(
        "epochs" in layer.get(stage, {}) for layer in layers for stage in ("search", "train")
    ):
        return Plan(config.model_copy(update={"time": 0.0}), images)
    work = Work(config, images, stages, given, seconds_per_image(config, images, given))
    asking = teaching.seconds(config.teacher, images)  # once the training begins, in its time
    limit = config.limit or usual(work) + round(asking)
    side = suited(work, limit - asking)
    if side != images.shape[1]:
        layers = (*layers, {"data": {"size": side}})
        pace = work.pace * (side / images.shape[1]) ** 2
        work = Work(*resolved(layers), stages, given, pace)
    times, why = shares(work, limit)
    final, images = resolved((times, *layers), work.images)
    final = final.model_copy(update={"time": limit})
    more = () if config.limit else (what_more_buys(work, limit),)
    asked = (f"the teacher looks at the images for {span(asking)} of the training",)
    said = (words(final, images, stages, why), *(asked if asking >= 1 else ()), *more)
    return Plan(final, images, said)


def usual(work: Work) -> float:
    """The time of a run that was given none."""
    return round(min(LONGEST, max(SHORTEST, USUAL * work.pace * work.train + REST)))


def suited(work: Work, limit: float) -> int:
    """The side of the images: smaller, where there would be time for few passes over them."""
    side = work.images.shape[1]
    if work.config.data.size:
        return side
    passes = work.passes(limit - REST)
    for smaller in SIDES:
        if side > smaller and passes < FEW:
            passes *= (side / smaller) ** 2
            side = smaller
    return side


def shares(work: Work, limit: float) -> tuple[dict[str, Any], str]:
    """Times of search and training, the rest being for what comes after; and why no search."""
    rest = after(work, limit)
    if "train" not in work.stages:
        return {"search": {"time": round(limit - rest, 1)}}, ""
    share, why = search_share(work, limit - rest)
    search = round(share * (limit - rest), 1)
    train: dict[str, Any] = {"time": round(limit - rest - search, 1)}
    if not search:
        return {"search": {"epochs": 0, "candidates": 1}, "train": train}, why
    if methods.find(work.config.method["name"]).learns_by_scores:
        train["start"] = "search"  # what a supernet learned under gates of 0 and 1 is complete
    return {"search": {"time": search}, "train": train}, ""


def after(work: Work, limit: float) -> float:
    """Seconds for what comes after the training: looks at held-out images and writing files."""
    held_out = len(work.images.test) + work.config.train.validation * work.labelled
    return min(0.3 * limit, REST + LOOKS * held_out * work.pace / 3)  # a look is a third of a step


def search_share(work: Work, seconds: float) -> tuple[float, str]:
    """The share of the time that a search is worth; if none, the reason."""
    method = methods.find(work.config.method["name"])
    if "search" not in work.stages or method.search.get("epochs") == 0:
        return 0.0, ""
    if not method.learns_by_scores:
        return SEARCH_BY_GRADIENTS, ""
    if work.labelled < IMAGES:
        return 0.0, f"{work.labelled:,} images are too few to learn more than that from"
    passes = work.passes(seconds)
    if passes < PASSES:
        return 0.0, f"{passes:.0f} passes over the images are too few for it"
    return SEARCH, ""


def seconds_per_image(config: Config, images: data.Dataset, given: Architecture | None) -> float:
    """The time of a training step of the architecture that is likeliest now, for each image."""
    runtime = Runtime.start(config.device, config.seed)
    architecture = final_space(config).adopted(given or likeliest(config))
    images = teaching.unasked(images, config.teacher)
    parts = split_validation(images.train, config.train, config.seed, images.unlabelled)
    with tempfile.TemporaryDirectory() as folder:
        scratch = config.train.model_copy(update={"start": "scratch"})
        loop = TrainLoop(architecture, parts, scratch, Path(folder), runtime)
        seconds = timed(lambda: loop.step(loop.images[torch.arange(loop.size)]))
    return seconds / loop.size


def likeliest(config: Config) -> Architecture:
    """What the method would keep now."""
    method = methods.make(config.method["name"], searched_space(config), unnamed(config.method))
    return method.draw(1)[0]


def left_for_training(config: Config, spent: float) -> float:
    """The time that a training may take, once it is known what was spent before it."""
    rest = config.limit - config.search.time - config.train.time
    return max(1.0, round(config.limit - spent - rest, 1))


def words(config: Config, images: data.Dataset, stages: Collection[str], why: str) -> str:
    """The plan in a line: "64x64 pixels; search 9 min, training 17 min, pruning and ... 20 s"."""
    times = {"search": config.search.time}
    if "train" in stages:
        times["training"] = config.train.time
        times["pruning, export and report"] = config.limit - config.search.time - config.train.time
    said = ", ".join(f"{name} {span(seconds)}" for name, seconds in times.items() if seconds)
    none = f"; no search, the likeliest under the prior is trained: {why}" if why else ""
    return f"{images.shape[1]}x{images.shape[2]} pixels; {said}{none}"


def what_more_buys(work: Work, limit: float) -> str:
    """What a longer time would be good for, in a line."""
    longer = 2 * limit
    passes = [work.passes(seconds - after(work, seconds)) for seconds in (limit, longer)]
    searched = [search_share(work, s - after(work, s))[0] > 0 for s in (limit, longer)]
    more = " and a search" if searched == [False, True] else ""
    return (
        f"{span(limit)} in all; --time {max(1, round(longer / 60))}m would give about "
        f"{passes[1]:.0f} passes over the images in place of {passes[0]:.0f}{more}"
    )


def span(seconds: float) -> str:
    """A time in minutes, or in seconds where it is short."""
    return f"{seconds / 60:.3g} min" if seconds >= 90 else f"{seconds:.0f} s"
