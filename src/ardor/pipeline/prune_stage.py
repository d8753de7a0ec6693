"""The prune stage: from the trained posterior to the network that is used."""

from typing import Any

import torch

from ardor.errors import ArdorError
from ardor.models.card import card
from ardor.models.model import Model
from ardor.models.sizes import (
    dense_bytes,
    multiply_adds,
    nonzero_parameters,
    parameters,
    sparse_bytes,
)
from ardor.models.smaller import compact, prune
from ardor.pipeline.curve import (
    Point,
    accuracy,
    curve,
    pick,
    smallest_within,
    thresholds_of,
    to_json,
    unpruned,
)
from ardor.pipeline.resolve import threshold_of
from ardor.pipeline.run import Run
from ardor.runtime.files import write_json
from ardor.settings.sections import NOTHING
from ardor.training.train import split_validation
from ardor.training.train import tune as tune_network

CHECKED_IMAGES = 64
TOLERANCE = (
    1e-3  # of the largest logit, or of 1: float32 rounds, and removed channels have no effect
)
WHOLE = 2**30  # no width is a multiple of it, so widths stay those the native code is fast at
# Settings of fine-tuning that differ from those of the training.
TUNING = {
    "time": 0.0,
    "rate_end": 0.0,
    "rate_warmup": 0.0,
    "schedule": "cosine",
    "variational": False,
    "drop_path": 0.0,
    "average": 0.0,
}


def smaller(run: Run) -> tuple[Model, dict[str, float]]:
    """The pruned network, and its sizes compared with those of the trained one."""
    trained = run.trained()
    if run.config.prune.picking:
        run.set_threshold(picked(run, trained).threshold)
    threshold = threshold_of(run.config)
    masked = prune(trained, threshold)
    small = compact(masked, run.config.prune.multiple)
    facts: dict[str, float] = {
        "threshold": threshold,
        "masked_nonzero_params": nonzero_parameters(masked.net),
        "compact_max_difference": checked_difference(run, masked, small),
        **{f"trained_{name}": size for name, size in sizes(prune(trained, NOTHING)).items()},
    }
    if run.config.prune.fine_tune:
        small, tuned = tune(run, masked, small)
        facts |= tuned
    return small, {**facts, **sizes(small), "nonzero_params": nonzero_parameters(small.net)}


def sizes(model: Model) -> dict[str, int]:
    """Parameters, multiply-adds and bytes of a network."""
    return {
        "params": parameters(model.net),
        "macs": multiply_adds(model.net, model.shape),
        "file_bytes": dense_bytes(model.net),
        "sparse_bytes": sparse_bytes(model.net),
    }


def checked_difference(run: Run, masked: Model, small: Model) -> float:
    """The largest difference of logits between a pruned network and the compact one."""
    pixels, runtime, logits = run.images.train.pixels[:CHECKED_IMAGES], run.runtime(), []
    for model in (masked, small):
        with torch.no_grad(), runtime.apart(7):  # the same noise, should a network draw any
            logits.append(model(pixels))
    difference = float((logits[0] - logits[1]).abs().max())
    allowed = TOLERANCE * max(1.0, float(logits[0].abs().max()))
    if not difference < allowed:
        raise ArdorError(
            f"the compact network differs from the pruned one by {difference:.2g}; "
            f"it must be less than {allowed:.2g}",
            "nothing was written; please report the architecture.json of this run",
        )
    return difference


def picked(run: Run, trained: Model) -> Point:
    """The point of the pruning curve that fits what is asked for."""
    content, asked = measure_curve(run, trained), run.config.prune
    points = [Point(**point) for point in content["points"]]
    if asked.bounded:
        return pick(points, asked)
    if content["images"] != "validation":
        return unpruned(points)  # images that were learned from do not tell what pruning loses
    return smallest_within(points, asked.within, content["count"])


def measure_curve(run: Run, trained: Model, *thresholds: float) -> dict[str, Any]:
    """Writes the pruning curve, measured on validation images, never on test images."""
    runtime = run.runtime()
    to_learn, to_watch = split_validation(run.images.train, run.config.train, runtime.seed)
    images, which = (to_watch, "validation") if len(to_watch) else (to_learn, "training")
    points = curve(
        trained,
        images,
        runtime,
        thresholds or thresholds_of(trained),
        multiple=run.config.prune.multiple,
    )
    content = to_json(points, which, len(images))
    write_json(run.folder / "curve.json", content)
    return content


def tune(run: Run, masked: Model, small: Model) -> tuple[Model, dict[str, float]]:
    """The pruned network fine-tuned, and its validation accuracy before and after."""
    settings, runtime = run.config.prune, run.runtime()
    small.save(run.folder / "pruned", card=card("pruned", small))
    changes = {"epochs": settings.fine_tune, "rate": settings.rate, **TUNING}
    config = run.config.train.model_copy(update=changes)
    images = run.dataset.train
    tuned = tune_network(
        compact(masked, WHOLE),
        images,
        config,
        run=run.folder,
        runtime=runtime,
        unlabelled=run.dataset.unlabelled,
    )
    tuned = compact(tuned, settings.multiple)
    validation = split_validation(images, config, runtime.seed)[1]
    if not len(validation):
        return tuned, {}
    return tuned, {
        "untuned_validation_accuracy": accuracy(small, validation, runtime),
        "validation_accuracy": accuracy(tuned, validation, runtime),
    }
