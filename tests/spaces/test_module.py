"""Spaces of functions: what a module's choices mean, and what is said where they make no sense."""

import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ardor
from ardor import discover, spaces
from ardor.architecture import Architecture
from ardor.data import Normalise
from ardor.errors import ArdorError
from ardor.layers.operations import OPS
from ardor.layers.style import Style
from ardor.layers.variational import Variational, VariationalConv2d, VariationalLinear
from ardor.models.model import Model
from ardor.models.sizes import parameters
from ardor.models.smaller import compact
from ardor.spaces import Space

IMAGE = {"image": (2, 8, 8), "classes": 3}


def space_of(function: Callable[..., Any], **settings: Any) -> Space:
    function.__name__ = "build"
    return spaces.of_function(function)(**{**IMAGE, **settings})


def built(**settings: Any) -> Space:
    return spaces.make("standins.built", {**IMAGE, "channels": 6, **settings})


def head(channels: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def row(*layers: Callable[[], nn.Module], channels: int = 4) -> Callable[..., nn.Module]:
    """A function that puts such layers between a stem and a head."""
    return lambda image, classes: nn.Sequential(
        nn.Conv2d(image[0], channels, 1), *(layer() for layer in layers), head(channels, classes)
    )


def two(name: str = "a", channels: int = 4) -> ardor.LayerChoice:
    options = {"skip": nn.Identity(), "conv": nn.Conv2d(channels, channels, 3, padding=1)}
    return ardor.LayerChoice(options, name=name)


def test_choices_are_what_the_walk_meets() -> None:
    choices = {c.name: c for c in built().choices}
    assert list(choices) == ["width", "halve", "body", "join"]
    assert [c.kind for c in choices.values()] == ["width", "op", "op", "edge"]
    assert [(c.source, c.target) for c in choices.values()] == [
        (None, None), (0, 1), (1, 2), (None, None),
    ]  # fmt: skip
    assert choices["body"].copies == 2
    assert choices["body"].families == ("none", "conv", "conv")
    assert choices["halve"].families == ("conv", "pool", "conv")
    assert {c.place.title for c in choices.values()} == {"network"}
    assert choices["width"].options == tuple("012345")


def test_gates_weigh_candidates_inputs_and_channels_of_each_copy_and_image() -> None:
    space, images = built(), torch.randn(5, 2, 8, 8)
    net = space.build()
    gates = {
        c.name: torch.rand(c.copies, 1 if c.kind == "op" else 5, len(c.options))
        for c in space.choices
    }
    module = net.module
    stem = module.stem(images) * gates["width"][0][:, :, None, None]

    def layer(choice: ardor.LayerChoice, x: Tensor, gate: Tensor) -> Tensor:
        made = {o: c(x) for o, c in choice.mixed.candidates.items()}
        return sum(gate[:, choice.options.index(o), None, None, None] * y for o, y in made.items())

    x = layer(module.halve, stem, gates["halve"][0])
    first = x + layer(module.bodies[0], x, gates["body"][0])
    second = first + layer(module.bodies[1], first, gates["body"][1])
    parts = zip(gates["join"][0].T, (x, first, second), strict=True)
    joined = sum(gate[:, None, None, None] * part for gate, part in parts)
    assert torch.allclose(net(images, gates), module.head(joined), atol=1e-5)
    assert not torch.allclose(net(images, gates), net(images), atol=1e-2)


def test_what_is_shut_is_not_computed() -> None:
    space, calls = built(), []
    net = space.build()
    net.module.bodies[0].mixed.candidates["deep"].register_forward_hook(
        lambda *_: calls.append("deep")
    )
    gates = {"body": torch.tensor([[[0.0, 1.0, 0.0]]], requires_grad=True)}
    net(torch.randn(2, 2, 8, 8), gates)
    assert calls == ["deep"]  # its gate may learn
    net.hard_gates_(True)
    net(torch.randn(2, 2, 8, 8), gates)
    assert calls == ["deep"]
    nothing = {"body": torch.zeros(1, 1, 3)}
    assert net(torch.randn(2, 2, 8, 8), nothing).isfinite().all()


def test_the_best_of_each_is_kept() -> None:
    space = built()
    scores = {
        "halve": torch.tensor([[[1.0, 2.0, 0.0]]]),
        "body": torch.tensor([[[0.1, 0.0, 0.3]], [[0.3, 0.5, 0.4]]]),  # the mean of both decides
        "join": torch.tensor([[[3.0, 1.0, 2.0]]]),
        "width": torch.tensor([[[0.0, 1.0, 5.0, 0.0, 3.0, 0.0]]]),
    }
    kept = space.strongest(scores).options
    assert kept == {
        "halve": ("pool",), "body": ("deep",), "join": ("before", "second"), "width": ("2", "4")
    }  # fmt: skip
    none = {**scores, "body": torch.tensor([[[9.0, 0.0, 0.3]]])}
    assert space.strongest(none).options["body"] == ()
    everything = space.strongest({}).options
    assert everything["body"] == ("conv", "deep")
    assert everything["width"] == tuple("012345")
    each = space.strongest_of_each({"body": torch.eye(3)[[0, 1, 1, 2, 1]][:, None]})
    (body,) = [counts for counts in each if next(iter(counts))[0][0] == "body"]
    assert {kept: n for ((_, kept),), n in body.items()} == {(): 1, ("conv",): 3, ("deep",): 1}


def test_a_layer_keeps_nothing_only_where_that_is_an_answer() -> None:
    space = built()
    low = {
        c.name: 0.1 + 0.01 * torch.arange(float(len(c.options)))[None, None] for c in space.choices
    }
    kept = space.subset(low).options
    assert kept == {"halve": ("point",), "body": (), "join": ("second",), "width": ("5",)}
    empty = {**kept, "halve": ()}
    with pytest.raises(ArdorError, match="nothing is kept of halve"):
        space.check(space.architecture(empty))
    with pytest.raises(ArdorError, match="'none' is kept of body"):
        space.check(space.architecture({**kept, "body": ("none",)}))


def test_norms_and_weights_are_as_the_search_and_then_the_network_needs_them() -> None:
    space = built()
    torch.manual_seed(3)
    plain = space.build()
    torch.manual_seed(3)
    drawn = space.build(conv=VariationalConv2d)
    for net in (plain, drawn):
        norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
        assert norms
        assert not any(m.affine or m.track_running_stats for m in norms)
    states = plain.state_dict(), drawn.state_dict()
    assert all(torch.equal(w, states[1][n]) for n, w in states[0].items())
    layers = [m for m in drawn.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    assert all(isinstance(m, Variational) for m in layers)
    assert drawn.kl().item() > 0
    assert plain.kl().item() == 0
    network = space.build(space.strongest({}), conv=VariationalConv2d)
    assert isinstance(network.module.head[2], VariationalLinear)
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert all(m.affine and m.track_running_stats for m in norms)


def test_convolutions_keep_their_settings() -> None:
    def choice() -> nn.Module:
        strange = nn.Conv2d(
            4, 4, (3, 1), stride=2, padding=(2, 1), groups=2, padding_mode="reflect"
        )
        grid = nn.Conv2d(4, 4, 3, padding="same", dilation=2)
        options = {"a": nn.Sequential(strange, grid), "b": nn.Sequential(strange, nn.Identity())}
        return ardor.LayerChoice(options, name="x")

    space = space_of(row(choice))
    drawn, plain = space.build(conv=VariationalConv2d), space.build()
    drawn.sample_weights_(False)
    images = torch.randn(2, 2, 8, 8)
    drawn.load_state_dict(plain.state_dict(), strict=False)
    assert torch.allclose(drawn(images), plain(images), atol=1e-6)
    first, second = (c[0] for c in drawn.module[1].mixed.candidates.values())
    assert first is second  # a layer in two places stays one


def test_layers_that_work_in_place_do_not_spoil_the_input_of_others() -> None:
    space = space_of(candidates(relu=nn.ReLU(inplace=True), skip=nn.Identity()))
    net, images = space.build(), torch.randn(2, 2, 8, 8)
    stem = net.module[0](images)
    assert torch.allclose(net(images), net.module[2](stem.relu() + stem), atol=1e-6)


def test_ardors_own_operations_are_candidates_too() -> None:
    def choice() -> nn.Module:
        options = {name: OPS[name](4, 1, Style()) for name in ("sep_conv_3x3", "max_pool_3x3")}
        return ardor.LayerChoice({**options, "none": None}, name="x")

    space = space_of(row(choice))
    assert space.choices[0].families == ("separable", "pool", "none")
    net, images = space.build(), torch.randn(4, 2, 8, 8)
    stem, gates = net.module[0](images), torch.tensor([[[0.3, 2.0, 9.0]]])
    made = [c(stem) for c in net.module[1].mixed.candidates.values()]
    expected = net.module[2](0.3 * made[0] + 2 * made[1])
    assert torch.allclose(net(images, {"x": gates}), expected, atol=1e-4)


def test_a_choice_may_stand_within_a_candidate() -> None:
    def choice() -> nn.Module:
        outer = {"skip": nn.Identity(), "deep": nn.Sequential(two("inner"), nn.ReLU())}
        return ardor.LayerChoice(outer, name="outer")

    space = space_of(row(choice))
    assert [c.name for c in space.choices] == ["outer", "inner"]
    kept = {"outer": ("skip",), "inner": ("conv",)}
    network = space.build(space.architecture(kept))
    assert parameters(network) == parameters(space.build()) - (4 * 4 * 9 + 4)
    kept["outer"] = ("deep",)
    assert parameters(space.build(space.architecture(kept))) > parameters(network)


@pytest.mark.parametrize("kept", [("1", "4"), ("0", "1", "2", "3", "5")])
def test_channels_under_a_mask_are_cut_out(kept: tuple[str, ...], tmp_path: Path) -> None:
    layers = (
        lambda: nn.BatchNorm2d(6),
        nn.ReLU,
        lambda: ardor.WidthChoice(6, name="width"),
        lambda: nn.Conv2d(6, 6, 3, padding=1, bias=False),
    )
    space = space_of(row(*layers, channels=6))
    architecture = space.architecture({"width": kept})
    net = space.build(architecture)
    assert [int(x) for x in net.module[3].mask.weight.flatten().nonzero()] == list(map(int, kept))
    model = Model(net, Normalise(torch.zeros(2), torch.ones(2)), architecture, tuple("abc")).eval()
    lean, pixels = compact(model), torch.randn(4, 2, 8, 8)
    assert lean.net.module[0].out_channels == len(kept)
    assert lean.net.module[4].in_channels == len(kept)
    assert lean.net.module[3].mask.weight.flatten().tolist() == [1.0] * len(kept)
    assert torch.allclose(lean(pixels), model(pixels), atol=1e-5)
    lean.save(tmp_path / "model", card="")
    assert torch.equal(Model.load(tmp_path / "model")(pixels), lean(pixels))


def test_a_layer_of_nothing_leaves_channels_to_be_cut() -> None:
    space = built(channels=8)
    kept = {**space.strongest({}).options, "body": (), "halve": ("conv",), "width": ("0", "7")}
    architecture = space.architecture(kept)
    net = space.build(architecture)
    with torch.no_grad():
        net.module.halve.mixed.candidates["conv"][1].weight[3:] = 0
    model = Model(net, Normalise(torch.zeros(2), torch.ones(2)), architecture, tuple("abc")).eval()
    lean, pixels = compact(model), torch.randn(4, 2, 8, 8)
    assert lean.net.module.head[2].in_features == 3
    assert lean.net.module.stem[0].out_channels == 2
    assert torch.allclose(lean(pixels), model(pixels), atol=1e-5)


def test_candidates_that_bring_only_zeros_leave() -> None:
    space = built()
    architecture = space.strongest({})
    net = space.build(architecture)
    with torch.no_grad():
        for body in net.module.bodies:
            body.mixed.candidates["deep"][-1][1].weight.zero_()
    model = Model(net, Normalise(torch.zeros(2), torch.ones(2)), architecture, tuple("abc")).eval()
    lean, pixels = compact(model), torch.randn(4, 2, 8, 8)
    assert [list(b.mixed.candidates) for b in lean.net.module.bodies] == [["conv"], ["conv"]]
    assert torch.allclose(lean(pixels), model(pixels), atol=1e-5)


class Residual(nn.Module):
    """Ends in a BatchNorm, and is not silent when that is zero."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(x)


def residual() -> nn.Module:
    return ardor.LayerChoice({"a": Residual(), "b": nn.MaxPool2d(3, 1, 1)}, name="x")


class InPlace(nn.Module):
    """Functions as people write them: in place, and activations beyond ReLU."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.choice = nn.BatchNorm2d(8), two("x", channels=8)
        self.head = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x)), inplace=True)
        y = F.silu(self.second(F.relu6(x)))
        y += self.choice(x)
        y[:, 0] = 0
        return self.head(F.dropout(y.relu_().mean((2, 3)), training=self.training))


def test_pruning_understands_what_is_written_in_place() -> None:
    space = space_of(lambda image, classes: InPlace(classes))
    for seed in range(4):
        torch.manual_seed(seed)
        architecture = space.strongest({"x": torch.rand(1, 1, 2)})
        net = space.build(architecture).eval()
        with torch.no_grad():
            net.module.norm.bias.normal_()
            for layer in (net.module.first, net.module.second):
                layer.weight[torch.rand(8) < 0.6] = 0
        model = Model(net, Normalise(torch.zeros(2), torch.ones(2)), architecture, tuple("abc"))
        lean, pixels = compact(model.eval()), torch.randn(4, 2, 8, 8)
        assert torch.allclose(lean(pixels), model(pixels), atol=1e-5)


def test_a_zero_norm_within_a_candidate_does_not_make_it_silent() -> None:
    space = space_of(row(residual))
    net = space.build(space.strongest({}))
    nn.init.zeros_(net.module[1].mixed.candidates["a"].norm.weight)
    assert net.idle() == []


def test_thousands_of_channels_are_quick(tmp_path: Path) -> None:
    many = 4096
    space = space_of(
        lambda image, classes: nn.Sequential(
            nn.Conv2d(2, many, 1), ardor.WidthChoice(many, name="width"), head(many, classes)
        )
    )
    begin = time.process_time()
    (choice,) = space.choices
    net = space.build()
    net(torch.randn(2, 2, 8, 8), {"width": torch.rand(1, 2, many)}).sum().backward()
    assert net.weight_norms(choice).shape == (1, many)
    found = space.subset({"width": torch.rand(1, 1, many)})
    space.check(found)
    assert space.masks(found)["width"].sum() == len(found.options["width"])
    assert spaces.of(again := Architecture.from_json(json.loads(str(found)))) == space
    assert again == found
    assert len(str(found)) < 20_000
    assert len(str(space.strongest({}))) < 300
    assert len(space.strongest({"width": torch.rand(1, 1, many)}).options["width"]) > many // 3
    space.build(found)
    for option in choice.options:
        net.take_out(choice, option)
    assert time.process_time() - begin < 4


def test_channels_are_of_the_layer_before_them() -> None:
    space = built()
    (width,) = [c for c in space.choices if c.kind == "width"]
    for conv in (nn.Conv2d, VariationalConv2d):
        net = space.build(conv=conv)
        expected = net.module.stem[0].weight.square().sum((1, 2, 3))
        assert torch.allclose(net.weight_norms(width)[0], expected)


def test_settings_are_those_of_the_function() -> None:
    space = built(wide=True)
    assert space.choices[0].options == tuple(map(str, range(12)))
    assert dict(space.strongest({}).settings)["wide"] is True
    with pytest.raises(ArdorError, match="space.channels = 'x' must be a whole number"):
        built(channels="x")
    with pytest.raises(ArdorError, match="unknown setting 'space.chanels'"):
        built(chanels=3)


def test_lists_in_files_are_tuples_again() -> None:
    def build(image: Any, classes: int, sizes: tuple[int, ...] = (3, 5)) -> nn.Module:
        return nn.Sequential(nn.Conv2d(2, sizes[0], 1), two("x", sizes[0]), head(sizes[0], classes))

    space = space_of(build, sizes=(4, 6))
    found = Architecture.from_json(json.loads(str(space.strongest({}))))
    assert spaces.of(found) == space
    assert space.build(found)


def bad_settings(image: Any, classes: int, *, thing: object = object()) -> nn.Module:
    raise AssertionError


def no_default(image: Any, classes: int, *, depth: int) -> nn.Module:
    raise AssertionError


def any_settings(image: Any, classes: int, **settings: int) -> nn.Module:
    raise AssertionError


def taken(image: Any, classes: int, *, choices: int = 3) -> nn.Module:
    raise AssertionError


def other_order(classes: int, image: Any) -> nn.Module:
    raise AssertionError


def unknown_type(image: Any, classes: int, *, depth: "Dpeth" = 3) -> nn.Module:  # noqa: F821
    raise AssertionError


def unchecked_type(image: Any, classes: int, *, net: nn.Module = None) -> nn.Module:  # noqa: RUF013
    raise AssertionError


def broken(image: Any, classes: int) -> nn.Module:
    return nn.Linear("no", 3)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (bad_settings, "which is no plain value"),
        (no_default, "has a setting 'depth' without a default"),
        (any_settings, r"takes '\*\*settings: int': every setting must have a name"),
        (taken, "has a setting 'choices', a name that every space uses itself"),
        (other_order, "must take image and classes first"),
        (unknown_type, "has a type that is not known"),
        (unchecked_type, "has a setting of a type that cannot be checked"),
        (broken, "build of '.*test_module' fails: TypeError: "),
        (lambda image, classes: None, "gives None; must be a module"),
        (row(two, channels=5), "forward of .* fails: RuntimeError"),
        (row(lambda: two("a.b")), "name 'a.b' of a choice must be text without dots"),
        (row(lambda: two("")), "name '' of a choice must be text"),
        (row(lambda: two("training")), "that torch does not use"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_line(function: Callable[..., Any], said: str) -> None:
    refused(function, said)


def refused(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(ArdorError, match=said) as caught:
        _ = space_of(function).choices
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def candidates(**modules: Any) -> Callable[..., nn.Module]:
    return row(lambda: ardor.LayerChoice(modules, name="x"))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (candidates(skip=nn.Identity()), "choice 'x' has the options skip; must be at least two"),
        (candidates(a=nn.Identity(), b=None), "candidate 'b' of choice 'x': None, no connection"),
        (candidates(a=nn.Identity(), none=nn.ReLU()), "candidate 'none' of choice 'x': None"),
        (candidates(a=nn.Identity(), b=3), "candidate 'b' of choice 'x' is 3; must be a module"),
        (candidates(a=nn.ReLU(), pop=nn.ReLU()), "candidate 'pop' of choice 'x' must be named"),
        (
            candidates(a=nn.ReLU(), b=nn.MaxPool2d(2)),
            r"candidates of choice 'x' give different sizes: a \(4, 8, 8\), b \(4, 4, 4\)",
        ),
        (
            row(two, lambda: ardor.LayerChoice({"b": nn.ReLU(), "c": nn.ReLU()}, name="a")),
            "share the name 'a' and have other options",
        ),
        (
            row(lambda: ardor.WidthChoice(5, name="w")),
            "choice 'w' is over 5 channels; must be over 4",
        ),
        (
            row(lambda: ardor.InputChoice(2, name="i")),
            "fails: ValueError: 'i' is given 1 tensors, and has 2 inputs",
        ),
        (
            row(lambda: ardor.InputChoice(2, name="i", keep=3)),
            "choice 'i' keeps 3 inputs; must be from 1 to 2",
        ),
        (
            lambda image, classes: row(two)(image, classes + 1),
            r"gives \(2, 4\) for 2 images; must be logits, \(2, 3\)",
        ),
    ],
)  # fmt: skip
def test_choices_that_make_no_sense_are_said_in_a_line(
    function: Callable[..., Any], said: str
) -> None:
    refused(function, said)


def test_a_builder_that_needs_numbers_has_them() -> None:
    def build(image: Any, classes: int) -> nn.Module:
        rates = [float(rate) for rate in torch.linspace(0, 0.5, 3)]
        return row(two, lambda: nn.Dropout(rates[1]))(image, classes)

    assert space_of(build).build()(torch.randn(2, 2, 8, 8)).shape == (2, 3)


def test_looking_at_a_space_leaves_the_random_numbers_as_they_are() -> None:
    before = torch.get_rng_state()
    assert built(channels=7).choices
    assert torch.equal(torch.get_rng_state(), before)


def test_a_space_that_is_too_large_is_refused() -> None:
    space = space_of(
        lambda image, classes: nn.Sequential(
            nn.Flatten(), nn.Linear(128, 2**24), nn.Linear(2**24, classes), choice_of_vectors()
        )
    )
    with pytest.raises(ArdorError, match="weights; must be at most 1,073,741,824"):
        space.check_size()


def choice_of_vectors() -> nn.Module:
    return ardor.LayerChoice({"a": nn.ReLU(), "b": nn.Identity()}, name="last")


def test_a_function_is_found_again_by_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lab_of_mine").mkdir()
    (tmp_path / "lab_of_mine" / "space.py").write_text(
        "from standins.built import Built\n"
        "def build(image, classes, *, channels: int = 4):\n"
        "    return Built(image[0], classes, channels)\n"
    )
    (tmp_path / "lab_of_mine" / "empty.py").write_text("from standins.built import build\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(spaces, "_given", {})
    name = "lab_of_mine.space"
    with pytest.raises(ArdorError, match="is imported only where you name it yourself"):
        spaces.find(name)
    given = spaces.of_function(importlib.import_module(name).build)
    assert spaces.find(name) is given  # who hands over the function has named it
    spaces._given.clear()
    discover.trust([name, "lab_of_mine.empty"])
    assert spaces.find(name) is given
    found = given(**IMAGE).strongest({})
    assert found.space == name
    assert spaces.of(found) == given(**IMAGE)
    with pytest.raises(ArdorError, match="has no function 'build' of its own, nor a class"):
        spaces.find("lab_of_mine.empty")


def test_a_function_of_a_script_is_gone_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(image: Any, classes: int) -> nn.Module:
        return row(two)(image, classes)

    monkeypatch.setattr(spaces, "_given", {})
    build.__module__ = "__main__"
    space = spaces.of_function(build)(**IMAGE)
    found = space.strongest({})
    assert spaces.of(found) == space
    spaces._given.clear()  # as in the next process
    with pytest.raises(ArdorError, match="built in a script or notebook"):
        spaces.of(found)
    with pytest.raises(ArdorError, match="the function 'two' must be called 'build'"):
        spaces.of_function(two)


def test_a_module_at_hand_with_numbers_of_its_own_is_walked_through_like_any_other() -> None:
    module = nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    )
    space = spaces.of_module(module)(**IMAGE)
    space.check_size()
    assert space.choices == ()
    assert torch.equal(space.build(space.architecture({})).module[0].weight, module[0].weight)  # type: ignore[index, union-attr]
