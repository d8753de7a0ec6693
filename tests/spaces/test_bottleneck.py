"""ResNet with parallel convolutions: the sizes of ResNet-50, and what they read."""

from pathlib import Path

import pytest
import torch
from reading import check_unread, compact_and_equal
from torch import nn

from ardor import spaces
from ardor.errors import ArdorError
from ardor.models.sizes import parameters
from ardor.spaces import Space
from ardor.spaces.bottleneck import build, conv

FIFTY = {"channels": 64, "blocks": (3, 4, 6, 3), "stem": "large"}


def small(**settings: object) -> Space:
    sizes = {"image": (2, 8, 8), "classes": 3, "channels": 4, "inner": 8, **settings}
    return spaces.make("bottleneck", sizes)


@pytest.mark.parametrize(
    ("inner", "kernels", "count"),
    [(64, (3,), 25_557_032), (64, (1, 3, 5, 9), 28_071_976), (88, (1, 3, 5, 9), 43_906_696)],
)
def test_it_has_as_many_weights_as_resnet50(
    inner: int, kernels: tuple[int, ...], count: int
) -> None:
    with torch.device("meta"):
        net = build((3, 224, 224), 1000, inner=inner, kernels=kernels, **FIFTY)
    assert parameters(net) == count


def test_every_parallel_convolution_is_a_group() -> None:
    space = spaces.make("bottleneck", {"inner": 88, **FIFTY})
    sizes = {choice.name: len(choice.options) for choice in space.choices}
    assert len(sizes) == 4 * 16
    assert sizes["stage1-block1-1x1"] == sizes["stage1-block3-9x9"] == 88
    assert sizes["stage4-block1-5x5"] == 88 * 8


@pytest.mark.parametrize("size", [1, 3, 5, 9])
def test_a_convolution_sees_as_far_as_its_size(size: int) -> None:
    image = torch.zeros(1, 1, 15, 15)
    image[..., 7, 7] = 1
    reached = conv(1, 1, size, 1)(image)[0, 0].nonzero()
    assert (reached.amin(0) == 7 - size // 2).all()
    assert (reached.amax(0) == 7 + size // 2).all()
    assert conv(1, 1, size, 2)(image).shape[2:] == (8, 8)


def test_a_large_stem_leaves_a_quarter_of_each_side() -> None:
    module = small(stem="large", image=(2, 32, 32)).build().module
    assert [type(layer) for layer in module[:4]] == [
        nn.Conv2d,
        nn.BatchNorm2d,
        nn.ReLU,
        nn.MaxPool2d,
    ]
    assert module[:4](torch.zeros(1, 2, 32, 32)).shape[2:] == (8, 8)


def test_kernels_share_out_the_channels() -> None:
    space = small(inner=6)
    convs = space.build().module[3].deep[3].convs
    assert [layer[1].out_channels for layer in convs] == [1, 2, 1, 2]


def test_what_is_not_read_changes_nothing() -> None:
    check_unread(small())


@pytest.mark.parametrize("kernels", [(3,), (1, 3, 5, 9)])
def test_channels_that_are_not_read_are_not_computed(
    kernels: tuple[int, ...], tmp_path: Path
) -> None:
    compact_and_equal(small(kernels=kernels), tmp_path)


@pytest.mark.parametrize("kernels", [(), (2,), (3, 3)])
def test_kernels_that_make_no_sense_are_refused(kernels: tuple[int, ...]) -> None:
    with pytest.raises(ArdorError, match="different odd numbers, at least one"):
        _ = small(kernels=kernels).choices
    with pytest.raises(ArdorError, match="inner = 3 must be at least 4"):
        _ = small(inner=3).choices
