"""Noise and variances in native code, against the plain layers."""

from functools import partial
from math import log

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.layers.blocks import Chain
from ardor.layers.convolutions import SeparableBlock
from ardor.layers.mixed import output
from ardor.layers.operations import OPS, halve, squeeze
from ardor.layers.style import Style
from ardor.layers.variational import VariationalConv2d
from ardor.native import kernels, padding
from ardor.native.shapes import NO_VARIANCE, Shape, Term

pytestmark = pytest.mark.skipif(kernels.library() is None, reason="no compiler here")
each_convolution = pytest.mark.parametrize("kind", ["pointwise", "depthwise"])


def noise(kind: str, size: tuple[int, int, int, int], dtype: torch.dtype = torch.float) -> Tensor:
    """The noise of one state by itself: weights of zero, whose variances add up to one."""
    c = size[1]
    if kind == "pointwise":
        shape = Shape(1, 1, kind="pointwise", channels=(c, c), samples_weights=True, bare=True)
        weights = [torch.zeros(c, c, 1, 1), torch.full((c, c, 1, 1), -log(c))]
    else:
        shape = Shape(3, 1, samples_weights=True, bare=True)
        centre, none = torch.full((c, 1, 3, 3), NO_VARIANCE), torch.full((c, c, 1, 1), NO_VARIANCE)
        centre[:, :, 1, 1] = 0.0
        weights = [torch.zeros(c, 1, 3, 3), torch.eye(c)[:, :, None, None], centre, none]
    x, gates = torch.ones(size, dtype=dtype), torch.ones(1, 1, dtype=dtype)
    return kernels.native_sum([x], [Term(0, (shape,))], gates, [w.to(dtype) for w in weights])[0]


def spread(draws: Tensor, order: int) -> float:
    """How far the moments of draws, (draws, values), are from a normal's, in their own errors."""
    expected, variance = {1: (0, 1), 2: (1, 2), 3: (0, 15)}[order]
    moments = draws.double().pow(order).mean(1)
    return ((moments - expected).square().mean() * draws.shape[1] / variance).sqrt().item()


@each_convolution
@pytest.mark.parametrize("channels", [8, 16])
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_noise_of_each_channel_is_standard_normal(
    kind: str, channels: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    states = [noise(kind, (8, channels, 32, 64), dtype).transpose(0, 1) for _ in range(8)]
    ours = torch.cat([state.flatten(1) for state in states])
    for draws in (ours, torch.randn(ours.shape)):
        assert max(spread(draws, order) for order in (1, 2, 3)) < 1.5


@each_convolution
def test_noise_has_signs_so_that_more_of_it_has_a_smaller_mean(kind: str) -> None:
    """Without, its mean would stay that of the table it is read from, about 1 / 256."""
    torch.manual_seed(0)
    draws = torch.stack([noise(kind, (32, 16, 64, 64)).flatten() for _ in range(6)])
    assert spread(draws, 1) < 2
    assert spread(draws, 3) < 2


@each_convolution
def test_noise_of_wide_rows_does_not_repeat(kind: str) -> None:
    rows = noise(kind, (1, 8, 3, 20_032)).permute(0, 2, 3, 1).flatten()
    parts = F.normalize(rows.view(-1, 512))
    alike = (parts @ parts.t()).abs().triu(1) > 0.5
    assert alike.sum().item() < 30  # by chance one pair in 65,536: 7


@pytest.mark.parametrize(
    "make",
    [
        partial(OPS["sep_conv_3x3"], 8, 1),
        partial(OPS["dil_conv_5x5"], 6, 2),
        partial(squeeze, 8, 16),
        partial(halve, 6, 10),
    ],
)
def test_a_log_variance_out_of_bounds_has_no_gradient_as_in_the_plain_layer(
    make: "partial[Chain]",
) -> None:
    chain, x = make(Style(VariationalConv2d)), torch.randn(4, make.args[0], 7, 8)
    convs = [module for module in chain.modules() if isinstance(module, VariationalConv2d)]
    for conv in convs:
        count = conv.log_var.numel()
        values = torch.tensor([-99.0, -30.1, -30.0, -1.0, 10.0, 10.1, 99.0]).repeat(count)
        conv.log_var.data = values[:count].view_as(conv.log_var)
    assert chain.native(x)
    log_vars = [conv.log_var for conv in convs]
    found = []
    for out in (output(chain, x), chain(x)):
        slopes = torch.autograd.grad(out.square().sum() + out.pow(3).sum(), log_vars)
        found.append([slope != 0 for slope in slopes])
    for log_var, ours, theirs in zip(log_vars, *found, strict=True):
        assert torch.equal(ours, theirs)
        assert torch.equal(ours, (log_var >= -30) & (log_var <= 10))


def one_block(times: int, size: tuple[int, int, int, int]) -> tuple[Tensor, Tensor]:
    """What one block of drawn weights gives before normalisation, natively and by plain layers."""
    chain = OPS["dil_conv_3x3"](size[1], 1, Style(VariationalConv2d))
    assert isinstance(chain, Chain)
    (made,) = chain.blocks()
    assert isinstance(made, SeparableBlock)
    for conv in (made.depthwise, made.pointwise):
        nn.init.normal_(conv.weight)
        nn.init.constant_(conv.log_var, -1.0)
    x = torch.randn(size)
    terms, gates = [Term(0, chain.shapes())], torch.ones(1, 1)

    def raw() -> Tensor:
        out, statistics = padding.padded_sum([x], terms, gates, made.weights())
        mean, spread = (row[:, None, None] for row in statistics[0])
        return out / spread + mean

    with torch.no_grad():
        ours = torch.stack([raw() for _ in range(times)])
        theirs = torch.stack([made.pointwise(made.depthwise(F.relu(x))) for _ in range(times)])
    return ours, theirs


@pytest.mark.parametrize("channels", [16, 6])
def test_drawn_activations_have_the_moments_of_the_plain_layer(channels: int) -> None:
    ours, theirs = one_block(3000, (2, channels, 6, 6))
    error = theirs.std(0).max().item() * (2 / 3000) ** 0.5
    assert (ours.mean(0) - theirs.mean(0)).abs().max().item() < 6 * error
    ratio = ours.std(0) / theirs.std(0)
    assert ratio.min().item() > 0.88
    assert ratio.max().item() < 1.13


def test_each_activation_has_noise_of_its_own() -> None:
    ours, _ = one_block(2000, (3, 8, 4, 4))
    flat = ours.flatten(1)[:, ::7]
    apart = torch.corrcoef(flat.t())
    apart.fill_diagonal_(0)
    assert apart.abs().max().item() < 6 / 2000**0.5
    assert (flat - flat.mean(0)).div(flat.std(0)).pow(4).mean().item() < 3.6  # light tails
