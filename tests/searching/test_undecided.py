"""A search that has decided little says so, in the log, in its result and in the report."""

import math
from pathlib import Path

import pytest
import torch
from standins.watched import SMALL, SPACE, make

from ardor.architecture import Choice
from ardor.data import Images
from ardor.methods.darts import Darts
from ardor.methods.random import Random
from ardor.methods.rsps import Rsps
from ardor.reporting import report
from ardor.runtime.device import Runtime
from ardor.runtime.files import write_json
from ardor.runtime.progress import Progress
from ardor.searching.undecided import (
    ALL_KEPT,
    ALL_RULED_OUT,
    NO_FAVOUR,
    NO_STEP,
    uncertainty,
    undecided,
)

OPS = Choice(
    "op", "op", ("none", "conv", "pool", "skip"), families=("none", "conv", "pool", "skip")
)
KEPT = {"op": ("conv",)}


def shares(*of_options: float) -> dict[str, dict[str, float]]:
    return {"op": dict(zip(OPS.options, of_options, strict=True))}


def test_the_uncertainty_is_an_entropy_beside_that_of_an_even_share() -> None:
    left = -0.5 * math.log(0.5) - 2 * 0.25 * math.log(0.25)
    assert uncertainty([OPS], shares(0.0, 0.5, 0.25, 0.25)) == pytest.approx(left / math.log(3))
    assert uncertainty([OPS], shares(0.0, 0.25, 0.125, 0.125)) == pytest.approx(left / math.log(3))
    assert uncertainty([OPS], shares(0.7, 0.1, 0.1, 0.1)) == pytest.approx(1)  # "none" is apart
    assert uncertainty([OPS], shares(0.0, 1.0, 0.0, 0.0)) == 0
    assert uncertainty([OPS], {}) == 0


def test_of_nine_options_a_quarter_for_one_is_no_decision_and_half_is_one() -> None:
    nine = Choice("op", "op", tuple("abcdefghi"))

    def said(first: float) -> list[str]:
        rest = (1 - first) / 8
        of_options = dict.fromkeys(nine.options, rest) | {"a": first}
        return undecided([nine], {"op": ("a",)}, {"op": of_options}, 9)

    assert said(0.25) == [NO_FAVOUR]
    assert said(0.5) == []


def test_the_gravest_is_said_alone() -> None:
    even = shares(0.25, 0.25, 0.25, 0.25)
    assert undecided([OPS], KEPT, even, 0) == [NO_STEP]
    assert undecided([OPS], {"op": ("conv", "pool", "skip")}, even, 1) == [ALL_KEPT]
    width = Choice("width", "width", ("0", "1", "2"))
    of_ops = {"op": ("conv", "pool", "skip")}
    assert undecided([OPS, width], {**of_ops, "width": ("0", "1", "2")}, even, 1) == [ALL_KEPT]
    assert ALL_KEPT not in undecided([OPS, width], {**of_ops, "width": ("0", "2")}, even, 1)
    assert undecided([OPS], KEPT, even, None) == [NO_FAVOUR]  # begun before anybody counted


def test_to_rule_some_out_is_a_decision_and_to_rule_all_out_is_none() -> None:
    even, some = shares(0.25, 0.25, 0.25, 0.25), torch.tensor([[[False, True, False, False]]])
    assert undecided([OPS], KEPT, even, 9, [torch.zeros_like(some)]) == [NO_FAVOUR]
    assert undecided([OPS], KEPT, even, 9, [some]) == []
    assert undecided([OPS], KEPT, even, 9, [torch.ones_like(some)]) == [ALL_RULED_OUT]


@pytest.mark.parametrize(("warmup", "said"), [(0.9, NO_STEP), (0.0, NO_FAVOUR)])
def test_a_search_tells_it_and_its_result_and_the_report_keep_it(
    warmup: float, said: str, bright: Images, tmp_path: Path
) -> None:
    told: list[Progress] = []
    runtime = Runtime.start("cpu", 0, told.append)
    loop = make(bright, tmp_path, Darts, runtime, SPACE, epochs=1, warmup=warmup)
    loop.run()
    found = loop.found()
    assert [p.note for p in told if p.note in (NO_STEP, NO_FAVOUR)] == [said]
    assert found.to_json()["warnings"] == [said]
    assert found.watched["gate_steps"] == (0 if said == NO_STEP else 2)
    write_json(tmp_path / "architecture.json", found.to_json())
    assert f"T{said[1:]}." in report(tmp_path)


def test_what_learns_nothing_of_the_gates_is_not_blamed(bright: Images, tmp_path: Path) -> None:
    for method in (Random, Rsps):
        loop = make(bright, tmp_path / method.__name__, method, epochs=1, space=SMALL)
        loop.run()
        assert loop.found().warnings == ()
        assert "gate_steps" not in loop.found().watched


def test_a_search_that_has_decided_says_nothing(bright: Images, tmp_path: Path) -> None:
    loop = make(bright, tmp_path, epochs=6)  # drifts towards skip connections
    loop.run()
    assert loop.found().warnings == ()
