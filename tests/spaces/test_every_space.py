"""One suite for every space: those that come with Ardor join by existing, others by name."""

import json
import sys
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from conftest import stopping_at
from torch import Tensor, nn

from ardor import discover, methods, spaces
from ardor.architecture import Architecture, Choice
from ardor.data import Images, Normalise
from ardor.errors import ArdorError, Interrupted
from ardor.layers.norms import measured, norms_of
from ardor.layers.variational import Variational, VariationalConv2d
from ardor.models import exporters
from ardor.models.model import Model
from ardor.models.sizes import multiply_adds, parameters
from ardor.models.smaller import compact, prune
from ardor.reporting.drawing import draw
from ardor.runtime.device import Runtime
from ardor.searching.handover import cut_out
from ardor.searching.loop import search
from ardor.searching.result import SearchResult
from ardor.settings import fields
from ardor.settings.merge import resolve
from ardor.spaces import Net, Space
from ardor.training.start import take_

ROOT = str(Path(__file__).parents[2])
OWN = ["examples.mobile", "standins.built", "standins.nested", "standins.toy"]
# What makes a space small; every other one has few channels, where it has channels.
SMALL = {
    "cells": {"layout": "NR", "states": 2, "channels": 4, "ops": "darts"},
    "cells, bn-relu-conv": {"layout": "NRN", "states": 2, "channels": 4, "ops": "seven"},
    "nasbench201": {"channels": 4, "cells": 1},
    "pyramid": {"planes": 4, "alpha": 4},
    "enas": {"channels": 4, "depth": 0},
    "bottleneck": {"channels": 4, "inner": 4},
    "dense": {"channels": 4, "growth": 4},
    "examples.mobile": {"channels": 4, "depth": 2},
}

every = pytest.mark.parametrize("name", [*spaces.names(), "cells, bn-relu-conv", *OWN])


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setattr(discover, "_trusted", {*discover._trusted, *OWN})


def small(name: str) -> Space:
    """The space for images as `bright` has them; after a comma stands the order of its cells."""
    module, comma, order = name.partition(", ")
    known = fields.of(spaces.find(module)).model_fields
    sizes = SMALL.get(name, {"channels": 4} if "channels" in known else {})
    sizes = {**sizes, "order": order} if comma else sizes
    return spaces.make(module, {"image": (1, 8, 8), "classes": 2, **sizes})


def scores(space: Space) -> dict[str, Tensor]:
    return {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices}


def drawn(space: Space, how: str, seed: int = 0) -> Architecture:
    """A random architecture whose network computes the same each time."""
    for attempt in count(seed):
        torch.manual_seed(attempt)
        found = (
            space.strongest(scores(space)) if how == "strongest" else space.subset(scores(space))
        )
        net, images = space.build(found).eval(), torch.randn(2, *space.image)
        if torch.equal(net(images), net(images)):
            return found
    raise AssertionError


def loaded(net: Net, other: Net) -> Net:
    """The net with the weights of another that has them under the same names."""
    given = other.state_dict()
    missing, _ = net.load_state_dict(
        {n: w for n, w in given.items() if n in net.state_dict()}, False
    )
    assert not {n for n in missing if n.endswith((".weight", ".bias"))} & set(given)
    return net


def model(space: Space, architecture: Architecture) -> Model:
    """A network with statistics and scales that are not those of its start."""
    net = space.build(architecture).train()
    for norm in (m for m in net.modules() if isinstance(m, nn.BatchNorm2d) and m.affine):
        nn.init.normal_(norm.weight, 1.0, 0.3)
        nn.init.normal_(norm.bias, 0.0, 0.5)
    with torch.no_grad():
        net(3 * torch.randn(64, *space.image))
    normalise = Normalise(torch.zeros(space.image[0]), torch.ones(space.image[0]))
    names = tuple(f"class{at}" for at in range(space.classes))
    return Model(net, normalise, architecture, names).eval()


def logits(net: nn.Module, images: Tensor, gates: dict[str, Tensor] | None = None) -> Tensor:
    """With the same random numbers each time: some spaces have noise for a candidate."""
    torch.manual_seed(7)
    found: Tensor = net(images) if gates is None else net(images, gates)
    return found


@every
def test_its_choices_are_distinct_and_say_what_they_are(name: str) -> None:
    space = small(name)
    assert space.choices
    assert space.choices == small(name).choices
    assert len({choice.name for choice in space.choices}) == len(space.choices)
    for choice in space.choices:
        assert len(choice.families) in (0, len(choice.options))
        assert choice.kind in ("op", "edge", "width")


@every
@pytest.mark.parametrize("conv", [nn.Conv2d, VariationalConv2d])
def test_gates_of_every_shape_reach_the_loss(name: str, conv: type[nn.Conv2d]) -> None:
    space = small(name)
    net = space.build(conv=conv)
    assert any(isinstance(m, Variational) for m in net.modules()) == (conv is not nn.Conv2d)
    for one in (True, False):
        gates = {
            c.name: torch.rand(1 if one else c.copies, 1 if one else 6, len(c.options))
            .add(0.5)
            .requires_grad_()
            for c in space.choices
        }
        found = net(torch.randn(6, *space.image), gates)
        assert found.shape == (6, space.classes)
        slopes = torch.autograd.grad(found.square().sum(), list(gates.values()))
        assert all(slope.isfinite().all() for slope in slopes)
        assert sum(float(slope.abs().sum()) for slope in slopes) > 0


@every
@pytest.mark.parametrize("how", ["strongest", "subset"])
@pytest.mark.parametrize("hard", [False, True])
def test_under_hard_gates_it_is_the_network_with_those_candidates(
    name: str, how: str, hard: bool
) -> None:
    space, images = small(name), torch.randn(5, *small(name).image)
    for seed in range(3):
        found = drawn(space, how, seed)
        net = space.build()
        net.hard_gates_(hard)
        gates = {key: gate.requires_grad_() for key, gate in space.masks(found).items()}
        network = loaded(space.build(found, as_searched=True), net)
        assert torch.allclose(logits(net, images, gates), logits(network, images), atol=1e-5)
        assert parameters(network) <= parameters(net)


@every
@pytest.mark.parametrize("conv", [nn.Conv2d, VariationalConv2d])
def test_what_a_search_hands_on_is_what_its_network_begins_with(
    name: str, conv: type[nn.Conv2d], tmp_path: Path
) -> None:
    space, images = small(name), torch.randn(5, *small(name).image)
    found = drawn(space, "subset")
    supernet, net = (
        space.build(conv=conv).eval(),
        spaces.network(found, conv=conv, as_searched=True),
    )
    take_(net, found, cut_out(supernet, space, found, conv), tmp_path)
    with torch.no_grad(), measured(norms_of(net)):
        logits(net.eval(), images)
    assert torch.allclose(
        logits(net, images), logits(supernet, images, space.masks(found)), atol=1e-5
    )


@every
def test_what_is_taken_out_leaves_the_rest_as_it_was(name: str) -> None:
    space, images = small(name), torch.randn(5, *small(name).image)
    for choice in space.choices:
        for option in choice.options[:2]:
            net = space.build()
            gates = {c.name: torch.rand(1, 1, len(c.options)) + 0.5 for c in space.choices}
            gates[choice.name][..., choice.options.index(option)] = 0
            before = logits(net, images, gates)
            norms = net.weight_norms(choice)
            net.take_out(choice, option)
            net.take_out(choice, option)  # once more changes nothing
            assert torch.allclose(logits(net, images, gates), before, atol=1e-5)
            assert norms.shape == net.weight_norms(choice).shape == sizes_of(choice)
            gates[choice.name][..., choice.options.index(option)] = 1
            assert torch.allclose(logits(net, images, gates), before, atol=1e-5)


def sizes_of(choice: Choice) -> tuple[int, int]:
    return choice.copies, len(choice.options)


@every
@pytest.mark.parametrize("how", ["strongest", "subset"])
def test_architectures_come_back_from_their_files(name: str, how: str) -> None:
    space = small(name)
    for seed in range(3):
        found = drawn(space, how, seed)
        again = Architecture.from_json(json.loads(str(found)))
        assert again == found
        assert spaces.of(again) == space
        assert space.adopted(again) == found
    with pytest.raises(ArdorError, match="does not belong to this space"):
        space.check(Architecture.of(found.space, dict(found.settings), {"nothing": ()}))


@every
def test_unscored_choices_are_open_and_best_options_win(name: str) -> None:
    space = small(name)
    space.check(space.strongest({}))
    space.check(space.subset({}))
    torch.manual_seed(0)
    each = space.strongest_of_each(
        {c.name: torch.rand(50, 1, len(c.options)) for c in space.choices if c.kind == "op"}
    )
    decided = [choice for counts in each for choice, _ in next(iter(counts))]
    assert sorted(decided) == sorted(choice.name for choice in space.choices)
    nothing = {c.name: torch.zeros(1, 1, len(c.options)) for c in space.choices}
    space.check(space.subset(nothing))
    assert space.build(space.subset(nothing))(torch.randn(2, *space.image)).isfinite().all()


@every
def test_it_can_be_drawn(name: str) -> None:
    space = small(name)
    found = drawn(space, "strongest")
    shares = {
        c.name: dict(zip(c.options, torch.rand(len(c.options)).tolist(), strict=True))
        for c in space.choices
    }
    for picture in (draw(found, space.choices), draw(found, space.choices, shares)):
        root = ElementTree.fromstring(picture)
        assert float(root.get("width", "0")) > 100
        words = " ".join(root.itertext())
        assert any(
            str(option).replace("_", " ")[:3] in words for _, kept in found.kept for option in kept
        )


@every
@pytest.mark.parametrize("how", ["strongest", "subset"])
def test_pruned_cut_saved_and_exported_it_computes_the_same(
    name: str, how: str, tmp_path: Path
) -> None:
    space = small(name)
    full = model(space, drawn(space, how))
    assert multiply_adds(full.net, space.image) > 0
    lean, pixels = compact(prune(full)), 100 * torch.rand(4, *space.image)
    assert parameters(lean.net) <= parameters(full.net)
    with torch.no_grad():
        assert torch.allclose(lean(pixels), full(pixels), rtol=1e-4, atol=1e-4)
        lean.save(tmp_path / "model", card="")
        assert torch.equal(Model.load(tmp_path / "model")(pixels), lean(pixels))
        largest = float(lean(pixels).abs().max())
    for form in exporters.names():
        found = exporters.export(form, lean, pixels)
        assert found.difference < found.allowed <= 1e-4 * max(1.0, largest)


@every
def test_a_search_that_is_stopped_and_resumed_is_the_same(
    name: str, bright: Images, tmp_path: Path
) -> None:
    whole = searched(name, bright, tmp_path / "whole", Runtime.start("cpu", 0))
    for stop in (1, 4):
        with pytest.raises(Interrupted):
            searched(name, bright, tmp_path / "broken", stopping_at(stop))
    assert searched(name, bright, tmp_path / "broken", Runtime.start("cpu", 0)) == whole
    small(name).check(whole.architecture)


def searched(name: str, images: Images, run: Path, runtime: Runtime) -> SearchResult:
    space = small(name)
    # Where only channels are chosen, most methods have nothing to decide.
    known = "vinnas" if {c.kind for c in space.choices} != {"width"} else "pgnas"
    own = {"search": dict(methods.find(known).search)}
    settings = {"batch": 8, "augment": [], "epochs": 2, "warmup": 0.3, "candidates": 3}
    config = resolve(own, {"search": settings}).search
    method = methods.make(known, space, {})
    return search(space, method, images, config, run=run, runtime=runtime)


def test_the_examples_are_found_where_they_are() -> None:
    assert small("examples.mobile").choices
    assert sys.modules["examples.mobile"].__file__ == f"{ROOT}/examples/mobile.py"
