"""Which network of the pruning curve is taken, and how the curve is drawn."""

import math
import random
from typing import Any

import pytest

from ardor.errors import ArdorError
from ardor.pipeline.curve import Point, pick, smallest_within, to_json
from ardor.reporting.pruning_curve import Network, chart, log_ticks, networks, taken
from ardor.settings.sections import NOTHING, PruneConfig

POINTS = [
    Point(-4.0, 100, 1_000, 0.80, 0.9),
    Point(0.0, 200, 3_000, 0.95, 0.20),
    Point(2.0, 400, 5_000, 0.97, 0.14),
    Point(4.0, 800, 5_000, 0.97, 0.12),
    Point(NOTHING, 1000, 9_000, 0.96, 0.13),
]


@pytest.mark.parametrize(
    ("asked", "threshold"),
    [
        ({"keep_accuracy": 0.95}, 0.0),
        ({"keep_accuracy": 0.96}, 2.0),
        ({"max_params": 1000}, 2.0),  # as accurate as the next, and smaller
        ({"max_params": 399}, 0.0),
        ({"max_params": 100}, -4.0),
        ({"keep_accuracy": 0.90, "max_params": 500}, 0.0),
        ({"max_macs": 5_000}, 2.0),
        ({"max_macs": 4_999}, 0.0),
        ({"max_macs": 5_000, "max_params": 399}, 0.0),
        ({"keep_accuracy": 0.96, "max_macs": 9_000}, 2.0),
        ({"max_params": 100, "within": 0.001}, -4.0),  # a bound goes over what may be lost
    ],
)
def test_picking(asked: dict[str, Any], threshold: float) -> None:
    assert pick(POINTS, PruneConfig(**asked)).threshold == threshold


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"keep_accuracy": 0.98}, "accuracy of 98.00%; the nearest has 400 .* 97.00%"),
        ({"max_params": 99}, "at most 99 parameters; the nearest has 100 parameters, .* 80.00%"),
        ({"keep_accuracy": 0.96, "max_params": 300}, "at most 300 .* has 200 .* 95.00%"),
        ({"max_macs": 999}, "at most 999 multiply-adds; .* and 1,000 multiply-adds, .* 80.00%"),
    ],
)
def test_asking_for_too_much_names_what_there_is(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ArdorError, match=words):
        pick(POINTS, PruneConfig(**asked))


@pytest.mark.parametrize(
    ("share", "count", "threshold"),
    [
        (0.0001, 100, 4.0),  # the point at 2 has the accuracy, but not the nll
        (0.01, 100, 2.0),  # the point at 0 is as accurate as that, but its nll is worse by 0.07
        (0.04, 1_000, 2.0),  # one standard error of 1,000 images is 0.0062
        (0.04, 300, 0.0),  # of 300 it is 0.0113
        (0.5, 3, 0.0),  # of 3 it is 0.1131
        (0.9, 1, -4.0),  # 0.196
    ],
)
def test_the_smallest_network_within_a_loss(share: float, count: int, threshold: float) -> None:
    assert smallest_within(POINTS, share, count).threshold == threshold


@pytest.mark.parametrize("seed", range(20))
def test_nothing_that_is_good_enough_is_smaller_than_what_is_taken(seed: int) -> None:
    draw, share = random.Random(seed), 0.01 * (seed + 1)
    points = [
        Point(at, draw.randint(1, 30), 1, draw.randint(30, 40) / 40, draw.uniform(0.1, 0.3))
        for at in range(12)
    ]
    whole, taken = points[-1], smallest_within(points, share, 40)
    deviation = math.sqrt(whole.accuracy * (1 - whole.accuracy) / 40)
    good = [
        p.params
        for p in points
        if whole.accuracy - p.accuracy <= min(share, deviation) + 1e-9
        and p.nll - whole.nll <= 2 * share + 1e-9
    ]
    assert taken.params == min(good)
    assert taken.accuracy >= whole.accuracy - share - 1e-9


def test_the_picture_holds_every_network() -> None:
    rows = to_json(POINTS, "validation", 7)["points"]
    found = networks({"points": [*rows, {"params": 0}, "no point", {"params": "x"}]})
    assert [n.params for n in found] == [100, 200, 400, 800, 1000]
    assert [n.macs for n in found] == [1_000, 3_000, 5_000, 5_000, 9_000]
    older = [{name: row[name] for name in ("threshold", "params", "accuracy")} for row in rows]
    assert [n.macs for n in networks({"points": older})] == [None] * 5
    picture = chart(found, taken(found, {"threshold": 2.0}))
    assert picture.count("<circle") == 5
    assert picture.count(", taken") == 1
    assert chart([Network(3.0, 7.0, 0.5)], None).count("<circle") == 1
    assert log_ticks(100, 1000) == pytest.approx([100, 200, 500, 1000])
    assert networks({}) == []
