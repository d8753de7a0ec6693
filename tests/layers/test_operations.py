"""Every operation says its family; a module of one's own says it, or shows what is inside it."""

import pytest
from torch import nn

from ardor.architecture import FAMILIES
from ardor.errors import ArdorError
from ardor.layers.operations import OPS, TEN, Noise, Style, families_of, family_of


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
def test_what_is_inside_an_operation_tells_the_same(name: str) -> None:
    module = OPS[name](4, 1, Style())
    assert family_of(module) == OPS[name].family


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
