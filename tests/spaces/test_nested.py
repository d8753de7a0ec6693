"""Choices inside the options of others: they leave with those, and are drawn between them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from standins.nested import build, conv
from torch import Tensor, nn

import ardor
from ardor import spaces
from ardor.architecture import Choice
from ardor.bayes import Gates
from ardor.data import Images
from ardor.errors import ArdorError
from ardor.methods.darts import Darts
from ardor.models.sizes import parameters
from ardor.reporting.cells import cells
from ardor.runtime.device import Runtime
from ardor.searching.loop import SearchLoop, halves
from ardor.searching.shrink import leaving
from ardor.settings.sections import SearchConfig
from ardor.spaces import Space

EMPTY = {"inner": (), "width": (), "last": (), "join": ()}
WIDTH = ("0", "1", "2", "3")
DEEP = {"inner": ("pool",), "width": WIDTH, "last": ("conv",), "join": ()}


def nested() -> Space:
    return spaces.of_function(build)(image=(1, 8, 8), classes=2)


def named(space: Space) -> Mapping[str, Choice]:
    return {choice.name: choice for choice in space.choices}


def gates(**shares: list[float]) -> Gates:
    return {name: torch.tensor([[share]]) for name, share in shares.items()}


def space_of(*layers: Callable[[], nn.Module]) -> Space:
    def build(image: Any, classes: int) -> nn.Module:
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, classes)]
        return nn.Sequential(conv(image[0], 4, 1), *(layer() for layer in layers), *head)

    return spaces.of_function(build)(image=(1, 8, 8), classes=2)


def test_each_choice_says_in_which_option_it_stands() -> None:
    assert {name: choice.inside for name, choice in named(nested()).items()} == {
        "outer": None,
        "inner": ("outer", "deep"),
        "join": ("inner", "deeper"),
        "width": ("outer", "deep"),
        "last": ("outer", "deep"),
        "after": None,
    }


def test_what_stands_inside_an_option_does_not_make_its_family() -> None:
    options = {
        "pool": nn.Sequential(nn.MaxPool2d(3, 1, 1), leaf("a")),
        "conv": nn.Sequential(nn.Conv2d(4, 4, 1), leaf("b")),
    }
    space = space_of(lambda: ardor.LayerChoice(options, name="top"))
    assert named(space)["top"].families == ("pool", "conv")


def leaf(name: str) -> ardor.LayerChoice:
    separable = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Conv2d(4, 4, 1))
    return ardor.LayerChoice({"sep": separable, "skip": nn.Identity()}, name=name)


def test_copies_in_several_options_stand_in_what_is_around_all_of_them() -> None:
    def top() -> nn.Module:
        both = {"one": leaf("leaf"), "two": nn.Sequential(leaf("leaf"), leaf("own"))}
        middle = ardor.LayerChoice(both, name="middle")
        return ardor.LayerChoice({"deep": middle, "skip": nn.Identity()}, name="top")

    inside = {name: choice.inside for name, choice in named(space_of(top)).items()}
    assert inside == {
        "top": None, "middle": ("top", "deep"), "leaf": ("top", "deep"), "own": ("middle", "two")
    }  # fmt: skip
    free = named(space_of(top, lambda: leaf("leaf")))
    assert free["leaf"].inside is None  # one of the copies stands in no option


def test_nothing_is_kept_inside_an_option_that_is_left_out() -> None:
    space = nested()
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices}
    plain = space.strongest({**scores, **gates(outer=[0.0, 1.0, 0.5])}).options
    assert {name: plain[name] for name in EMPTY} == EMPTY
    low = {**scores, **gates(outer=[0.0, 0.9, 0.1])}
    assert {name: space.subset(low).options[name] for name in EMPTY} == EMPTY
    deep = space.strongest({**scores, **gates(outer=[0, 0, 1.0], inner=[1.0, 0])}).options
    assert deep["inner"] == ("pool",)
    assert deep["join"] == ()
    assert deep["width"]


def test_what_stands_inside_is_counted_with_what_is_around_it() -> None:
    draws = gates()
    draws["outer"] = torch.eye(3)[[1, 2, 2, 2]][:, None]
    draws["inner"] = torch.eye(2)[[0, 0, 1, 0]][:, None]
    tree, after = nested().strongest_of_each(draws)
    counts = {(dict(kept)["outer"], dict(kept)["inner"]): n for kept, n in tree.items()}
    assert counts == {(("plain",), ()): 1, (("deep",), ("pool",)): 2, (("deep",), ("deeper",)): 1}
    assert [name for name, _ in next(iter(after))] == ["after"]


def test_an_option_goes_when_nothing_inside_it_is_over_the_threshold() -> None:
    space = nested()
    likely = gates(outer=[0, 0.2, 0.9], inner=[0.4, 0.3], after=[0.9, 0.1])
    assert space.subset(likely).options["outer"] == ()
    likely = gates(outer=[0, 0.2, 0.9], inner=[0.6, 0.7], join=[0.1, 0.2], after=[0.9, 0.1])
    kept = space.subset(likely).options  # "deeper" must read one of two, and "last" need not
    assert kept["outer"] == ("deep",)
    assert kept["inner"] == ("pool",)
    assert kept["join"] == ()


def test_where_nothing_is_no_answer_the_likeliest_stays_with_the_likeliest_inside() -> None:
    def top() -> nn.Module:
        return ardor.LayerChoice({"deep": leaf("leaf"), "conv": nn.Conv2d(4, 4, 1)}, name="top")

    space = space_of(top)
    kept = space.subset(gates(top=[0.4, 0.3], leaf=[0.1, 0.2])).options
    assert kept == {"top": ("deep",), "leaf": ("skip",)}
    space.check(space.architecture({"top": ("conv",), "leaf": ()}))
    with pytest.raises(ArdorError, match="nothing is kept of leaf"):
        space.check(space.architecture({"top": ("deep",), "leaf": ()}))


def test_what_is_taken_out_takes_the_weights_inside_along() -> None:
    space = nested()
    net = space.build()
    choices = named(space)
    assert net.weight_norms(choices["last"])[:, 1].gt(0).all()
    net.take_out(choices["outer"], "deep")
    assert not net.weight_norms(choices["last"]).any()
    held = {id(p) for same in net.decisions.values() for one in same for p in one.parameters()}
    assert held <= {id(p) for p in net.parameters()}  # so that their memory is free
    network = space.build(space.architecture({"outer": ("plain",), **EMPTY, "after": ("skip",)}))
    held = {id(p) for same in network.decisions.values() for one in same for p in one.parameters()}
    assert held <= {id(p) for p in network.parameters()}
    assert parameters(network) < parameters(net)


def test_an_option_that_ends_in_a_choice_of_nothing_is_idle() -> None:
    space = nested()
    kept = {"outer": ("plain", "deep"), "after": ("skip",), **DEEP}
    assert space.build(space.architecture(kept)).idle() == []
    net = space.build(space.architecture({**kept, "last": ()}))
    assert [name for _, name in net.idle()] == ["deep", "deep"]
    images = torch.randn(2, 1, 8, 8)
    before = net.eval()(images)
    for candidates, name in net.idle():
        del candidates[name]
    assert torch.equal(net(images), before)


def test_nested_options_are_drawn_between_the_node_they_read_and_the_end() -> None:
    space = nested()
    choices = named(space)
    assert [(c.source, c.target) for c in space.choices] == [
        (0, 3), (1, 2), (None, None), (None, None), (2, 3), (0, 1)
    ]  # fmt: skip
    assert choices["inner"].place.title == "outer"
    assert choices["after"].place.title == "network"
    kept = {"outer": ("plain", "deep"), "after": ("skip",), **DEEP}
    tree, row = cells(space.architecture(kept), space.choices)
    assert [(e.source, e.target, e.operation) for e in tree.edges] == [
        ("0", "1", "deep"), ("1", "2", "pool"), ("0", "3", "plain"), ("2", "3", "conv")
    ]  # fmt: skip
    assert (tree.inputs, tree.states) == (("0",), ("1", "2", "3"))
    assert [(e.source, e.target, e.operation) for e in row.edges] == [("0", "1", "skip")]
    kept = {**kept, **EMPTY, "outer": ("plain",)}
    tree, _ = cells(space.architecture(kept), space.choices)
    assert (tree.inputs, tree.states) == (("0",), ("3",))


def test_a_search_takes_out_what_stands_inside_an_option_that_leaves(
    bright: Images, tmp_path: Path
) -> None:
    space, config = nested(), SearchConfig(epochs=3, warmup=0, batch=8, augment=(), shrink=1)
    method = Darts(space)
    method.logits["outer"].data[..., 2] = -9.0
    loop = SearchLoop(
        space, method, halves(bright, config, 0), config, tmp_path, Runtime.start("cpu", 0)
    )
    before = parameters(loop.net)
    loop.run()
    gone = {
        name
        for name, left in method.removed.items()
        if len(left) == len(named(space)[name].options)
    }
    assert gone == {"inner", "join", "width", "last"}
    assert {choice.name for choice in method.choices("op", "edge", "width")} == {"outer", "after"}
    assert parameters(loop.net) < before
    found = loop.found()
    assert {name: found.architecture.options[name] for name in EMPTY} == EMPTY


def test_what_has_left_before_keeps_its_epoch() -> None:
    method = Darts(nested())
    method.removed = {"inner": {"pool": 1}}
    method.logits["outer"].data[..., 2] = -9.0
    left = leaving(method, {"outer": {"deep": 3}}, 3)
    names = [(choice.name, option) for choice, option in left]
    assert names[0] == ("outer", "deep")
    assert ("inner", "deeper") in names
    assert ("inner", "pool") not in names
    assert [name for name, _ in names].count("width") == 4


def test_gates_of_nested_choices_multiply() -> None:
    space, images = nested(), torch.randn(3, 1, 8, 8)
    net = space.build()
    chosen = {c.name: torch.rand(2, 1, len(c.options)) for c in space.choices}
    chosen["after"] = torch.rand(1, 1, 2)

    def around(x: Tensor, at: int) -> Tensor:
        gate = {name: each[min(at, len(each) - 1), 0] for name, each in chosen.items()}
        outer = net.module[1 + at].layers
        first, inner, _, last = outer.mixed.candidates["deep"]
        y = first(x)
        ways = [way(y) for way in inner.mixed.candidates["deeper"].ways]
        joined = sum(g * way for g, way in zip(gate["join"], ways, strict=True))
        y = gate["inner"][0] * inner.mixed.candidates["pool"](y) + gate["inner"][1] * joined
        y = gate["width"][:, None, None] * y
        conv, point = last.mixed.candidates.values()
        y = gate["last"][1] * conv(y) + gate["last"][2] * point(y)
        return x + gate["outer"][1] * outer.mixed.candidates["plain"](x) + gate["outer"][2] * y

    x = around(around(net.module[0](images), 0), 1)
    after = net.module[3].mixed.candidates
    x = chosen["after"][0, 0, 0] * x + chosen["after"][0, 0, 1] * after["conv"](x)
    expected = net.module[6](net.module[5](net.module[4](x)))
    assert torch.allclose(net(images, chosen), expected, atol=1e-5)
