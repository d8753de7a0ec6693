"""Layers of a module that is already there, made such as a search or a posterior needs them."""

from collections.abc import Callable
from typing import TypeVar

from torch import nn

from ardor.layers.norms import norms_of, remove_statistics_
from ardor.layers.variational import VariationalConv2d, VariationalLinear, linear_for

M = TypeVar("M", bound=nn.Module)


def with_weights_of_(net: nn.Module, conv: type[nn.Conv2d]) -> None:
    """Makes convolutions those of the class `conv`, and linear maps those with such weights.

    They keep their settings and weights. Subclasses of a person's own stay as they are.
    """
    linear = linear_for(conv)
    if conv is not nn.Conv2d:
        replace_(net, nn.Conv2d, lambda layer: convolution(layer, conv))
    if linear is not nn.Linear:
        replace_(net, nn.Linear, lambda layer: linear_map(layer, linear))


def plain_(net: nn.Module) -> None:
    """Makes layers with Gaussian weights plain ones, which have their means."""
    replace_(net, VariationalConv2d, lambda layer: convolution(layer, nn.Conv2d))
    replace_(net, VariationalLinear, lambda layer: linear_map(layer, nn.Linear))


def replace_(net: nn.Module, kind: type[M], made: Callable[[M], nn.Module]) -> None:
    """Puts another layer in the place of each of just this class, wherever it stands."""
    new: dict[int, nn.Module] = {}  # a layer that stands in two places stays one
    for parent in list(net.modules()):
        for name, layer in list(parent._modules.items()):
            if type(layer) is kind:
                if id(layer) not in new:
                    new[id(layer)] = made(layer)
                setattr(parent, name, new[id(layer)])


def convolution(layer: nn.Conv2d, conv: type[nn.Conv2d]) -> nn.Conv2d:
    """The same convolution as one of the class `conv`."""
    made = conv(
        layer.in_channels,
        layer.out_channels,
        layer.kernel_size,  # type: ignore[arg-type]
        stride=layer.stride,  # type: ignore[arg-type]
        padding=layer.padding,  # type: ignore[arg-type]
        dilation=layer.dilation,  # type: ignore[arg-type]
        groups=layer.groups,
        bias=layer.bias is not None,
        padding_mode=layer.padding_mode,
        device=layer.weight.device,
    )
    made.weight, made.bias = layer.weight, layer.bias
    return made


def linear_map(layer: nn.Linear, linear: type[nn.Linear]) -> nn.Linear:
    """The same linear map as one of the class `linear`."""
    biased, device = layer.bias is not None, layer.weight.device
    made = linear(layer.in_features, layer.out_features, bias=biased, device=device)
    made.weight, made.bias = layer.weight, layer.bias
    return made


def batch_statistics_(net: nn.Module) -> None:
    """Has BatchNorms go by the statistics of the batch, without a scale, as a search needs it.

    Candidates change what is normalised from step to step, and a scale would rival the gates.
    """
    for norm in norms_of(net):
        remove_statistics_(norm)
        norm.num_batches_tracked = None
        norm.affine = False
        for name in ("weight", "bias"):
            norm.register_parameter(name, None)


def not_in_place_(net: nn.Module) -> None:
    """Has no layer overwrite what it is given: candidates share their input."""
    for module in net.modules():
        if getattr(module, "inplace", False):
            module.__dict__["inplace"] = False
