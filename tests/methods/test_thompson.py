"""Thompson sampling: scores move it, other images are its prior, alike choices tell each other."""

import itertools
from collections.abc import Mapping

import pytest
import torch
from torch import nn

from ardor import methods, spaces
from ardor.architecture import Architecture
from ardor.methods import _priors
from ardor.methods._price import Costs
from ardor.methods.thompson import Thompson
from ardor.models.sizes import multiply_adds
from ardor.spaces import Space, network


@pytest.fixture
def space() -> Space:
    settings = {"image": (1, 16, 16), "classes": 3, "widths": (4, 4), "depth": 1}
    return spaces.make("blocks", settings)


def alone(space: Space, **settings: float) -> Thompson:
    """Without the prior of other images."""
    return Thompson(space, without=tuple(names()), **settings)


def names() -> set[str]:
    rows = _priors.rows("blocks")
    return {row["images"] for row in rows}


def liking(likes: Mapping[str, str]) -> "Score":
    return lambda found: float(sum(o in found.options[c] for c, o in likes.items()))


Score = type(lambda found: 0.0)


def learned(method: Thompson, likes: Mapping[str, str], times: int = 25) -> Architecture:
    torch.manual_seed(0)
    for _ in range(times):
        method.learn_from(liking(likes))
    return method.draw(1)[0]


def test_it_finds_what_scores_best(space: Space) -> None:
    likes = {"stage1-half": "stride-pair", "stage1-block1": "sep-5x5", "stage2-block1": "skip"}
    found = learned(alone(space, spread=1.0), likes)
    assert {name: found.options[name] for name in likes} == {n: (o,) for n, o in likes.items()}


def test_the_best_is_drawn_more_and_more_often(space: Space) -> None:
    method, likes = alone(space, spread=1.0), {"stage1-block1": "pair"}
    at = space.choices[1].options.index("pair")
    before = method.probabilities()["stage1-block1"][..., at].item()
    learned(method, likes)
    after = method.probabilities()["stage1-block1"][..., at].item()
    assert before == pytest.approx(1 / 9, abs=0.01)
    assert after > 0.9
    kept = [method.sample(1, 0.0)["stage1-block1"][..., at].item() for _ in range(20)]
    assert sum(kept) > 15


def test_what_is_known_of_a_block_tells_of_the_same_block_elsewhere(space: Space) -> None:
    likes = {"stage1-block1": "expand-3"}
    for alike, told in ((0.9, True), (0.0, False)):
        method = alone(space, alike=alike)
        learned(method, likes, 10)
        other = method.strengths()["mean"]["stage2-block1"].flatten()
        best = method.space.choices[4].options[int(other.argmax())]
        assert (best == "expand-3" and other.max() > 0.05) == told


def test_the_prior_is_what_other_images_say_and_stays_as_it_was(space: Space) -> None:
    method = Thompson(space)
    before = method.strengths()["prior"]
    for name, best in method.probabilities().items():
        assert torch.equal(before[name], best)
    learned(method, {"stage1-block1": "pair"})
    for name, best in method.strengths()["prior"].items():
        assert torch.equal(before[name], best)


def test_a_set_that_is_left_out_leaves_nothing_behind(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _priors.rows("blocks")
    one = sorted(names())[0]
    without = Thompson(space, without=(one,)).precision
    assert not torch.equal(without, Thompson(space).precision)
    others = [row for row in rows if row["images"] != one]
    monkeypatch.setattr(_priors, "rows", lambda space: others)
    assert torch.equal(without, Thompson(space).precision)


def test_without_other_evidence_the_network_found_by_hand_is_the_likeliest() -> None:
    space = spaces.make("blocks", {"image": (3, 32, 32)})
    by_hand = _priors.believed("blocks")
    found = Thompson(space, without=tuple(names())).draw(1)[0].options
    assert {name: found[name] for name in by_hand} == by_hand
    doubted = Thompson(space, without=tuple(names()), belief=0.0)
    assert not doubted.shift.any()


def test_what_other_images_showed_can_be_stronger_than_what_was_found_by_hand(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"stage1-half": "pool-3x3", "stage1-block1": "skip"}
    lines = [{"images": "a", "score": "0", **one}]
    lines += [{"images": "a", "score": "0.5", **one, "stage1-block1": "pair"}]
    monkeypatch.setattr(_priors, "rows", lambda space: lines)
    found = Thompson(space).draw(1)[0].options
    assert found["stage1-block1"] == ("pair",)
    assert found["stage1-half"] == ("pool-3x3",)


def test_a_space_without_a_prior_begins_with_none_it_favours(space: Space) -> None:
    cells = spaces.make("cells", {"layout": "R", "states": 1})
    shares = Thompson(cells).probabilities()
    for choice in Thompson(cells).scored:
        open_ = [
            s
            for s, o in zip(shares[choice.name].flatten().tolist(), choice.options, strict=True)
            if o != "none"
        ]
        assert max(open_) - min(open_) < 0.02


def test_the_file_says_of_every_network_what_was_kept_of_each_choice() -> None:
    space = spaces.make("blocks", {"image": (3, 32, 32)})
    options = {choice.name: choice.options for choice in space.choices if choice.kind == "op"}
    rows = _priors.rows("blocks")
    assert len(names()) >= 4
    for row in rows:
        assert float(row["score"]) > -3
        for choice, allowed in options.items():
            assert row[choice] in allowed


def cost(space: Space, kept: Mapping[str, tuple[str, ...]]) -> float:
    """The weights of convolutions and linear maps, and ten for each multiply-add for a pixel."""
    net = network(space.architecture(dict(kept)))
    layers = [m for m in net.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    pixels = space.image[1] * space.image[2]
    weights = sum(layer.weight.numel() for layer in layers)
    return weights + 10 * multiply_adds(net, space.image) / pixels


def test_nothing_of_its_cost_is_stronger_than_what_is_found(space: Space) -> None:
    torch.manual_seed(3)
    free = alone(space, spread=1.0)
    learned(free, {"stage1-half": "stride-pair", "stage1-block1": "pair", "stage2-block1": "5x5"})
    mean = free.strengths()["mean"]
    choices = [choice for choice in space.choices if choice.kind == "op"]
    whole = {c.name: c.options for c in space.choices if c.kind == "width"}
    every = {}
    for kept in itertools.product(*(choice.options for choice in choices)):
        names = {c.name: (o,) for c, o in zip(choices, kept, strict=True)}
        worth = sum(
            float(mean[n][0, 0, c.options.index(o)])
            for c, (n, (o,)) in zip(choices, names.items(), strict=True)
        )
        every[kept] = (worth, names)
    for most in (1200, 1600, 2400):
        method = alone(space, spread=1.0, max_cost=most)
        method.precision.copy_(free.precision), method.shift.copy_(free.shift)
        method.price.fill_(method.present_price())
        found = method.draw(1)[0]
        size = cost(space, found.options)
        assert size <= most
        own = every[tuple(found.options[c.name][0] for c in choices)][0]
        better = [names for worth, names in every.values() if worth > own + 1e-6]
        assert all(cost(space, whole | names) > size for names in better[:200])


def test_a_bound_that_nothing_keeps_leaves_the_smallest(space: Space) -> None:
    method = alone(space, max_cost=1)
    kept = method.draw(1)[0].options
    assert kept["stage1-block1"] == kept["stage2-block1"] == ("skip",)


def test_the_cost_of_a_network_is_that_of_its_parts(space: Space) -> None:
    choices = [choice for choice in space.choices if choice.kind == "op"]
    whole = {c.name: c.options for c in space.choices if c.kind == "width"}
    costs = Costs(space, tuple(choice.name for choice in choices))
    for seed in range(6):
        torch.manual_seed(seed)
        kept = methods.make("random", space, {}).draw(1)[0].options
        parts = [costs.under[c.name][c.options.index(kept[c.name][0])] for c in choices]
        expected = cost(space, {**kept, **whole})
        assert costs.fixed + float(sum(parts)) == pytest.approx(expected, rel=1e-5)
