"""The page of a run that made a network smaller: its words, its layers, and its cycles."""

import json
import re
from pathlib import Path

import pytest

from ardor.architecture import Architecture
from ardor.reporting import report
from ardor.reporting.compression import sentences, times
from ardor.reporting.pruning_curve import networks, taken, way

CONFIG = {
    "stages": ["compress", "export", "evaluate", "report"],
    "data": {"source": "data/CIFAR10"},
    "space": {"name": "resnet20"},
    "method": {"name": "thompson"},
    "compress": {"prior": "log-uniform", "groups": ["filters", "weights"]},
}
METRICS = {
    "trained_params": 50610, "trained_macs": 50200, "trained_nonzero_params": 50610,
    "params": 5100, "macs": 5000, "nonzero_params": 4900,
    "test_accuracy": 0.981, "trained_test_accuracy": 0.985,
    "stages": {"compress": {"seconds": 80, "peak_memory_mb": 500}},
}  # fmt: skip
SIZES = (50000, 30000, 15000, 20000, 10000, 4905, 4950, 4905, 4800)  # 15,000 and 4,800 are given up


def points(*sizes: int) -> dict[str, object]:
    found = [{"params": n, "macs": n, "accuracy": 0.9, "nll": 0.3} for n in sizes]
    return {"images": "held-out", "points": found}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    of = [{"layer": "module.1", "before": {"outputs": 9, "weights": 81}, "after": {}}]
    epoch = {"stage": "compress", "epoch": 1, "seconds": 1, "train": {"accuracy": 0.9}}
    for file, content in {
        "config.json": CONFIG,
        "architecture.json": {**Architecture.of("resnet20", {}, {}).to_json(), "choices": []},
        "metrics.json": METRICS,
        "curve.json": points(*SIZES),
        "layers.json": {"layers": of},
        "log.jsonl": epoch,
    }.items():
        (tmp_path / file).write_text(json.dumps(content))
    return tmp_path


def text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.partition("</style>")[2]).split())


def test_the_page_says_what_came_out(run: Path) -> None:
    page = report(run)
    assert "<h1>resnet20 on CIFAR10</h1>" in page
    said = text(page)
    for words in (
        "Compressed: 10 times fewer parameters (4,900 of 50,610) and 10 times fewer multiply-adds",
        "Accuracy on test images: 98.1 %, before 98.5 %.",
        "the prior log-uniform, over filters and weights",
        "98.5 % before compression",
        "Layers, before and after",
        "1: has left altogether",
        "How the compression went",
        "Compressing, 1 epoch",
        "What compression costs",
        "on held-out images;",
        "the whole network 50,000",
        "cycle 4 10,000",
        "Compressing 1 min 20 s",
    ):
        assert words in said, words
    for word in ("pruning", "threshold", "thompson on", "None"):
        assert word not in said.partition("Settings")[0], word


def test_a_module_given_in_a_script_is_called_by_its_class(run: Path) -> None:
    named = {**CONFIG, "space": {"name": "__main__.Sequential_0a1b2c3d"}}
    (run / "config.json").write_text(json.dumps(named))
    assert "<h1>Sequential on CIFAR10</h1>" in report(run)


def test_a_searched_network_is_called_by_its_space_once_it_is_made_smaller(run: Path) -> None:
    found = Architecture.of("blocks", {}, {"a": ("b",)}).to_json()
    (run / "architecture.json").write_text(json.dumps({**found, "choices": []}))
    (run / "config.json").write_text(json.dumps({**CONFIG, "space": {"name": "blocks"}}))
    assert "<h1>blocks on CIFAR10</h1>" in report(run)


def test_the_network_that_was_taken_is_the_last_of_its_size() -> None:
    found = networks(points(*SIZES))
    assert [network.cycle for network in found] == list(range(9))
    last = taken(found, {"nonzero_params": 4903})  # a few more weights have become zero
    assert last is found[7]
    led = [network.params for network in way(found, last)]
    assert led == [50000, 30000, 20000, 10000, 4950, 4905]
    assert taken(found, {}) is None
    assert way(found, None)[-1] is found[-1]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [(50, 5, "10"), (50, 13, "3.8"), (5e6, 5e3, "1,000"), (50, 50, ""), (50, 49, ""), (50, 0, "")],
)
def test_how_many_times_smaller(old: float, new: float, words: str) -> None:
    assert times(old, new) == words


def test_a_network_that_stayed_as_it_is_is_not_called_smaller() -> None:
    same = {**METRICS, "nonzero_params": 50610, "macs": 50200}
    first = next(sentences(same, CONFIG))
    assert first.startswith("Compressed: as many parameters (50,610 of 50,610) and as many")
    assert list(sentences(METRICS, {**CONFIG, "stages": ["train", "prune"]})) == []
    assert list(sentences({}, CONFIG)) == []
