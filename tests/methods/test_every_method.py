"""One suite for every method: those that come with Ardor join by existing, stand-ins by name."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from conftest import stopping_at
from standins import built, nested
from standins.toy import Toy
from torch import Tensor, nn

from ardor import methods, spaces
from ardor.architecture import Architecture, certainty
from ardor.data import Images
from ardor.errors import Interrupted
from ardor.methods import Method
from ardor.runtime.device import Runtime
from ardor.searching.loop import search
from ardor.searching.result import SearchResult
from ardor.settings.merge import resolve
from ardor.settings.sections import SearchConfig
from ardor.spaces import Space
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import Nasbench201

STANDINS = ["standins.semi_implicit", "standins.concrete", "standins.switches"]
METHODS = {
    **{name: (name, {}) for name in [*methods.names(), *STANDINS]},
    "darts, second order": ("darts", {"order": 2}),
    "vinnas, magnitude": ("vinnas", {"select": "magnitude"}),
    "vinnas, likeliest": ("vinnas", {"select": "likeliest"}),
    "vinnas, hierarchical": ("vinnas", {"tie": "hierarchical"}),
    "sivdnas, straight-through": ("sivdnas", {"gradient": "straight-through", "derive": "sample"}),
    "sivdnas, concrete": (
        "sivdnas",
        {"gradient": "concrete", "weights": "raw", "edges": False},
    ),
    "sivdnas, H-VDNAS": ("sivdnas", {"noise": "gaussian"}),
    "bayesnas, code": ("bayesnas", {"dependency": "code", "classes": "drawn", "cycles": 2}),
    "pgnas, strongest": ("pgnas", {"derive": "strongest", "l2": "constant"}),
    "pgnas, constant": ("pgnas", {"rates": "constant"}),
}
CELLS = Cells(image=(1, 8, 8), classes=2, layout="NR", states=2, channels=2, ops="darts")
PLACES = Cells(
    image=(1, 8, 8),
    classes=2,
    layout="NRN",
    states=1,
    channels=2,
    ops="none,sep_conv_3x3,skip_connect",
    shared=False,
)
SPACES = {
    "cells": CELLS,
    "places": PLACES,
    "nasbench201": Nasbench201(image=(1, 8, 8), classes=2, channels=2, cells=1),
    "toy": Toy(),
    "module": spaces.of_function(built.build)(image=(1, 8, 8), classes=2, channels=2),
    "nested": spaces.of_function(nested.build)(image=(1, 8, 8), classes=2, channels=2),
    "residual": spaces.make("residual", {"image": (1, 8, 8), "classes": 2, "channels": 2}),
}

every = pytest.mark.parametrize("name", METHODS)
everywhere = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
# Every method in every space, and its other settings in one: what they change, no space sees.
SEARCHES = [
    pytest.param(name, space, id=f"{place}-{name}")
    for place, space in SPACES.items()
    for name, (_, settings) in METHODS.items()
    if place == "places" or not settings
]


def make(name: str, space: Space) -> Method:
    torch.manual_seed(0)
    return methods.make(METHODS[name][0], space, METHODS[name][1])


def config_of(name: str, **settings: object) -> SearchConfig:
    own = {"search": dict(methods.find(METHODS[name][0]).search)}
    return resolve(own, {"search": {"batch": 16, "augment": [], **settings}}).search


def find(name: str, space: Space, images: Images, run: Path, **settings: object) -> SearchResult:
    runtime = Runtime.start("cpu", 0)
    method = make(name, space)
    return search(space, method, images, config_of(name, **settings), run=run, runtime=runtime)


@every
@everywhere
@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_gates_fit_the_choices_and_the_net(name: str, space: Space, progress: float) -> None:
    method, choices = make(name, space), {c.name: c for c in space.choices}
    gates = method.sample(6, progress)
    assert gates
    for key, gate in gates.items():
        copies, batch, options = gate.shape
        assert copies in (1, choices[key].copies)
        assert batch in (1, 6)
        assert options == len(choices[key].options)
        assert gate.isfinite().all()
    net = space.build(conv=method.conv)
    logits = net(torch.randn(6, *space.image), gates)
    assert logits.shape == (6, space.classes)
    assert logits.isfinite().all()


@every
@everywhere
def test_every_parameter_learns(name: str, space: Space) -> None:
    method = make(name, space)
    net = space.build(conv=method.conv)
    moved = {key: False for key, _ in method.named_parameters()}
    for _ in range(20):  # hard draws leave some gates out of a step
        gates = method.sample(8, 0.5)
        loss = net(torch.randn(8, *space.image), gates).square().sum()
        loss = loss + sum(method.penalty(gates, net, 0.5).values())
        found = (
            torch.autograd.grad(loss, list(method.parameters()), allow_unused=True) if moved else ()
        )
        for key, gradient in zip(moved, found, strict=True):
            moved[key] |= gradient is not None and bool(gradient.abs().sum() > 0)
            assert gradient is None or gradient.isfinite().all()
        if all(moved.values()):
            break
    assert all(moved.values()), moved


@every
@everywhere
def test_probabilities_are_probabilities(name: str, space: Space) -> None:
    choices = {c.name: c for c in space.choices}
    for key, share in make(name, space).probabilities().items():
        assert share.shape[1:] == (1, len(choices[key].options))
        assert share.shape[0] in (1, choices[key].copies)
        assert (share >= 0).all()
        assert (share <= 1).all()
        assert not share.requires_grad


@every
@everywhere
@pytest.mark.parametrize("count", [1, 5])
def test_draws_can_be_built_and_written(name: str, space: Space, count: int) -> None:
    drawn = make(name, space).draw(count)
    assert 1 <= len(drawn) <= count
    for architecture in drawn:
        space.check(architecture)
        assert Architecture.from_json(json.loads(str(architecture))) == architecture
        assert space.build(architecture)(torch.randn(2, *space.image)).isfinite().all()


@every
@everywhere
def test_penalties_are_named_numbers(name: str, space: Space) -> None:
    method = make(name, space)
    net = space.build(conv=method.conv)
    for progress in (0.0, 1.0):
        for term, value in method.penalty(method.sample(4, progress), net, progress).items():
            assert term.isidentifier()
            assert value.shape == ()
            assert value.isfinite()


@every
@everywhere
def test_saved_and_loaded_it_is_the_same_posterior(name: str, space: Space) -> None:
    method, other = make(name, space), make(name, space)
    for parameter in method.parameters():
        nn.init.normal_(parameter)
    other.load_state_dict(method.state_dict())
    ours, theirs = method.probabilities(), other.probabilities()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    torch.manual_seed(2)
    drawn = method.draw(3)
    torch.manual_seed(2)
    assert other.draw(3) == drawn


@every
@everywhere
def test_the_mean_of_equal_posteriors_is_each_of_them(name: str, space: Space) -> None:
    method, pooled = make(name, space), make(name, space)
    torch.manual_seed(1)
    for key, entry in method.state_dict().items():
        drawn = torch.randn_like(entry)
        entry.copy_(drawn @ drawn.T if "precision" in key else drawn)  # a matrix, positive definite
    pooled.pool([method, method])
    for mine, its in zip(
        pooled.probabilities().values(), method.probabilities().values(), strict=True
    ):
        assert torch.allclose(mine, its, atol=1e-5)
    torch.manual_seed(2)
    drawn = pooled.draw(3)
    torch.manual_seed(2)
    assert drawn == method.draw(3)


@every
@everywhere
def test_what_has_left_is_out_of_the_posterior(name: str, space: Space) -> None:
    method = make(name, space)
    if not method.given_up():
        pytest.skip("gives up nothing")
    for parameter in method.parameters():
        nn.init.normal_(parameter)
    choice = method.choices("op")[0]
    at = int(method.probabilities()[choice.name].flatten().argmax())
    method.removed = {choice.name: {choice.options[at]: 1}}
    assert method.probabilities()[choice.name][..., at].eq(0).all()
    assert all(choice.options[at] not in a.options[choice.name] for a in method.draw(3))
    net, loss = space.build(conv=method.conv), torch.zeros(())
    for _ in range(12):  # hard draws leave some gates out of a step
        gates = method.sample(4, 0.0)
        assert gates[choice.name][..., at].eq(0).all()
        if method.learns_by_scores:
            continue
        loss = loss + net(torch.randn(4, *space.image), gates).square().sum()
        loss = sum(method.penalty(gates, net, 1.0).values(), loss)
    if method.learns_by_scores:
        return
    slopes = torch.autograd.grad(loss, list(method.parameters()))
    assert all(slope.isfinite().all() for slope in slopes)
    named = zip(method.named_parameters(), slopes, strict=True)
    ours = [slope for (key, _), slope in named if key.endswith(choice.name)]
    assert ours
    assert all(slope[..., at].eq(0).all() for slope in ours)
    moved = [bool(slope.ne(0).any()) for slope in ours]
    # A softmax over the one option that is left does not move.
    assert all(moved) if len(method.remaining(choice)) > 1 else any(moved)


@every
def test_choices_inside_what_has_left_are_no_choices_any_more(name: str) -> None:
    space = SPACES["nested"]
    method = make(name, space)
    if not method.given_up():
        pytest.skip("gives up nothing")
    inside = [c for c in space.choices if c.name not in ("outer", "after")]
    gone = {choice.name: dict.fromkeys(choice.options, 1) for choice in inside}
    method.removed = {"outer": {"deep": 1}, **gone}
    gates, net = method.sample(4, 0.5), space.build(conv=method.conv)
    for known in (gates, method.probabilities()):
        assert not any(known[choice].any() for choice in gone.keys() & known.keys())
    assert all(term.isfinite() for term in method.penalty(gates, net, 1.0).values())
    for found in method.draw(3):
        space.check(found)
        assert not any(found.options[choice] for choice in gone)
    assert sum(len(counts) > 0 for counts in method.decision_counts(10)) in (0, 2)


@every
@everywhere
def test_what_would_be_kept_is_never_given_up(name: str, space: Space) -> None:
    """Wherever the parameters are: also where zero, or noise, has taken over every choice."""
    method, given = make(name, space), 0
    for seed in range(12):
        torch.manual_seed(seed)
        move(method, 6.0)
        flags = method.given_up()  # which may draw, and leaves the random numbers as they are
        kept = space.masks(method.draw(1)[0])
        assert not any((out & (kept[key] > 0)).any() for key, out in flags.items())
        given += sum(int(out.sum()) for out in flags.values())
    assert given or not flags


def move(method: Method, std: float) -> None:
    """Leads the posterior somewhere far from where it begins."""
    for parameter in method.parameters():
        nn.init.normal_(parameter, std=std)
    if method.learns_by_scores:
        liked = {c.name: torch.randn(len(c.options)) for c in method.space.choices}
        for _ in range(30):
            method.learn_from(lambda found: score_of(method.space, found, liked))
    if type(method).refit is not Method.refit:
        for parameter in method.parameters():  # whole groups at zero, where their norm leads them
            parameter.data.mul_(torch.rand_like(parameter[:1]) < 0.5)
        method.refit(lambda gates, **_: {key: torch.rand_like(g) for key, g in gates.items()})


def score_of(space: Space, found: Architecture, liked: Mapping[str, Tensor]) -> float:
    """The sum of what is liked of its options."""
    return sum(float((space.masks(found)[key] * liked[key]).sum()) for key in liked)


@pytest.mark.parametrize(("name", "space"), SEARCHES)
def test_a_search_logs_every_term_and_ends_in_the_space(
    name: str, space: Space, bright: Images, tmp_path: Path
) -> None:
    found = find(name, space, bright, tmp_path, epochs=2, warmup=0.5)
    space.check(found.architecture)
    assert found.candidates[0].architecture == found.architecture
    accuracies = [candidate.accuracy for candidate in found.candidates]
    assert accuracies == sorted(accuracies, reverse=True)
    first, last = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    terms = dict(last["train"])
    total, accuracy = terms.pop("loss"), terms.pop("accuracy")
    assert total == pytest.approx(sum(terms.values()), rel=1e-4, abs=1e-5)
    assert 0 <= accuracy <= 1
    assert first["warmup"]
    assert not last["warmup"] or not list(make(name, space).parameters())
    assert 0 <= last["certainty"] <= 1
    if "watch" in last:  # which says what would be kept
        assert last["certainty"] == pytest.approx(
            certainty(last["watch"]["kept"], last["probabilities"])
        )


@every
def test_stopped_at_any_step_and_resumed_it_is_the_same(
    name: str, bright: Images, tmp_path: Path
) -> None:
    whole = find(name, PLACES, bright, tmp_path / "whole", epochs=2)
    broken = tmp_path / "broken"
    for stop in (1, 2):  # the first step, and then two steps later
        runtime, settings = stopping_at(stop), config_of(name, epochs=2)
        with pytest.raises(Interrupted):
            search(PLACES, make(name, PLACES), bright, settings, run=broken, runtime=runtime)
        torch.manual_seed(99)
    assert find(name, PLACES, bright, broken, epochs=2) == whole
    ends = [next((tmp_path / k / "checkpoint").glob("search-00002*")) for k in ("whole", "broken")]
    assert ends[0].read_bytes() == ends[1].read_bytes()


@every
def test_it_finds_the_one_option_that_sees_the_image(
    name: str, bright: Images, tmp_path: Path
) -> None:
    settings = {"epochs": 12, "warmup": 0.1, "batch": 8, "rate": 0.02, "gate_rate": 0.05}
    found = find(name, Toy(), bright, tmp_path, candidates=12, **settings)
    assert "signal" in found.architecture.options["look"]
    # These only rank, or say what may go and have no order: gamma is large where nothing bends.
    only = ("random", "rsps", "standins.concrete", "bayesnas", "bayesnas, code", "pgnas, constant")
    if name not in only:
        shares = found.probabilities["look"]
        assert max(shares, key=shares.__getitem__) == "signal"
