"""The cells of ENAS: the sizes of SupNet-E and EI, and what every layer reads."""

from pathlib import Path

import pytest
import torch
from reading import check_unread, compact_and_equal
from torch import nn

from ardor import spaces
from ardor.models.sizes import parameters
from ardor.spaces import Space
from ardor.spaces.enas import build

PAPER = {"depth": 5, "branches": "whole"}


def small(**settings: object) -> Space:
    sizes = {"image": (2, 8, 8), "classes": 3, "channels": 4, "depth": 0, **settings}
    return spaces.make("enas", sizes)


@pytest.mark.parametrize(
    ("channels", "count", "counted"), [(36, 3_894_382, 4_342_500), (72, 14_784_562, 15_279_912)]
)
def test_it_has_as_many_weights_as_enas(channels: int, count: int, counted: int) -> None:
    with torch.device("meta"):
        net = build((3, 32, 32), 10, channels=channels, **PAPER)
    assert parameters(net) == count
    # What the authors' script counts: no BN, and the auxiliary head behind the 13th cell.
    weights = sum(m.weight.numel() for m in net.modules() if isinstance(m, (nn.Conv2d, nn.Linear)))
    assert weights + 20 * channels * 128 + 2 * 2 * 128 * 768 + 768 * 10 == counted


def test_every_layer_but_depthwise_ones_is_a_group() -> None:
    space = spaces.make("enas", {"channels": 36, **PAPER})
    sizes = {choice.name: len(choice.options) for choice in space.choices}
    assert len(sizes) == 263
    assert {choice.kind for choice in space.choices} == {"width"}
    assert (sizes["stem-3x3"], sizes["cell1-before-1x1"], sizes["cell1-base-1x1"]) == (3, 108, 36)
    assert (sizes["cell6-last-1x1"], sizes["cell6-node1-branch2-second-1x1"]) == (180, 72)
    assert sizes["cell7-before1-1x1"] == sizes["cell7-before2-1x1"] == 180  # half as large
    assert sizes["cell7-last-1x1"] == 4 * 72  # one node of the reduction is read by another
    assert sizes["cell12-node4-branch2-path1-1x1"] == 144
    assert sizes["head"] == 5 * 144


def test_operations_may_leave_pools_and_skips_too() -> None:
    space = small()
    ops = {choice.name: choice.options for choice in space.choices if choice.kind == "op"}
    assert len(ops) == 20
    assert ops["cell1-node2-branch2"] == ("avg", "none")
    assert ops["cell1-node4-branch2"] == ("skip", "none")
    kept = {**space.strongest({}).options, **dict.fromkeys(ops, ())}
    net = space.build(space.architecture(kept))
    assert net(torch.randn(2, 2, 8, 8)).isfinite().all()


def test_the_norms_are_those_of_the_1x1_convolution_behind_a_depthwise_one() -> None:
    space = small(depth=1)
    net = space.build()
    known = {choice.name: choice for choice in space.choices}
    branch = net.module[1].cells[0].nodes[0].branches[1]
    _, choice, filters, conv, *_ = branch.mixed.candidates["sep3"]
    assert (choice.name, filters.groups) == ("cell1-node1-branch2-first-1x1", 4)
    found = net.weight_norms(known[choice.name])[0]
    assert torch.allclose(found, conv.weight.square().sum((0, 2, 3)))


def test_what_is_not_read_changes_nothing() -> None:
    check_unread(small(branches="whole"))


@pytest.mark.parametrize("branches", ["chosen", "whole"])
def test_channels_that_are_not_read_are_not_computed(branches: str, tmp_path: Path) -> None:
    space = small(branches=branches)
    lean = compact_and_equal(space, tmp_path)
    assert filtered(lean.net) < 0.75 * filtered(space.build())


def filtered(net: nn.Module) -> int:
    """Channels that go through a 5x5 filter."""
    return sum(
        m.groups for m in net.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (5, 5)
    )


def test_paths_are_dropped_in_training_alone_and_skips_never() -> None:
    net, images = small(branches="whole", depth=1).build(), torch.randn(4, 2, 8, 8)
    net.drop_path_(0.5)
    assert not torch.allclose(net.train()(images), net(images))
    assert torch.equal(net.eval()(images), net(images))
