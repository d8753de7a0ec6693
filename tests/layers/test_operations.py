"""Every operation says its family; a module of one's own says it, or shows what is inside it."""

from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ardor.architecture import FAMILIES
from ardor.errors import ArdorError
from ardor.layers.operations import OPS, TEN, Noise, families_of, family_of
from ardor.layers.style import Order, Style


class Attention(nn.Module):
    family = "other"


class Blur(nn.Module):
    """An average pool written as a convolution."""

    family = "pool"

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, groups=4)


class Warp(nn.Module):
    family = "warp"


def mobile(channels: int) -> nn.Module:
    depthwise = nn.Conv2d(6 * channels, 6 * channels, 3, padding=1, groups=6 * channels)
    return nn.Sequential(nn.Conv2d(channels, 6 * channels, 1), depthwise, nn.BatchNorm2d(8))


def test_every_operation_of_the_table_says_its_family() -> None:
    found = families_of(TEN)
    assert found == (*["separable"] * 3, *["dilated"] * 2, "conv", "pool", "pool", "skip", "none")
    assert {operation.family for operation in OPS.values()} < set(FAMILIES)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("order", get_args(Order))
def test_what_is_inside_an_operation_tells_the_same(name: str, order: Order) -> None:
    module = OPS[name](4, 1, Style(order=order))
    assert family_of(module) == OPS[name].family


# As the authors' code applies them one after another (Zhou et al. 2019)
NORM_FIRST = {
    "sep_conv_5x5": "norm relu 5x5/4 1x1 norm relu 5x5/4 1x1",
    "dil_conv_3x3": "norm relu 3x3 1x1",
    "skip_connect": "norm 1x1",
    "nor_conv_3x3": "norm relu 3x3",
}


def words(module: nn.Module) -> str:
    """The layers of a module; convolutions with their size, and groups if there are some."""
    found = []
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            size = "x".join(map(str, layer.kernel_size))
            found.append(size + (f"/{layer.groups}" if layer.groups > 1 else ""))
        elif isinstance(layer, (nn.BatchNorm2d, nn.ReLU)):
            found.append("relu" if isinstance(layer, nn.ReLU) else "norm")
    return " ".join(found)


@pytest.mark.parametrize("name", NORM_FIRST)
def test_in_bayesnas_what_is_read_is_normalised(name: str) -> None:
    module = OPS[name](4, 2, Style(order="bn-relu-conv"))
    assert words(module) == NORM_FIRST[name]
    assert module(torch.randn(2, 4, 7, 6)).shape == (2, 4, 4, 3)


@pytest.mark.parametrize("stride", [1, 2])
def test_in_bayesnas_pools_count_a_border_of_zeros(stride: int) -> None:
    x = torch.randn(2, 4, 7, 6) - 1  # with windows in which all is below zero
    windows = F.unfold(x, 3, padding=1, stride=stride).unflatten(1, (4, 9))
    style = Style(order="bn-relu-conv")
    for name, of in (("max_pool_3x3", windows.amax(2)), ("avg_pool_3x3", windows.mean(2))):
        found = OPS[name](4, stride, style)(x).flatten(2)
        assert torch.allclose(found, of, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "family"),
    [
        (Attention(), "other"),
        (Blur(), "pool"),
        (Noise(1), "noise"),
        (nn.Identity(), "skip"),
        (nn.Sequential(), "skip"),
        (nn.Sequential(nn.Identity()), "skip"),
        (nn.AvgPool2d(3), "pool"),
        (nn.Sequential(nn.MaxPool2d(3), nn.BatchNorm2d(4)), "pool"),
        (nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 4, 1)), "conv"),
        (nn.Conv2d(4, 8, 3), "conv"),
        (nn.Conv2d(1, 8, 3), "conv"),
        (nn.Conv2d(4, 4, 3, dilation=2, groups=4), "dilated"),
        (mobile(4), "separable"),
        (nn.ReLU(), "other"),
    ],
)
def test_a_module_of_ones_own_has_a_family(module: nn.Module, family: str) -> None:
    assert family_of(module) == family


def test_a_family_that_is_none_is_an_error() -> None:
    with pytest.raises(ArdorError, match="family of Warp is 'warp'; must be one of conv, "):
        family_of(Warp())
