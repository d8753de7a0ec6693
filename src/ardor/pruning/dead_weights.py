"""Dead weights: those that are not zero and yet do nothing, found and zeroed to a fixed point.

A channel that nobody reads needs no weights that make it. Nor does one that is constant: what its
readers make of it moves into their normalisation or bias. Each rule is exact, so that the outputs
stay the same but for rounding.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from ardor.pruning.trace import Layer, Step, is_depthwise, layers_of

N = TypeVar("N", bound=nn.Module)
Layers = Mapping[str, Layer]
WEIGHTED = ("conv", "depthwise", "norm")


@torch.no_grad()
def without_dead(net: N, steps: Sequence[Step]) -> N:
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
    """What a step makes of constant channels, in float64."""
    if step.kind == "add":
        return given[0] + given[1]
    if step.kind == "cat":
        return torch.cat(list(given))
    if step.kind == "relu":
        return given[0].relu()
    if step.kind == "same":
        return given[0].where(_steady(step, given[0]), torch.nan)
    if step.kind == "norm":
        return _normalised(layers[step.layer], given[0])
    if step.kind in ("conv", "depthwise"):
        layer, steady = layers[step.layer], _steady(step, given[0])
        made = totals(layer) @ given[0].where(steady, 0.0)
        made = made if layer.bias is None else made + layer.bias.double()
        return made.masked_fill((links(layer) & ~steady).any(1), torch.nan)
    return torch.full((step.width,), torch.nan, dtype=torch.double)


def _steady(step: Step, given: Tensor) -> Tensor:
    """Which channels are constant and stay so: zeros do, and others unless zeros are put around."""
    return (given == 0) | (~given.isnan() & step.still)


def _normalised(norm: Layer, value: Tensor) -> Tensor:
    """A BatchNorm of constant channels; where it has no scale, its shift, whatever comes in."""
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    spread = (norm.running_var.double() + norm.eps).sqrt()
    moved = (value - norm.running_mean.double()) / spread * norm.weight.double()
    return moved.where(norm.weight != 0, 0.0) + norm.bias.double()


def links(layer: Layer) -> Tensor:
    """Which outputs of a convolution have a weight on which inputs, (outputs, inputs)."""
    return _matrix(layer, (_kernels(layer) != 0).any(2))


def totals(layer: Layer) -> Tensor:
    """What a convolution makes of maps of ones, (outputs, inputs)."""
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
    if step.kind == "norm":
        return [read & (layers[step.layer].weight != 0)]
    if step.kind in ("conv", "depthwise"):
        return [links(layers[step.layer])[read].any(0)]
    return [read] * len(widths)


def _move_constants_(steps: Sequence[Step], layers: Layers) -> None:
    """Takes constant channels out of convolutions, and variable parts out of constant norms."""
    values = constants(steps, layers)
    for index, step in enumerate(steps):
        if step.kind in ("conv", "depthwise"):
            _fold_(steps, index, layers, values[step.inputs[0]])
        elif step.kind == "norm":
            users = {s.kind for s in steps if index in s.inputs}
            value = values[index].relu() if users == {"relu"} else values[index]
            _settle_(layers[step.layer], value)


def _fold_(steps: Sequence[Step], index: int, layers: Layers, given: Tensor) -> None:
    """Zeroes weights on constant channels; what they added moves into the bias or norm after."""
    step, layer = steps[index], layers[steps[index].layer]
    steady, sink = _steady(step, given), _sink(steps, index, layers)
    if sink is None:
        steady = given == 0
    else:
        sink[0].add_(totals(layer) @ given.where(steady, 0.0), alpha=sink[1])
    if is_depthwise(layer):
        layer.weight[steady] = 0
    else:
        layer.weight[:, steady] = 0


def _sink(steps: Sequence[Step], index: int, layers: Layers) -> tuple[Tensor, float] | None:
    """What takes up a constant that a convolution adds, and its sign: a bias, or a norm's mean."""
    layer = layers[steps[index].layer]
    if layer.bias is not None:
        return layer.bias, 1.0
    first = 0
    while len(users := [i for i, s in enumerate(steps) if index in s.inputs]) == 1:
        user = steps[users[0]]
        if user.kind == "norm":
            norm = layers[user.layer]
            assert isinstance(norm, nn.BatchNorm2d)
            assert norm.running_mean is not None
            return norm.running_mean[first : first + layer.weight.shape[0]], -1.0
        if user.kind != "cat":
            break
        first += sum(steps[i].width for i in user.inputs[: user.inputs.index(index)])
        index = users[0]
    return None


def _settle_(norm: Layer, value: Tensor) -> None:
    """Leaves of constant channels nothing but a shift."""
    settled = ~value.isnan()
    _clear_(norm, settled)
    norm.bias.masked_scatter_(settled, value[settled].to(norm.weight.dtype))  # type: ignore[union-attr]


def _clear_(layer: Layer, dead: Tensor) -> None:
    """Zeroes all that makes the dead channels of a layer's output."""
    layer.weight[dead] = 0
    if layer.bias is not None:
        layer.bias[dead] = 0
    if isinstance(layer, nn.BatchNorm2d) and layer.running_mean is not None:
        layer.running_mean[dead] = 0
    if isinstance(layer, nn.BatchNorm2d) and layer.running_var is not None:
        layer.running_var[dead] = 1
