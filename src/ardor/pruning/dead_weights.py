"""Dead weights: those that are not zero and yet have no effect. They are zeroed until none is left.

A channel that no layer reads needs no weights. Nor does one that is constant: its effect on the
layers that read it moves into their normalisation or bias. Each rule is exact, so that the outputs
are the same up to rounding.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from ardor.pruning.trace import Layer, Norm, Step, is_depthwise, layers_of

N = TypeVar("N", bound=nn.Module)
Layers = Mapping[str, Layer]
WEIGHTED = ("conv", "depthwise", "norm", "mask", "zeros")


@torch.no_grad()
def without_dead_weights(net: N, steps: Sequence[Step]) -> N:
    """The same network with every weight zero that has no effect."""
    net = copy.deepcopy(net)
    layers, before = layers_of(net), -1
    while (now := sum(int(p.count_nonzero()) for p in net.parameters())) != before:
        before = now
        _move_constants_(steps, layers)
        for step, read in zip(steps, reads(steps, layers), strict=True):
            if step.kind in WEIGHTED:
                _clear_(layers[step.layer], ~read)
    return net


@torch.no_grad()
def constants(steps: Sequence[Step], layers: Layers) -> list[Tensor]:
    """For every step the channels that are one number everywhere in all images; else NaN."""
    found: list[Tensor] = []
    for step in steps:
        found.append(_constant(step, [found[i] for i in step.inputs], layers))
    return found


def _constant(step: Step, given: Sequence[Tensor], layers: Layers) -> Tensor:
    """The constant channels of the output of a step, in float64."""
    if step.kind == "add":
        return given[0] + given[1]
    if step.kind == "cat":
        return torch.cat(list(given))
    if step.kind == "spread":
        return given[0].repeat_interleave(step.width // len(given[0]))
    if step.kind == "relu":
        return given[0].relu()
    if step.kind == "same":
        return given[0].where(_steady(step, given[0]), torch.nan)
    if step.kind == "norm":
        return _normalised(layers[step.layer], given[0])
    if step.kind == "mask":
        return given[0].where(layers[step.layer].weight.flatten() != 0, 0.0)
    if step.kind == "zeros":
        return torch.zeros(step.width, dtype=torch.double)
    if step.kind in ("conv", "depthwise"):
        layer, steady = layers[step.layer], _steady(step, given[0])
        made = totals(layer) @ given[0].where(steady, 0.0)
        made = made if layer.bias is None else made + layer.bias.double()
        return made.masked_fill((links(layer) & ~steady).any(1), torch.nan)
    return torch.full((step.width,), torch.nan, dtype=torch.double)


def _steady(step: Step, given: Tensor) -> Tensor:
    """Channels that a step leaves constant: zeros, and others unless zeros are put around them."""
    return (given == 0) | (~given.isnan() & step.still)


def _normalised(norm: Layer, value: Tensor) -> Tensor:
    """A BatchNorm of constant channels; where its scale is zero, its shift for any input."""
    assert isinstance(norm, Norm)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    spread = (norm.running_var.double() + norm.eps).sqrt()
    moved = (value - norm.running_mean.double()) / spread * norm.weight.double()
    return moved.where(norm.weight != 0, 0.0) + norm.bias.double()


def links(layer: Layer) -> Tensor:
    """Whether an output of a convolution has any weight on an input, (outputs, inputs)."""
    return _matrix(layer, (_kernels(layer) != 0).any(2))


def totals(layer: Layer) -> Tensor:
    """The sums of the weights of each kernel, (outputs, inputs): outputs for inputs of ones."""
    return _matrix(layer, _kernels(layer).double().sum(2))


def _kernels(layer: Layer) -> Tensor:
    """The weights, (outputs, inputs that each reads, pixels)."""
    return layer.weight.reshape(*layer.weight.shape[:2], -1)


def _matrix(layer: Layer, entries: Tensor) -> Tensor:
    """(outputs, inputs); a depthwise convolution is diagonal."""
    return entries.flatten().diag() if is_depthwise(layer) else entries


@torch.no_grad()
def reads(steps: Sequence[Step], layers: Layers) -> list[Tensor]:
    """For every step the channels of its output that have an effect on the network's."""
    found = [torch.zeros(step.width, dtype=torch.bool) for step in steps]
    found[-1].fill_(True)
    for step, read in zip(reversed(steps), reversed(found), strict=True):
        for at, part in zip(step.inputs, _read_by(step, read, steps, layers), strict=True):
            found[at] |= part
    return found


def _read_by(step: Step, read: Tensor, steps: Sequence[Step], layers: Layers) -> Sequence[Tensor]:
    """The channels of each input that a step uses for those of its output that are read."""
    widths = [steps[i].width for i in step.inputs]
    if step.kind == "opaque":
        return [torch.ones(width, dtype=torch.bool) for width in widths]
    if step.kind == "cat":
        return torch.split(read, widths)
    if step.kind in ("norm", "mask"):
        return [read & (layers[step.layer].weight.flatten() != 0)]
    if step.kind in ("conv", "depthwise"):
        return [links(layers[step.layer])[read].any(0)]
    if step.kind == "spread":
        return [read.reshape(widths[0], -1).any(1)]
    return [read] * len(widths)


def _move_constants_(steps: Sequence[Step], layers: Layers) -> None:
    """Removes weights on constant channels, and of norms with a constant output all but a shift."""
    values = constants(steps, layers)
    for index, step in enumerate(steps):
        if step.kind in ("conv", "depthwise"):
            _move_into_bias_(steps, index, layers, values[step.inputs[0]])
        elif step.kind == "norm":
            users = {s.kind for s in steps if index in s.inputs}
            value = values[index].relu() if users == {"relu"} else values[index]
            _leave_shift_(layers[step.layer], value)


def _move_into_bias_(steps: Sequence[Step], index: int, layers: Layers, given: Tensor) -> None:
    """Zeroes weights on constant channels; the sum they add moves into a bias or the next norm."""
    step, layer = steps[index], layers[steps[index].layer]
    steady, target = _steady(step, given), _bias_after(steps, index, layers)
    if target is None:
        steady = given == 0
    else:
        bias, sign = target
        bias.add_(totals(layer) @ given.where(steady, 0.0), alpha=sign)
    if is_depthwise(layer):
        layer.weight[steady] = 0
    else:
        layer.weight[:, steady] = 0


def _bias_after(steps: Sequence[Step], index: int, layers: Layers) -> tuple[Tensor, float] | None:
    """Where a constant that a convolution adds can go, and its sign: a bias, or a norm's mean."""
    layer = layers[steps[index].layer]
    if layer.bias is not None:
        return layer.bias, 1.0
    first = 0
    while len(users := [i for i, s in enumerate(steps) if index in s.inputs]) == 1:
        user = steps[users[0]]
        if user.kind == "norm":
            norm = layers[user.layer]
            assert isinstance(norm, Norm)
            assert norm.running_mean is not None
            return norm.running_mean[first : first + layer.weight.shape[0]], -1.0
        if user.kind != "cat":
            break
        first += sum(steps[i].width for i in user.inputs[: user.inputs.index(index)])
        index = users[0]
    return None


def _leave_shift_(norm: Layer, value: Tensor) -> None:
    """Leaves a norm only a shift in the channels whose value is constant."""
    constant = ~value.isnan()
    _clear_(norm, constant)
    norm.bias.masked_scatter_(constant, value[constant].to(norm.weight.dtype))  # type: ignore[union-attr]


def _clear_(layer: Layer, dead: Tensor) -> None:
    """Zeroes all weights of the dead channels of a layer's output."""
    layer.weight[dead] = 0
    if layer.bias is not None:
        layer.bias[dead] = 0
    if isinstance(layer, Norm) and layer.running_mean is not None:
        layer.running_mean[dead] = 0
    if isinstance(layer, Norm) and layer.running_var is not None:
        layer.running_var[dead] = 1
