"""Residual blocks of two branches: the sizes that are published, and what every layer reads."""

import json
from pathlib import Path

import pytest
import torch
from reading import by_chance, compact_and_equal, model
from torch import nn

from ardor import methods, spaces
from ardor.errors import ArdorError
from ardor.layers.choices import Mask, WidthChoice
from ardor.layers.mixed import Terms
from ardor.models.model import Model
from ardor.models.sizes import parameters
from ardor.models.smaller import compact
from ardor.pruning.trace import layers_of
from ardor.spaces import Space
from ardor.spaces.residual import averaged, build, shares

PAPER = {"depth": 4, "branches": "whole", "shake": True}


def small(**settings: object) -> Space:
    sizes = {"image": (2, 8, 8), "classes": 3, "channels": 4, **settings}
    return spaces.make("residual", sizes)


@pytest.mark.parametrize(
    ("channels", "count"),
    [(32, 2_923_162), (96, 26_192_922), (112, 35_640_442), (160, 72_695_194), (192, 104_658_522)],
)
def test_it_has_as_many_weights_as_shake_shake(channels: int, count: int) -> None:
    with torch.device("meta"):
        assert parameters(build((3, 32, 32), 10, channels=channels, **PAPER)) == count


def test_every_convolution_and_the_last_layer_is_a_group() -> None:
    space = spaces.make("residual", {"channels": 96, **PAPER})
    assert len(space.choices) == 56
    assert {choice.kind for choice in space.choices} == {"width"}
    sizes = {choice.name: len(choice.options) for choice in space.choices}
    assert sizes["stem-3x3"] == 3
    assert sizes["block1-branch1-first-3x3"] == sizes["block1-skip2-1x1"] == 16
    assert sizes["block5-branch2-first-3x3"] == sizes["block5-skip1-1x1"] == 96
    assert sizes["block5-branch2-second-3x3"] == 192
    assert sizes["head"] == 384


def test_a_grey_image_has_no_channel_to_be_left_out() -> None:
    names = [choice.name for choice in small(image=(1, 8, 8)).choices]
    assert not any(name.startswith("stem") for name in names)


def test_the_norms_are_those_of_the_weights_that_read_a_channel() -> None:
    space = small(kernels=(1, 3))
    net, known = space.build(), {choice.name: choice for choice in space.choices}
    branch = net.module[3].mean.mixed.candidates["branch1"]
    for size in (1, 3):
        conv = branch[1].sizes.candidates[f"{size}x{size}"][1]
        found = net.weight_norms(known[f"block1-branch1-first-{size}x{size}"])
        assert torch.allclose(found[0], conv.weight.square().sum((0, 2, 3)))
    head = net.weight_norms(known["head"])[0]
    assert torch.allclose(head, net.module[-1].weight.square().sum(0))


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_of_grouped_convolutions_too(groups: int) -> None:
    choice, conv = WidthChoice(4, name="x", of="input"), nn.Conv2d(4, 8, 3, groups=groups)
    choice.layers = (conv,)
    found = choice.weight_norms()
    for at in range(4):
        x = torch.zeros(1, 4, 3, 3)
        x[:, at] = 1
        # Ones in one channel: what comes out is a sum of just the weights that read it.
        reads = torch.autograd.grad(
            (conv(x) - conv(torch.zeros_like(x))).square().sum() / 2, conv.weight
        )[0]
        weights = conv.weight[reads != 0]
        assert torch.allclose(found[at], weights.square().sum())


def test_a_layer_adds_up_its_kernel_sizes_each_with_its_own_channels() -> None:
    space = small(kernels=(1, 3))
    net, x = space.build(), torch.randn(2, 4, 6, 6)
    layer = net.module[3].mean.mixed.candidates["branch1"][4]
    (one, conv1), (three, conv3) = layer.sizes.candidates.values()
    one.gates, three.gates = torch.tensor([[1.0, 0, 0, 1]]), torch.tensor([[0.0, 1, 0, 0.5]])
    first, second = x * one.gates[..., None, None], x * three.gates[..., None, None]
    assert torch.allclose(layer(x), conv1(first) + conv3(second), atol=1e-5)


def test_a_skip_sees_each_pixel_and_the_one_beside_it() -> None:
    skip = small().build().module[4].around
    image = torch.zeros(1, 4, 5, 5)
    image[0, :, 2, 2] = 1  # even rows and columns are the first path's
    assert skip.first(image)[0].abs().sum(0).nonzero().tolist() == [[1, 1]]
    assert not skip.second(image).any()
    image = image.roll((1, 1), (2, 3))
    assert not skip.first(image).any()
    assert skip.second(image)[0].abs().sum(0).nonzero().tolist() == [[1, 1]]


def test_shares_of_a_shaken_block_are_of_each_image_and_other_ones_lead_back() -> None:
    one, two = (torch.full((5, 2, 3, 3), float(n), requires_grad=True) for n in (0, 1))
    found = averaged(Terms([(one, None), (two, None)]), shaken=True)
    forward = found[:, 0, 0, 0]  # the share of the second branch
    assert len(set(forward.tolist())) == 5
    assert ((forward > 0) & (forward < 1)).all()
    first, second = torch.autograd.grad(found.sum(), (one, two))
    assert torch.allclose(first + second, torch.ones(5, 2, 3, 3))
    assert not torch.isclose(second[:, 0, 0, 0], forward).any()
    assert torch.allclose(shares(torch.zeros(9, 1)).sum(1), torch.ones(9))


def test_only_training_is_shaken() -> None:
    net, images = small(shake=True).build(), torch.randn(4, 2, 8, 8)
    assert not torch.allclose(net.train()(images), net(images))
    assert torch.equal(net.eval()(images), net(images))


@pytest.mark.parametrize("kernels", [(3,), (1, 3)])
@pytest.mark.parametrize("branches", ["chosen", "whole"])
def test_channels_that_are_not_read_are_not_computed(
    kernels: tuple[int, ...], branches: str, tmp_path: Path
) -> None:
    space = small(kernels=kernels, branches=branches)
    lean = compact_and_equal(space, tmp_path)
    # What goes around a block is read by the next one, only not by each of its layers.
    masks = [layer for layer in layers_of(lean.net).values() if isinstance(layer, Mask)]
    assert any(mask.taken is not None for mask in masks)


@pytest.mark.parametrize("channels", ["all", [], [-1], [4096], [0.5]], ids=str)
def test_nonsense_about_what_is_read_is_refused(channels: object, tmp_path: Path) -> None:
    space = small()
    compact(model(space, by_chance(space))).save(tmp_path / "model", card="")
    path = tmp_path / "model" / "config.json"
    settings = json.loads(path.read_text())
    taken = settings["compact"]["taken"]
    name, right = next(iter(taken.items()))
    wrong = channels * len(right) if isinstance(channels, list) else channels
    for entry in ({name: wrong}, {"module.nothing": right}):
        settings["compact"]["taken"] = {**taken, **entry}
        path.write_text(json.dumps(settings))
        with pytest.raises(ArdorError, match="is of no network"):
            Model.load(tmp_path / "model")


def test_a_kernel_size_that_reads_nothing_is_gone() -> None:
    space = small(kernels=(1, 3))
    names = [choice.name for choice in space.choices if choice.name.endswith("-first-1x1")]
    kept = {**space.strongest({}).options, **dict.fromkeys(names, ())}
    lean = compact(model(space, space.architecture(kept)))
    for block in lean.net.module[3:6]:
        for branch in block.mean.mixed.candidates.values():
            assert list(branch[1].sizes.candidates) == ["3x3"]
            assert list(branch[4].sizes.candidates) == ["1x1", "3x3"]


def test_a_branch_may_be_empty_and_what_every_image_passes_may_not() -> None:
    space = small()
    none = {c.name: torch.zeros(1, 1, len(c.options)) for c in space.choices}
    kept = space.subset(none).options
    assert kept["block1"] == kept["block1-branch1-first-3x3"] == ()
    assert len(kept["stem-3x3"]) == len(kept["block2-skip1-1x1"]) == len(kept["head"]) == 1
    with pytest.raises(ArdorError, match="nothing is kept of head"):
        space.check(space.architecture({**kept, "head": ()}))


@pytest.mark.parametrize("kernels", [(), (2,), (3, 3)])
def test_kernels_that_make_no_sense_are_refused(kernels: tuple[int, ...]) -> None:
    with pytest.raises(ArdorError, match="different odd numbers, at least one"):
        _ = small(kernels=kernels).choices


@pytest.mark.parametrize("name", ["vinnas", "bayesnas"])
def test_a_method_that_decides_no_channels_says_so(name: str) -> None:
    with pytest.raises(ArdorError, match=f"'{name}' has nothing to decide.* width alone"):
        methods.make(name, small(branches="whole"), {})
    assert methods.make("pgnas", small(branches="whole"), {}).draw(1)
