"""The pruning curve: accuracy by the number of weights kept, and picking a point of it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ardor.data import Images
from ardor.errors import ArdorError
from ardor.layers.variational import PRUNE_AT
from ardor.models.model import Model
from ardor.models.scores import logits_of
from ardor.models.sizes import multiply_adds, nonzero_parameters
from ardor.models.smaller import compact, prune
from ardor.pruning.threshold import noise
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.settings.sections import NOTHING, PruneConfig

FORMAT = 1
THRESHOLDS = (*map(float, range(-4, 9)), NOTHING)
BATCH = 100  # small enough for the caches of a CPU: a curve goes through all images many times
ALWAYS = (PRUNE_AT, NOTHING)
APART = 0.03  # growth in the number of kept weights from one threshold to the next, at least
# Of all weights: for each share there is a threshold that keeps it, however sure the posterior is.
SHARES = (0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01)

NATS = 2.0  # for a whole of accuracy, which the nll may be worse by
ROUNDING = 1e-9  # accuracies are quotients of whole numbers


@dataclass(frozen=True)
class Point:
    """A network that pruning can give."""

    threshold: float
    params: int  # that are not zero, and do something
    macs: int  # multiply-adds for an image, of the compact network
    accuracy: float
    nll: float


def curve(
    model: Model,
    images: Images,
    runtime: Runtime,
    thresholds: Sequence[float],
    *,
    multiple: int = 1,
) -> list[Point]:
    """A network for each threshold of log lambda, and its scores on these images.

    The widths of the networks are multiples of `multiple`.
    """
    found: dict[int, Point] = {}
    points = []
    for number, threshold in enumerate(thresholds):
        masked = prune(model, threshold)
        count = nonzero_parameters(masked.net)
        # Equal counts mean equal networks: a lower threshold removes all that a higher one does.
        if count not in found:
            found[count] = measured(threshold, compact(masked, multiple), images, runtime)
        points.append(replace(found[count], threshold=threshold))
        done = (number + 1) / len(thresholds)
        left = runtime.clock() * (1 / done - 1)
        runtime.report(Progress("curve", number + 1, len(thresholds), done, left, {}))
    return points


def measured(threshold: float, small: Model, images: Images, runtime: Runtime) -> Point:
    """A compact network as a point of the curve."""
    params, macs = nonzero_parameters(small.net), multiply_adds(small.net, small.shape)
    logits = answers(small, images, runtime)
    nll = F.cross_entropy(logits.double(), images.labels).item()
    return Point(threshold, params, macs, share_right(logits, images), nll)


def thresholds_of(model: Model) -> list[float]:
    """Round thresholds, and those that keep `SHARES` of the weights; nearly equal ones left out."""
    found = [ratio.flatten() for ratio in noise(model.net).values()]
    if not found:
        raise ArdorError(
            "the trained network has no convolutions or linear maps, and no weights to prune",
            "leave out the bounds of pruning",
        )
    ratios = np.sort(torch.cat(found).double().numpy())
    places = [round(float(place), 2) for place in np.quantile(ratios, SHARES)]
    kept: list[float] = []
    before = 0.0
    for threshold in sorted({*THRESHOLDS, *places}):
        weights = float(np.searchsorted(ratios, threshold))  # that stay
        if weights > (1 + APART) * before or threshold in ALWAYS:
            kept.append(threshold)
            before = weights
    return kept


def accuracy(model: Model, images: Images, runtime: Runtime) -> float:
    """The share of images that a network gets right."""
    return share_right(answers(model, images, runtime), images)


def answers(model: Model, images: Images, runtime: Runtime) -> Tensor:
    """The logits of a network on images."""
    normalise = model.normalise.to(runtime.device)
    return logits_of(runtime.place(model.net), images, normalise, runtime, batch=BATCH)


def share_right(logits: Tensor, images: Images) -> float:
    """The share of these images whose largest logit is that of their label."""
    return int((logits.argmax(1) == images.labels).sum()) / len(images)


def pick(points: Sequence[Point], asked: PruneConfig) -> Point:
    """The smallest point with `keep_accuracy`; if that is 0, the most accurate within the limits.

    If there is none, an ArdorError names the nearest.
    """
    allowed = [point for point in points if fits(point, asked)]
    good = [point for point in allowed if point.accuracy >= asked.keep_accuracy]
    if not good:
        raise too_much(points, allowed, asked)
    return min(good, key=smallest if asked.keep_accuracy else most_accurate)


def fits(point: Point, asked: PruneConfig) -> bool:
    """Whether a network is as small as is asked for."""
    return (not asked.max_params or point.params <= asked.max_params) and (
        not asked.max_macs or point.macs <= asked.max_macs
    )


def smallest(point: Point) -> tuple[float, ...]:
    """What is least for the smallest network."""
    return point.params, -point.accuracy


def most_accurate(point: Point) -> tuple[float, ...]:
    """What is least for the most accurate network."""
    return -point.accuracy, point.params, point.macs


def unpruned(points: Sequence[Point]) -> Point:
    """The network from which nothing was pruned."""
    return max(points, key=lambda point: point.threshold)


def smallest_within(points: Sequence[Point], share: float, count: int) -> Point:
    """The smallest point that is as good as the unpruned one, on `count` images.

    It may be less accurate by `share`, or by one standard error of the unpruned accuracy, sqrt(a (1
    - a) / count), if that is less. As few images do not tell small losses apart, its nll may be
    worse by two nats for a whole of accuracy, and not more.
    """
    whole = unpruned(points)
    error = math.sqrt(whole.accuracy * (1 - whole.accuracy) / count)
    least = whole.accuracy - min(share, error) - ROUNDING
    most = whole.nll + NATS * share + ROUNDING
    return min((p for p in points if p.accuracy >= least and p.nll <= most), key=smallest)


def too_much(points: Sequence[Point], allowed: Sequence[Point], asked: PruneConfig) -> ArdorError:
    """The error if no point fits: it names the most accurate within the limits, or the smallest."""
    best = min(allowed or points, key=most_accurate if allowed else nearest(asked))
    wanted = [f"an accuracy of {asked.keep_accuracy:.2%}"] if allowed else []
    wanted += [f"at most {asked.max_params:,} parameters"] if asked.max_params else []
    wanted += [f"at most {asked.max_macs:,} multiply-adds"] if asked.max_macs else []
    macs = f" and {best.macs:,} multiply-adds" if asked.max_macs else ""
    return ArdorError(
        f"no network of the pruning curve has {' and '.join(wanted)}; the nearest has "
        f"{best.params:,} parameters{macs}, with an accuracy of {best.accuracy:.2%}",
        "ask for less: 'ardor prune RUN --curve' shows every network there is",
    )


def nearest(asked: PruneConfig) -> Callable[[Point], float]:
    """How far a network is above the limits: the larger of two ratios."""
    limits = asked.max_params or math.inf, asked.max_macs or math.inf
    return lambda point: max(point.params / limits[0], point.macs / limits[1])


def to_json(points: Sequence[Point], images: str, count: int) -> dict[str, Any]:
    """The content of curve.json."""
    rows = [asdict(point) for point in points]
    return {"format": FORMAT, "images": images, "count": count, "points": rows}
