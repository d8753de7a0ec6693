"""Layers cut down to some of their channels, and a record of the cuts for saved models."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ardor.errors import ArdorError
from ardor.layers.choices import Mask, Zeros
from ardor.layers.mixed import Mixed
from ardor.pruning.trace import Layer, Norm, is_depthwise, layers_of
from ardor.spaces import Net


def widths(layer: Layer) -> list[int]:
    """Channels of a layer's input and of its output."""
    if isinstance(layer, Mask):
        return [layer.inputs, len(layer.weight)]
    if isinstance(layer, Zeros):
        return [len(layer.weight)] * 2
    if isinstance(layer, Norm):
        return [layer.num_features] * 2
    if isinstance(layer, nn.Linear):
        return [layer.in_features, layer.out_features]
    return [layer.in_channels, layer.out_channels]


@torch.no_grad()
def cut_(layer: Layer, inputs: Tensor, outputs: Tensor) -> None:
    """Leaves a layer only these channels of its input and output."""
    weight = layer.weight[outputs]
    if isinstance(layer, (Mask, Zeros)):
        layer.weight = weight
        if isinstance(layer, Mask):
            take_(layer, inputs, outputs)
        return
    if isinstance(layer, Norm):
        layer.num_features = len(outputs)
        if layer.running_mean is not None and layer.running_var is not None:
            layer.running_mean = layer.running_mean[outputs]
            layer.running_var = layer.running_var[outputs]
    elif is_depthwise(layer):
        layer.in_channels = layer.out_channels = layer.groups = len(outputs)
    else:
        weight = weight[:, inputs]
        kind = "features" if isinstance(layer, nn.Linear) else "channels"
        setattr(layer, f"in_{kind}", len(inputs))
        setattr(layer, f"out_{kind}", len(outputs))
    layer.weight = nn.Parameter(weight)
    if layer.bias is not None:
        layer.bias = nn.Parameter(layer.bias[outputs])


def take_(mask: Mask, inputs: Tensor, outputs: Tensor) -> None:
    """Has a mask that is given these channels read those that it leaves.

    One that is not among them it makes zero, and so may read any other.
    """
    if mask.taken is not None:  # it has been cut before: all that comes to it stays
        mask.taken = mask.taken[outputs]
        return
    mask.inputs = len(inputs)
    if not torch.equal(inputs, outputs):
        mask.taken = torch.searchsorted(inputs, outputs).clamp(max=len(inputs) - 1)


def record(net: Net, full: Net) -> dict[str, Any]:
    """How a network differs from the one that its architecture builds; empty if it does not."""
    modules, layers, built = dict(net.named_modules()), layers_of(net), layers_of(full)
    missing = {name for name, _ in full.named_modules() if name not in modules}
    cut = {n: widths(layer) for n, layer in layers.items() if widths(layer) != widths(built[n])}
    masks = {name: layer for name, layer in layers.items() if isinstance(layer, Mask)}
    taken = {name: m.taken.tolist() for name, m in masks.items() if m.taken is not None}
    if not missing and not cut and not taken:
        return {}
    gone = sorted(n for n in missing if parent(n) not in missing)
    return {"gone": gone, "widths": cut, **({"taken": taken} if taken else {})}


def parent(name: str) -> str:
    """The name of the module that a module is in."""
    return name.rpartition(".")[0]


def fit_(net: Net, shape: tuple[int, int, int], recorded: Any, path: Path) -> None:
    """Cuts a network as a `record` says; an ArdorError unless the result is smaller and works.

    Nothing is made larger than the architecture builds it, whatever the file says.
    """
    entries = recorded if isinstance(recorded, Mapping) else {}
    removed, cut, taken = entries.get("gone"), entries.get("widths"), entries.get("taken", {})
    if not (
        isinstance(removed, list)
        and isinstance(cut, Mapping)
        and isinstance(taken, Mapping)
        and set(entries) <= {"gone", "widths", "taken"}
    ):
        raise strange(path, "'compact' must hold 'gone' and 'widths', and may hold 'taken'")
    for name in removed:
        _take_out_(net, name, path)
    layers = layers_of(net)
    for name, pair in cut.items():
        if name not in layers:
            raise strange(path, f"the network has no layer '{name}'")
        _narrow_(name, layers[name], pair, path)
    for name, channels in taken.items():
        _select_(name, layers.get(name), channels, path)
    net.forget_shapes_()
    _check_runs(net, shape, path)


def _take_out_(net: Net, name: Any, path: Path) -> None:
    """Removes a candidate."""
    mixed, _, option = str(name).rpartition(".candidates.")
    edge = dict(net.named_modules()).get(mixed)
    if not isinstance(edge, Mixed) or option not in edge.candidates:
        raise strange(path, f"the network has no operation {name!r}")
    del edge.candidates[option]


def _narrow_(name: str, layer: Layer, pair: Any, path: Path) -> None:
    """Cuts a layer to the first so many channels of its input and output."""
    most = widths(layer)
    equal = isinstance(layer, (Norm, Zeros)) or is_depthwise(layer)
    if not (
        isinstance(pair, list)
        and [type(n) for n in pair] == [int, int]
        and all(0 < n <= limit for n, limit in zip(pair, most, strict=True))
        and (pair[0] == pair[1] or not equal)
    ):
        raise strange(path, f"widths of '{name}' are {pair!r}; must be from [1, 1] to {most}")
    cut_(layer, *(torch.arange(n) for n in pair))


def _select_(name: str, layer: Layer | None, channels: Any, path: Path) -> None:
    """Has a mask read these of the channels that come to it."""
    if not isinstance(layer, Mask):
        raise strange(path, f"the network has no mask '{name}'")
    if not (
        isinstance(channels, list)
        and len(channels) == len(layer.weight)
        and all(type(at) is int and 0 <= at < layer.inputs for at in channels)
    ):
        raise strange(
            path, f"'{name}' must read {len(layer.weight)} channels, each below {layer.inputs}"
        )
    layer.taken = torch.tensor(channels, device=layer.weight.device)


def _check_runs(net: Net, shape: tuple[int, int, int], path: Path) -> None:
    """An ArdorError unless the layers fit each other."""
    try:
        run(net, shape)
    except Exception as error:
        raise strange(path, "widths of its layers do not fit each other") from error


def run(net: Net, shape: tuple[int, int, int]) -> None:
    """Has a blank image go through, where nothing is computed: what does not fit fails."""
    copied = copy.deepcopy(net).to("meta").eval()
    copied(torch.zeros(1, *shape, device="meta", dtype=next(net.parameters()).dtype))


def strange(path: Path, reason: str) -> ArdorError:
    """The error for a record that Ardor did not write."""
    return ArdorError(f"'{path}' is of no network: {reason}", "put back what Ardor wrote there")
