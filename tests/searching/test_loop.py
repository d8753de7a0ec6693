"""The search loop: warm-up, whose images teach whom, which gates are kept."""

import json
from pathlib import Path

import pytest
import torch
from standins.toy import Toy
from torch import Tensor

from ardor import methods
from ardor.architecture import Choice, against_odds, certainty
from ardor.data import Images
from ardor.models.scores import logits_of
from ardor.runtime.device import Runtime
from ardor.schedules import cosine, ramp
from ardor.searching.loop import SearchLoop, halves, search
from ardor.settings.sections import SearchConfig
from ardor.spaces import Net
from ardor.training.optimise import rate_at

BASE = SearchConfig(epochs=6, batch=8, augment=(), warmup=0.5, rate=0.05, gate_rate=0.2)


def lines(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def run(images: Images, folder: Path, name: str = "darts", **changes: object) -> object:
    runtime = Runtime.start("cpu", 0)
    method = methods.make(name, Toy(), {})
    config = BASE.model_copy(update=changes)
    return search(Toy(), method, images, config, run=folder, runtime=runtime)


def test_gates_rest_while_weights_warm_up(bright: Images, tmp_path: Path) -> None:
    run(bright, tmp_path)
    seen = lines(tmp_path)
    assert [line["warmup"] for line in seen] == [True] * 3 + [False] * 3
    assert seen[0]["probabilities"] == seen[2]["probabilities"] != seen[3]["probabilities"]
    assert "gates" not in seen[2]
    assert "gates" in seen[3]


@pytest.mark.parametrize("keep", ["best", "last"])
def test_the_gates_kept_are_the_best_or_the_last(keep: str, bright: Images, tmp_path: Path) -> None:
    found = run(bright, tmp_path, keep=keep)
    learning = [line for line in lines(tmp_path) if not line["warmup"]]
    best = max(learning, key=lambda line: line["held_out"]["accuracy"])
    expected = best if keep == "best" else learning[-1]
    assert found.probabilities == expected["probabilities"]


@pytest.mark.parametrize(
    ("changes", "seen"), [({}, [16] * 6), ({"keep": "best"}, [32] * 6), ({"time": 60.0}, [32] * 6)]
)
def test_all_held_out_images_are_seen_where_something_hangs_on_it(
    changes: dict[str, object],
    seen: list[int],
    bright: Images,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = []

    def look(net: Net, images: Images, *others: object) -> Tensor:
        looks.append(len(images))
        return logits_of(net, images, *others)

    monkeypatch.setattr("ardor.searching.held_out.CURVE", 16)
    monkeypatch.setattr("ardor.searching.held_out.logits_of", look)
    monkeypatch.setattr("ardor.searching.ranking.logits_of", look)
    run(bright, tmp_path, **changes)
    assert looks[:6] == seen
    assert looks[6:] == [32]  # what is drawn in the end


@pytest.mark.parametrize(("held_out", "sizes"), [(0.5, (32, 32)), (0.25, (48, 16))])
def test_weights_and_gates_learn_from_different_images(
    held_out: float, sizes: tuple[int, int], bright: Images
) -> None:
    parts = halves(bright, BASE.model_copy(update={"held_out": held_out}), seed=0)
    assert tuple(map(len, parts)) == sizes
    train, kept = ({tuple(p.flatten().tolist()) for p in part.pixels} for part in parts)
    assert not train & kept


def test_a_fraction_of_the_images_can_do(bright: Images) -> None:
    parts = halves(bright, BASE.model_copy(update={"fraction": 0.5}), seed=0)
    assert [part.labels.bincount().tolist() for part in parts] == [[8, 8], [8, 8]]


def test_a_search_without_epochs_draws_from_the_prior(bright: Images, tmp_path: Path) -> None:
    found = run(bright, tmp_path, name="random", epochs=0, candidates=1)
    assert len(found.candidates) == 1


def test_candidates_are_ranked_and_not_repeated(bright: Images, tmp_path: Path) -> None:
    found = run(bright, tmp_path, name="rsps", epochs=2, candidates=30)
    architectures = [candidate.architecture for candidate in found.candidates]
    assert len(set(architectures)) == len(architectures) <= 6
    keys = [(-c.accuracy, c.nll) for c in found.candidates]
    assert keys == sorted(keys)


def test_rates_follow_their_schedules() -> None:
    config = BASE.model_copy(update={"rate": 0.1, "rate_end": 0.02})
    assert [rate_at(config, p) for p in (0.0, 0.5, 1.0)] == pytest.approx([0.1, 0.06, 0.02])
    flat = config.model_copy(update={"schedule": "constant"})
    assert rate_at(flat, 0.9) == pytest.approx(0.1)
    assert cosine(0.25) == pytest.approx(0.853553, abs=1e-6)
    assert [ramp(p, start=0.5) for p in (0.0, 0.5, 0.75, 1.0)] == [0.0, 0.0, 0.5, 1.0]


def loop_of(
    images: Images, folder: Path, name: str = "darts", terms: dict[str, float] | None = None
) -> SearchLoop:
    config = BASE.model_copy(update={"clip": 1e-5, "gate_schedule": "cosine", "held_out": 0.25})
    parts, runtime = halves(images, config, 0), Runtime.start("cpu", 0)
    method = methods.make(name, Toy(), terms or {})
    return SearchLoop(Toy(), method, parts, config, folder, runtime)


def test_steps_are_as_long_as_rates_and_clip_say(bright: Images, tmp_path: Path) -> None:
    loop = loop_of(bright, tmp_path)
    loop.run()
    last = 1 - 1 / 36  # of six steps in each of six epochs
    rates = [o.param_groups[0]["lr"] for o in (loop.learner.optimiser, loop.learner.gate_optimiser)]
    assert rates == pytest.approx([rate_at(loop.config, last), 0.2 * cosine(last)])
    length = torch.stack([weight.grad.norm() for weight in loop.learner.weights]).norm()
    assert length.item() == pytest.approx(1e-5, rel=1e-3)


@pytest.mark.parametrize(("term", "images"), [("kl_weights", 48), ("kl_gates", 16)])
def test_a_kl_counts_once_for_all_images_that_are_learned_from(
    term: str, images: int, bright: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.nn.utils.clip_grad_norm_", lambda *_: None)
    found = []
    for count in (1.0, 3.0):
        loop = loop_of(bright, tmp_path, "vinnas", {term: count, f"{term}_start": 0.0})
        loop.stage.epoch = 3  # halfway
        kl = loop.net.kl() if term == "kl_weights" else sum(loop.method.kl_gates())
        learning = loop.learner.weights if term == "kl_weights" else loop.learner.gates
        slopes = torch.autograd.grad(kl, learning, allow_unused=True)
        loop.step(*(loop.batch(half, torch.arange(len(half)), 0) for half in loop.halves))
        found.append([parameter.grad for parameter in learning])
    for slope, once, thrice in zip(slopes, *found, strict=True):
        expected = torch.zeros_like(once) if slope is None else slope / images
        assert torch.allclose(thrice - once, expected, rtol=1e-3, atol=1e-5)


def test_certainty_is_that_of_what_is_kept_and_not_of_what_is_likeliest() -> None:
    shares = {"a": {"x": 0.9, "y": 0.1}, "b": {"x": 0.5, "y": 0.5}, "c": {"x": 1.0}}
    assert certainty({"a": ("y",), "b": ("x",), "c": ()}, shares) == pytest.approx(0.3)
    assert certainty({"a": ("x",)}, {}) == 0.0


def test_what_is_kept_against_the_odds_is_named_with_what_is_likelier() -> None:
    shares = {"a": {"x": 0.2, "y": 0.5, "none": 0.3}, "b": {"x": 0.3, "none": 0.7}}
    options, families = ("x", "y", "none"), ("conv", "pool", "none")
    choices = [Choice(name, "op", options, families=families) for name in ("a", "b")]
    choices.append(Choice("c", "op", ("x", "z")))
    (found,) = against_odds(choices, {"a": ("x",), "b": ("x",), "c": ("z",)}, shares)
    assert (found.choice, found.kept, found.probability) == ("a", "x", 0.2)
    assert (found.likelier, found.likelier_probability) == ("y", 0.5)
    assert against_odds(choices, {"a": ("y",)}, shares) == []


def test_the_learned_gates_do_better_than_even_ones(bright: Images, tmp_path: Path) -> None:
    found = run(bright, tmp_path, epochs=10)
    shares = found.probabilities["look"]
    assert shares["signal"] > 0.5
    assert torch.tensor(list(shares.values())).sum().item() == pytest.approx(1.0)
