"""The operations: name -> builder and family. One table serves both kinds of weights.

Of the three orders (`Style`), that of BayesNAS differs in more, as in the authors' code: dilated
convolutions are full and not depthwise, pools count a border of zeros, a skip to half the size is a
BatchNorm and one strided 1x1 convolution. Layer by layer, as there is no native code for it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ardor.architecture import FAMILIES, Family
from ardor.errors import ArdorError
from ardor.layers.blocks import BarePool, Chain, PoolBlock
from ardor.layers.convolutions import FactorizedReduce, FullBlock, PointwiseBlock, SeparableBlock
from ardor.layers.mixed import Mixed
from ardor.layers.style import DARTS, Style, in_a_row

ZERO = "none"
# Zeros around an image are lost in onnxruntime: it makes them part of the max pool that follows,
# which pads with the least number there is.
ALMOST_ZERO = 1e-30


def separable(channels: int, stride: int, style: Style, *, size: int) -> nn.Module:
    """Depthwise and pointwise, twice; the stride in the first."""
    return in_a_row(*(block(channels, step, style, size, dilation=1) for step in (stride, 1)))


def dilated(channels: int, stride: int, style: Style, *, size: int) -> nn.Module:
    """Depthwise with gaps of one pixel, then pointwise; full in place of depthwise in BayesNAS."""
    return in_a_row(block(channels, stride, style, size, dilation=2))


def block(channels: int, stride: int, style: Style, size: int, *, dilation: int) -> nn.Module:
    """One depthwise and one pointwise convolution, with ReLU and BatchNorm."""
    spatial = style.conv(
        channels,
        channels,
        size,
        stride=stride,
        padding=dilation * (size // 2),
        dilation=dilation,
        groups=1 if style.norm_first and dilation > 1 else channels,
        bias=False,
    )
    pointwise = style.conv(channels, channels, 1, bias=False)
    if style.norm_first:
        return style.block(channels, spatial, pointwise)
    return SeparableBlock(spatial, pointwise, style.norm(channels), relu_last=style.relu_last)


def seven_by_one(channels: int, stride: int, style: Style) -> nn.Module:
    """A full 1x7 convolution followed by a 7x1."""
    conv = partial(style.conv, channels, channels, bias=False)
    return style.block(
        channels,
        conv((1, 7), stride=(1, stride), padding=(0, 3)),
        conv((7, 1), stride=(stride, 1), padding=(3, 0)),
    )


def full(channels: int, stride: int, style: Style, *, size: int) -> nn.Module:
    """A full convolution, the "nor_conv" of NAS-Bench-201."""
    if size == stride == 1 and not style.relu_last:
        return squeeze(channels, channels, style)
    conv = style.conv(channels, channels, size, stride=stride, padding=size // 2, bias=False)
    if stride > 1 or style.order != DARTS:
        return style.block(channels, conv)
    return Chain(FullBlock(conv, style.norm(channels)))


def pool(channels: int, stride: int, style: Style, *, kind: str) -> nn.Module:
    """A 3x3 pool; the average does not count the padding, in BayesNAS both count it as zeros."""
    if style.norm_first and kind == "max":
        return nn.Sequential(nn.ConstantPad2d(1, ALMOST_ZERO), nn.MaxPool2d(3, stride))
    if style.norm_first:
        return nn.Sequential(nn.AvgPool2d(3, stride, padding=1))
    pooling = (
        nn.MaxPool2d(3, stride, padding=1)
        if kind == "max"
        else nn.AvgPool2d(3, stride, padding=1, count_include_pad=False)
    )
    if (style.searching or style.relu_last) and not style.bare_pools:
        return Chain(PoolBlock(pooling, style.norm(channels), relu_last=style.relu_last))
    return Chain(BarePool(pooling))


def skip(channels: int, stride: int, style: Style) -> nn.Module:
    """The identity; with a stride, a reduction to half the size: factorised, or BN-conv."""
    if stride == 1:
        return nn.Identity()
    if style.norm_first:
        conv = style.conv(channels, channels, 1, stride=stride, bias=False)
        return nn.Sequential(style.norm(channels), conv)
    return halve(channels, channels, style)


def halve(inputs: int, outputs: int, style: Style) -> nn.Sequential:
    """To half the size and another width: ReLU-conv-BN, but in BayesNAS a convolution before all.

    That one is strided and leaves out three pixels of four, as in the authors' search; in some of
    their later nets it is parted as in DARTS, with as many weights.
    """
    if style.norm_first:
        strided = style.conv(inputs, inputs, 1, stride=2, bias=False)
        return nn.Sequential(strided, *squeeze(inputs, outputs, style))
    even, odd = (
        style.conv(inputs, count, 1, stride=2, bias=False)
        for count in (outputs // 2, outputs - outputs // 2)
    )
    return Chain(FactorizedReduce(even, odd, style.norm(outputs)))


def squeeze(inputs: int, outputs: int, style: Style) -> nn.Sequential:
    """To another width: BN-ReLU-conv in BayesNAS, ReLU-conv-BN in both other orders."""
    conv = style.conv(inputs, outputs, 1, bias=False)
    if style.norm_first:
        return style.block(inputs, conv)
    return Chain(PointwiseBlock(conv, style.norm(outputs)))


class Noise(nn.Module):
    """Standard normal noise in place of the input, drawn anew whether training or not."""

    family = "noise"

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return torch.randn_like(x[:, :, :: self.stride, :: self.stride])


def noise(channels: int, stride: int, style: Style) -> Noise:
    """An operation that must never be chosen: it learns nothing and ignores its input."""
    return Noise(stride)


Builder = Callable[[int, int, Style], nn.Module]


@dataclass(frozen=True)
class Operation:
    """How an operation is built, given channels, stride and style, and the family it is of."""

    builder: Builder
    family: Family

    def __call__(self, channels: int, stride: int, style: Style) -> nn.Module:
        return self.builder(channels, stride, style)


OPS: dict[str, Operation] = {
    "sep_conv_3x3": Operation(partial(separable, size=3), "separable"),
    "sep_conv_5x5": Operation(partial(separable, size=5), "separable"),
    "sep_conv_7x7": Operation(partial(separable, size=7), "separable"),
    "dil_conv_3x3": Operation(partial(dilated, size=3), "dilated"),
    "dil_conv_5x5": Operation(partial(dilated, size=5), "dilated"),
    "conv_7x1_1x7": Operation(seven_by_one, "conv"),
    "max_pool_3x3": Operation(partial(pool, kind="max"), "pool"),
    "avg_pool_3x3": Operation(partial(pool, kind="avg"), "pool"),
    "skip_connect": Operation(skip, "skip"),
    "nor_conv_1x1": Operation(partial(full, size=1), "conv"),
    "nor_conv_3x3": Operation(partial(full, size=3), "conv"),
    "noise": Operation(noise, "noise"),
}

TEN = (
    "sep_conv_3x3",
    "sep_conv_5x5",
    "sep_conv_7x7",
    "dil_conv_3x3",
    "dil_conv_5x5",
    "conv_7x1_1x7",
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    ZERO,
)

SEVEN = (
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "dil_conv_5x5",
)

# Named sets in the order of their papers; zero has no builder, as it computes nothing.
SETS: dict[str, tuple[str, ...]] = {
    "vinnas": TEN,
    "darts": (ZERO, *SEVEN),
    "seven": SEVEN,
    # Zela et al. 2020, "Understanding and Robustifying DARTS"; of their S1 see spaces/_edges.py.
    "s2": ("skip_connect", "sep_conv_3x3"),
    "s3": (ZERO, "skip_connect", "sep_conv_3x3"),
    "s4": ("noise", "sep_conv_3x3"),
}

Convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
Pooling = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d, nn.LPPool2d)


def families_of(operations: Iterable[str]) -> tuple[Family, ...]:
    """The families of operations by their names in the table; zero is no connection."""
    return tuple("none" if name == ZERO else OPS[name].family for name in operations)


def family_of(module: nn.Module) -> Family:
    """The family of a module: what its attribute `family` says, or what is found inside it.

    What a choice inside it has to offer does not count: those are options of their own.
    """
    said = getattr(module, "family", None)
    if said is None:
        return _found_inside(list(_own_parts(module)))
    if said not in FAMILIES:
        raise ArdorError(
            f"family of {type(module).__name__} is {said!r}; must be one of {', '.join(FAMILIES)}",
            'use family = "other" where none of them fits',
        )
    return said  # type: ignore[no-any-return]


def _own_parts(module: nn.Module) -> Iterator[nn.Module]:
    """The module and its parts, but none of the candidates of a choice."""
    yield module
    for part in module.children():
        if not isinstance(part, Mixed):
            yield from _own_parts(part)


def _found_inside(modules: Sequence[nn.Module]) -> Family:
    """Convolutions count before pools: beside one, a pool only weighs channels or shrinks."""
    convs = [module for module in modules if isinstance(module, Convolution)]
    if any(side > 1 for conv in convs for side in conv.dilation):
        return "dilated"
    if any(conv.groups == conv.in_channels > 1 for conv in convs):
        return "separable"
    if convs:
        return "conv"
    if any(isinstance(module, Pooling) for module in modules):
        return "pool"
    same = all(isinstance(module, (nn.Identity, nn.Sequential)) for module in modules)
    return "skip" if same else "other"
