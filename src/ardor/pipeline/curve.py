"""The pruning curve: accuracy by the number of weights kept, and picking a point of it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from ardor.bayes.divergences import log_noise_ratio
from ardor.data import Images
from ardor.errors import ArdorError
from ardor.layers.variational import PRUNE_AT, Variational
from ardor.models.model import Model
from ardor.models.scores import logits_of
from ardor.models.sizes import nonzero_parameters
from ardor.models.smaller import compact, prune
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.settings.sections import NOTHING

FORMAT = 1
THRESHOLDS = (*map(float, range(-4, 9)), NOTHING)
BATCH = 100  # small enough for the caches of a CPU: a curve goes through all images many times
ALWAYS = (PRUNE_AT, NOTHING)
APART = 0.03  # growth in the number of kept weights from one threshold to the next, at least
# Of all weights: for each share there is a threshold that keeps it, however sure the posterior is.
SHARES = (0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01)


@dataclass(frozen=True)
class Point:
    """A network that pruning can give."""

    threshold: float
    params: int  # that are not zero, and do something
    accuracy: float


def curve(
    model: Model, images: Images, runtime: Runtime, thresholds: Sequence[float]
) -> list[Point]:
    """A network for each threshold of log lambda, and its accuracy on these images."""
    found: dict[int, Point] = {}
    points = []
    for number, threshold in enumerate(thresholds):
        masked = prune(model, threshold)
        count = nonzero_parameters(masked.net)
        if (
            count not in found
        ):  # equal counts mean equal networks: a lower threshold removes all that a higher one does
            small = compact(masked)
            right = accuracy(small, images, runtime)
            found[count] = Point(threshold, nonzero_parameters(small.net), right)
        points.append(Point(threshold, found[count].params, found[count].accuracy))
        done = (number + 1) / len(thresholds)
        left = runtime.clock() * (1 / done - 1)
        runtime.report(Progress("curve", number + 1, len(thresholds), done, left, {}))
    return points


def thresholds_of(model: Model) -> list[float]:
    """Round thresholds, and those that keep `SHARES` of the weights; nearly equal ones left out."""
    layers = [m for m in model.net.modules() if isinstance(m, Variational)]
    if not layers:
        raise ArdorError(
            "the trained network has plain weights: nothing tells which of them are only noise",
            "train it with train.variational = true",
        )
    found = [log_noise_ratio(layer.weight, layer.log_var).detach().flatten() for layer in layers]
    noise = np.sort(torch.cat(found).double().numpy())
    places = [round(float(place), 2) for place in np.quantile(noise, SHARES)]
    kept: list[float] = []
    before = 0.0
    for threshold in sorted({*THRESHOLDS, *places}):
        weights = float(np.searchsorted(noise, threshold))  # that stay
        if weights > (1 + APART) * before or threshold in ALWAYS:
            kept.append(threshold)
            before = weights
    return kept


def accuracy(model: Model, images: Images, runtime: Runtime) -> float:
    """The share of images that a network gets right."""
    normalise = model.normalise.to(runtime.device)
    logits = logits_of(runtime.place(model.net), images, normalise, runtime, batch=BATCH)
    return int((logits.argmax(1) == images.labels).sum()) / len(images)


def pick(points: Sequence[Point], *, keep_accuracy: float = 0.0, max_params: int = 0) -> Point:
    """The smallest point with `keep_accuracy`; if that is 0, the most accurate within `max_params`.

    If there is none, an ArdorError names the nearest.
    """
    allowed = [p for p in points if not max_params or p.params <= max_params]
    good = [point for point in allowed if point.accuracy >= keep_accuracy]
    if good and keep_accuracy:
        return min(good, key=lambda point: (point.params, -point.accuracy))
    if good:
        return max(good, key=lambda point: (point.accuracy, -point.params))
    raise too_much(points, allowed, keep_accuracy, max_params)


def too_much(
    points: Sequence[Point], allowed: Sequence[Point], keep_accuracy: float, max_params: int
) -> ArdorError:
    """The error if no point fits: it names the most accurate within the limit, or the smallest."""
    if allowed:
        best = max(allowed, key=lambda point: (point.accuracy, -point.params))
        asked = f"an accuracy of {keep_accuracy:.2%}"
        asked += f" and at most {max_params:,} parameters" if max_params else ""
    else:
        best = min(points, key=lambda point: point.params)
        asked = f"at most {max_params:,} parameters"
    return ArdorError(
        f"no network of the pruning curve has {asked}; "
        f"the nearest has {best.params:,}, with an accuracy of {best.accuracy:.2%}",
        "ask for less: 'ardor prune RUN --curve' shows every network there is",
    )


def to_json(points: Sequence[Point], images: str, count: int) -> dict[str, Any]:
    """The content of curve.json."""
    rows = [asdict(point) for point in points]
    return {"format": FORMAT, "images": images, "count": count, "points": rows}
