"""The bench of rivals: the same images and CPU seconds for all; goes on from where it stopped."""

from pathlib import Path

import pytest
import torch
from torch import nn

from ardor.bench.rivals import rivals as bench
from ardor.bench.rivals.nets import cnn, residual
from ardor.bench.rivals.rivals import Job, interval, jobs, outcome, rivals
from ardor.bench.rivals.sets import SETS, cut, prepared
from ardor.errors import ArdorError


def unheard(line: str) -> None:
    """Nobody listens."""


@pytest.mark.parametrize(("side", "weights"), [(32, 24_000), (64, 61_000)])
def test_the_cnn_is_what_a_person_writes(side: int, weights: int) -> None:
    net = cnn((3, side, side), 10)
    count = sum(p.numel() for p in net.parameters())
    assert 0.9 * weights < count < 1.1 * weights
    assert net(torch.zeros(2, 3, side, side)).shape == (2, 10)


def test_the_small_residual_network_is_small() -> None:
    net = residual((3, 32, 32), 10)
    assert 30_000 < sum(p.numel() for p in net.parameters()) < 33_000
    assert isinstance(net[3].around, nn.Identity)  # the first pair keeps its size
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_seeds_share_the_test_images_alone(real_data: Path) -> None:
    first, second = (cut(SETS["fashion-6000"], seed, real_data) for seed in (0, 1))
    assert torch.bincount(first.train.labels).tolist() == [600] * 10
    assert len(first.test) == 10_000
    assert torch.equal(first.test.pixels, second.test.pixels)
    assert not torch.equal(first.train.pixels, second.train.pixels)


def test_a_contender_ends_with_its_time(tmp_path: Path) -> None:
    file = prepared("digits", 0, None, tmp_path)
    found = outcome(Job("digits", 2 / 60, "cnn", 0), file)
    assert found["accuracy"] > 0.5
    assert found["cpu_seconds"] > 1.9
    assert found["params"] >= found["nonzero_params"] > 20_000
    assert found["latency_ms"] > 0


def test_what_is_done_is_not_done_again_and_a_table_says_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def measured(job: Job, images: Path) -> dict[str, float]:
        made.append(job.name)
        if job.contender == "cnn" and made.count(job.name) == 1:
            raise KeyboardInterrupt
        return {"accuracy": 0.9, "cpu_seconds": 1.0, "test_images": 359}

    monkeypatch.setattr(bench, "in_own_process", measured)
    asked = {"images": ("digits",), "time": "1m", "seeds": 1, "command": "ardor bench rivals"}
    with pytest.raises(KeyboardInterrupt):
        rivals(tmp_path, say=unheard, **asked)
    begun = rivals(tmp_path, so_far=True, say=unheard, **asked)["table"]
    assert [row["contender"] for row in begun] == ["ardor", "random"]
    whole = rivals(tmp_path, say=unheard, **asked)["table"]
    assert made.count("digits-1m-ardor-0") == 1
    assert made.count("digits-1m-cnn-0") == 2
    assert [row["contender"] for row in whole] == ["ardor", "random", "cnn", "residual", "svm"]


def test_the_plan_has_short_times_first_and_long_sets_once() -> None:
    planned = list(jobs(None, (), ("cnn",), ()))
    assert len(planned) == 2 * 2 * 5 + 1
    assert [job.minutes for job in planned[:11]] == [1.0] * 5 + [5.0] * 5 + [20.0]
    assert {job.images for job in planned} == set(SETS)


def test_the_interval_counts_the_images_and_the_seeds() -> None:
    assert interval(0.9, 10_000, [0.9]) == pytest.approx(1.96 * 0.003, rel=1e-3)
    assert 0.005 < interval(1.0, 359, [1.0]) < 0.006  # none wrong of 359 is no certainty
    assert interval(0.9, 10_000, [0.88, 0.92]) == pytest.approx(1.96 * 0.02)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"images": ("digit",)}, "unknown set of images 'digit'"),
        ({"methods": ("cnnn",)}, "unknown contender 'cnnn'"),
        ({"images": ("cifar10",), "time": "1m"}, "needs a folder 'cifar10'"),
        ({"time": "soon"}, "must be a time"),
    ],
)
def test_what_is_not_there_is_told_in_a_line(
    asked: dict[str, object], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ArdorError, match=words):
        rivals(tmp_path, command="ardor bench rivals", say=unheard, **asked)
