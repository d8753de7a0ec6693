"""Variational layers against their definition, and the small layers around them."""

import pytest
import torch
from torch import nn

from ardor.layers.variational import Variational, VariationalConv2d, VariationalLinear, noise_like

CONVS = {
    "plain": {"kernel_size": 3, "padding": 1},
    "strided": {"kernel_size": 3, "stride": 2},
    "dilated": {"kernel_size": 3, "padding": 2, "dilation": 2},
    "grouped": {"kernel_size": 1, "groups": 2},
    "depthwise": {"kernel_size": 5, "padding": 2, "groups": 4},
    "long": {"kernel_size": (1, 7), "stride": (1, 2), "padding": (0, 3)},
    "biased": {"kernel_size": 3, "bias": True},
}
each_conv = pytest.mark.parametrize("settings", CONVS.values(), ids=CONVS)


def make(settings: dict[str, object]) -> VariationalConv2d:
    layer = VariationalConv2d(4, 4, **{"bias": False, **settings})
    nn.init.normal_(layer.log_var, -2.0, 0.5)
    if layer.bias is not None:
        nn.init.normal_(layer.bias)
    return layer


@each_conv
def test_activations_have_the_moments_of_drawn_weights(settings: dict[str, object]) -> None:
    layer, x = make(settings), torch.randn(2, 4, 9, 9)
    with torch.no_grad():
        draws = torch.stack([layer(x) for _ in range(4000)])
        mean = layer._conv_forward(x, layer.weight, layer.bias)
        variance = layer._conv_forward(x.square(), layer.log_var.exp(), None)
        std = (0.5 * layer.log_var).exp()
        sampled = torch.stack(
            [
                layer._conv_forward(x, layer.weight + std * torch.randn_like(std), layer.bias)
                for _ in range(4000)
            ]
        )
    error = variance.sqrt().max().item() / 4000**0.5
    for moments in (draws, sampled):
        assert torch.allclose(moments.mean(0), mean, atol=6 * error)
        assert torch.allclose(moments.var(0), variance, rtol=0.2, atol=1e-4)


@each_conv
def test_without_variance_it_is_the_plain_convolution(settings: dict[str, object]) -> None:
    layer, x = make(settings), torch.randn(2, 4, 9, 9)
    nn.init.constant_(layer.log_var, -30.0)
    expected = layer._conv_forward(x, layer.weight, layer.bias)
    assert torch.allclose(layer(x), expected, atol=1e-5)
    assert torch.allclose(layer.eval()(x), expected, atol=1e-6)


def test_linear_has_the_moments_of_drawn_weights() -> None:
    layer, x = VariationalLinear(6, 3), torch.randn(5, 6)
    nn.init.constant_(layer.log_var, -1.0)
    with torch.no_grad():
        draws = torch.stack([layer(x) for _ in range(8000)])
    variance = x.square() @ layer.log_var.exp().T
    assert torch.allclose(draws.mean(0), x @ layer.weight.T + layer.bias, atol=0.1)
    assert torch.allclose(draws.var(0), variance, rtol=0.15)


@pytest.mark.parametrize("log_var", [-30.0, -10.0, 0.0, 10.0, 50.0])
@pytest.mark.parametrize("scale", [0.0, 1e-20, 1.0, 1e6, 1e18])
@pytest.mark.parametrize("kind", ["conv", "linear"])
def test_never_nan_or_infinite(log_var: float, scale: float, kind: str) -> None:
    layer = VariationalConv2d(3, 4, 3, padding=1) if kind == "conv" else VariationalLinear(8, 4)
    nn.init.constant_(layer.log_var, log_var)
    x = (scale * torch.randn(2, 3, 8, 8)).requires_grad_()
    for _ in range(2):
        output = layer(x)
        loss = (output / max(scale, 1.0)).mean() + layer.kl()
        gradients = torch.autograd.grad(loss, [x, *layer.parameters()])
        assert output.isfinite().all()
        assert all(gradient.isfinite().all() for gradient in gradients)
        layer.eval()


def test_weights_leave_from_log_lambda_three_on() -> None:
    layer = VariationalConv2d(1, 1, (1, 3), bias=False)
    nn.init.ones_(layer.weight)
    layer.log_var.data[...] = torch.tensor([2.99, 3.01, -10.0])
    assert layer.pruned().flatten().tolist() == [1.0, 0.0, 1.0]
    assert layer.pruned(2.0).flatten().tolist() == [0.0, 0.0, 1.0]


def test_evaluation_is_certain_and_sees_variances_only_through_the_mask() -> None:
    layer, x = VariationalConv2d(2, 3, 3).eval(), torch.randn(1, 2, 6, 6)
    first = layer(x)
    assert torch.equal(layer(x), first)
    nn.init.constant_(layer.log_var, -9.0)
    assert torch.equal(layer(x), first)
    nn.init.constant_(layer.log_var, 9.0)
    assert torch.equal(layer(x), layer.bias[None, :, None, None].expand(1, 3, 4, 4))


def test_starts_as_the_paper_says() -> None:
    layer = VariationalConv2d(16, 32, 3)
    bound = (6 / (16 * 9 + 32 * 9)) ** 0.5
    assert layer.weight.abs().max().item() <= bound
    assert layer.weight.abs().max().item() > 0.9 * bound
    assert (layer.log_var == -10).all()
    assert (layer.bias == 0).all()
    assert isinstance(layer, Variational)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_noise_is_standard_normal_in_the_layout_of_its_model(layout: torch.memory_format) -> None:
    x = torch.empty(8, 6, 20, 20).contiguous(memory_format=layout)
    noise = noise_like(x)
    assert noise.stride() == x.stride()
    assert noise.mean().abs().item() < 0.02
    assert noise.var().item() == pytest.approx(1, abs=0.03)
