"""How long a search and a training would take here, and what memory: a few steps are timed.

Searches are faster if candidates leave the supernet meanwhile. Pruning and the stages after it are
not estimated.
"""

import functools
import gc
import tempfile
from collections.abc import Callable, Mapping
from math import ceil, floor
from pathlib import Path
from typing import Any

import torch

from ardor import methods
from ardor.architecture import Architecture
from ardor.data import Dataset, Images
from ardor.models.scores import logits_of
from ardor.pipeline import teaching
from ardor.pipeline.plan import Plan, likeliest, planned
from ardor.pipeline.resolve import (
    check_choices,
    check_epochs,
    check_scratch,
    final_space,
    resolved,
    searched_space,
    unnamed,
)
from ardor.runtime import memory
from ardor.runtime.cost import once, timed
from ardor.runtime.device import Runtime
from ardor.searching.loop import SearchLoop, halves
from ardor.settings.sections import Config
from ardor.training.timetable import MEASURED, StepTimes, Timetable
from ardor.training.train import TrainLoop, split_validation

Loop = SearchLoop | TrainLoop


def estimate(
    layers: tuple[Mapping[str, Any], ...],
    stages: tuple[str, ...],
    say: Callable[[str], None],
    given: Architecture | None = None,
) -> dict[str, Any]:
    """Seconds and memory of search and training, if they are among the stages; writes nothing."""
    plan = Plan(*resolved(layers))
    check_choices(plan.config, stages)
    if plan.config.time:
        plan = planned(layers, plan.config, plan.images, stages, given)
    config, images = plan.config, plan.images
    for line in plan.said:
        say(f"plan: {line}")
    check_epochs(config, stages)
    teaching.check(config.teacher, images)
    if given:
        check_scratch(config)
    found: dict[str, Any] = {"images": len(images.train), "threads": torch.get_num_threads()}
    training = functools.partial(of_training, given=given)
    for stage, of in (("search", of_search), ("train", training)):
        if stage in stages:
            say(f"timing steps of {stage} ...")
            with tempfile.TemporaryDirectory() as folder:
                found[stage] = of(config, images, Path(folder))
            gc.collect()  # the loop refers to itself, so its memory is not freed at once
    return found


def of_search(config: Config, images: Dataset, folder: Path) -> dict[str, Any]:
    """The search: steps of the weights alone, steps with gates, and the time between epochs."""
    runtime = Runtime.start(config.device, config.seed)
    space = searched_space(config)
    method = methods.make(config.method["name"], space, unnamed(config.method))
    parts = halves(images.train, config.search, config.seed)
    loop = SearchLoop(space, method, parts, config.search, folder, runtime)
    need, timetable = fitted("search", loop), loop.stage.timetable
    if not timetable.epochs:
        return estimated(timetable, need, 0.0, 0.0, 0.0)

    def step() -> None:
        loop.step(*(loop.batch(half, torch.arange(len(half)), 0) for half in loop.halves))

    early, late = step_seconds(loop, step)
    timetable.share = 0.0  # of the held-out images: scores the fewest it can
    few = once(loop.finish_epoch)
    scoring = scoring_time(loop, loop.held_out)
    more = max(0.0, loop.validation.share - loop.size / len(loop.held_out))
    return estimated(timetable, need, early, late, few + scoring * more, scoring)


def of_training(
    config: Config, images: Dataset, folder: Path, given: Architecture | None
) -> dict[str, Any]:
    """The training of an architecture at the final network's size: given, or one to expect."""
    runtime = Runtime.start(config.device, config.seed)
    architecture = final_space(config).adopted(given or expected(config))
    images = teaching.unasked(images, config.teacher)
    parts = split_validation(images.train, config.train, config.seed, images.unlabelled)
    loop = TrainLoop(architecture, parts, config.train, folder, runtime)
    need, timetable = fitted("train", loop), loop.stage.timetable
    if not timetable.epochs:
        return estimated(timetable, need, 0.0, 0.0, 0.0)
    early, late = step_seconds(loop, lambda: loop.step(loop.images[torch.arange(loop.size)]))
    return estimated(timetable, need, early, late, scoring_time(loop, loop.validation))


def expected(config: Config) -> Architecture:
    """The likeliest where there is a prior, and otherwise one drawn at random."""
    if methods.find(config.method["name"]).learns_by_scores:
        return likeliest(config)
    return methods.make("random", searched_space(config), {}).draw(1)[0]


def step_seconds(loop: Loop, step: Callable[[], object]) -> tuple[float, float]:
    """Seconds of a step at the beginning, and of one once steps have become slower."""
    early, timetable = timed(step), loop.stage.timetable
    first = timetable.epochs * timetable.steps / timetable.step_times.rounds
    slow = floor(timetable.step_times.slower_from * first) + 1
    if not 1 < slow < timetable.epochs * timetable.steps:
        return early, early
    loop.stage.epoch, loop.stage.step = divmod(slow, timetable.steps)
    return early, timed(step)


def fitted(section: str, loop: Loop) -> dict[str, Any]:
    """The memory of a step, and the micro-batches that fit into it, which the loop then uses."""
    needed, there = memory.need(loop.net, loop.trial), memory.free(loop.runtime.device)
    if needed is None:
        return {"memory_mb": None, "accumulate": loop.micro_batches}
    batch = {"images": loop.size, "micro_batches": loop.micro_batches}
    count = memory.micro_batches_that_fit(needed, there, **batch)
    if not count:
        memory.check(section, needed, there, **batch)
    loop.micro_batches = count
    return {"memory_mb": in_mb(needed.of(ceil(loop.size / count))), "accumulate": count}


def scoring_time(loop: Loop, images: Images) -> float:
    """Seconds to score all of these images, from the time for one batch of them."""
    if not len(images):
        return 0.0
    gates = loop.method.sample(1, 1.0) if isinstance(loop, SearchLoop) else None
    few = images[torch.arange(min(loop.size, len(images)))]
    seconds = timed(lambda: logits_of(loop.net, few, loop.normalise, loop.runtime, gates))
    return seconds * len(images) / len(few)


def estimated(
    timetable: Timetable,
    need: Mapping[str, Any],
    early: float,
    late: float,
    between: float,
    scoring: float = 0.0,
) -> dict[str, Any]:
    """The estimate and the times it was made of; `scoring` is for all held-out images."""
    return {
        "seconds": total(timetable, early, late, between, scoring),
        "epochs": timetable.epochs if not timetable.time else fitting(timetable, late, between),
        "steps": timetable.steps,
        "warmup_step_seconds": early,
        "step_seconds": late,
        "between_seconds": between,
        "ranking_seconds": timetable.step_times.looks * scoring,
        **need,
    }


def fitting(timetable: Timetable, late: float, between: float) -> int:
    """How many epochs fit into the time of a stage."""
    epoch = timetable.steps * late + between
    return min(timetable.epochs, ceil(timetable.time / epoch) if epoch else timetable.epochs)


def total(timetable: Timetable, early: float, late: float, between: float, scoring: float) -> float:
    """Seconds of a stage whose steps take `early` while weights warm up and `late` afterwards.

    `between` is the time between two epochs, `scoring` that for all held-out images at the end. A
    stage with a time limit takes no longer than that.
    """
    own = timetable.step_times
    step_times = StepTimes(slower_from=own.slower_from, rounds=own.rounds)
    for _ in range(MEASURED):
        step_times.add_step(1.0, late)
        if step_times.slower_from:
            step_times.add_step(0.0, early)
    step_times.add_between(between)
    seconds = step_times.left(timetable.length, 0.0, 0, timetable.steps) + own.looks * scoring
    return min(seconds, timetable.time or seconds)


def in_mb(count: float) -> float:
    """Bytes as megabytes, one digit after the point."""
    return round(count / 2**20, 1)
