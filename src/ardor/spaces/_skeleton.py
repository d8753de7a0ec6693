"""The supernet of a module without numbers: what a blank image does on its way is seen once.

Nothing is computed there, so that choices, sizes and errors are known before anything is built.
"""

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ardor.errors import ArdorError, reported
from ardor.layers.choices import Decision, LayerChoice, WidthChoice
from ardor.spaces._modulenet import ModuleNet

if TYPE_CHECKING:
    from ardor.spaces._module import ModuleSpace


@functools.lru_cache(maxsize=16)
def skeleton(space: "ModuleSpace") -> ModuleNet:
    """The supernet without numbers, checked, once blank images have gone through it."""
    net = unnumbered(space)
    check_decisions(space.name, net.decisions)
    with (
        seen(net),
        torch.no_grad(),
        reported(
            f"forward of '{space.name}' on blank images",
            f"try it yourself: {space.call()}(torch.zeros(2, *{space.image}))",
        ),
    ):
        logits = net.eval()(torch.zeros(2, *space.image, device="meta"))
    if not isinstance(logits, Tensor) or logits.shape != (2, space.classes):
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ArdorError(
            f"forward of '{space.name}' gives {shape} for 2 images; "
            f"must be logits, (2, {space.classes})",
            "the last layer must have as many outputs as there are classes",
        )
    return net


def unnumbered(space: "ModuleSpace") -> ModuleNet:
    """The supernet on torch's device without numbers; some builders need numbers to get there."""
    with torch.random.fork_rng(devices=[]):
        with suppress(ArdorError), torch.device("meta"):
            return ModuleNet(space.made()).to("meta")  # where it is a copy, it has numbers
        return ModuleNet(space.made()).to("meta")


def check_decisions(space: str, decisions: Mapping[str, list[Decision]]) -> None:
    """An ArdorError unless choices are alike where they share a name."""
    for name, same in decisions.items():
        if len({(decision.kind, decision.options) for decision in same}) > 1:
            raise ArdorError(
                f"choices of the space '{space}' share the name '{name}' and have other options",
                "what has the same name is decided once: give them different names",
            )


@contextmanager
def seen(net: ModuleNet) -> Iterator[None]:
    """Has each choice know the sizes of what it gives, from the images that come through."""
    last: dict[int, nn.Conv2d | nn.Linear] = {}  # channels -> the layer that gave so many
    open_: dict[int, list[WidthChoice]] = {}  # channels -> choices whose layer is yet to come

    def note(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(module, Decision):
            module.sizes[tuple(inputs[0].shape[2:])] = tuple(output.shape[1:])
        if isinstance(module, WidthChoice) and module.of == "input":
            open_.setdefault(output.shape[1], []).append(module)
        elif isinstance(module, WidthChoice) and output.shape[1] in last:
            module.layers = (last[output.shape[1]],)
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            # A depthwise convolution only hands its channels on, to the layer that reads them.
            for choice in [] if hands_on(module) else open_.pop(inputs[0].shape[1], []):
                choice.layers = (module,)
            last[output.shape[1]] = module

    hooks = [module.register_forward_hook(note) for module in net.modules()]
    hooks += [module.register_forward_pre_hook(check_given) for module in net.modules()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def hands_on(layer: nn.Conv2d | nn.Linear) -> bool:
    """Whether a layer makes each channel of its output from one of its input alone."""
    return isinstance(layer, nn.Conv2d) and 1 < layer.groups == layer.in_channels


def check_given(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    """An ArdorError where what comes to a choice does not suit it."""
    if isinstance(module, LayerChoice):
        if tuple(inputs[0].shape[2:]) not in module.sizes:  # once: nested ones are met more often
            check_alike(module, *inputs)
    elif isinstance(module, WidthChoice) and inputs[0].shape[1] != len(module.options):
        raise ArdorError(
            f"choice '{module.name}' is over {len(module.options)} channels; "
            f"must be over {inputs[0].shape[1]}, as many as come to it",
            "what passes through is (batch, channels, ...)",
        )


def check_alike(layer: LayerChoice, x: Tensor) -> None:
    """An ArdorError unless all candidates of a layer give the same size."""
    named = layer.mixed.candidates.items()
    sizes = {option: tuple(candidate(x).shape[1:]) for option, candidate in named}
    if len(set(sizes.values())) > 1:
        words = ", ".join(f"{option} {size}" for option, size in sizes.items())
        raise ArdorError(
            f"candidates of choice '{layer.name}' give different sizes: {words}",
            "they are added up: each must give as many channels, rows and columns",
        )


def learn_sizes_(net: ModuleNet, other: ModuleNet) -> None:
    """What another net's choices know of sizes, and of the layers beside them."""
    names = {id(module): name for name, module in other.named_modules()}
    for own, theirs in zip(net.decisions.values(), other.decisions.values(), strict=True):
        for mine, known in zip(own, theirs, strict=True):
            mine.sizes = dict(known.sizes)
            if isinstance(mine, WidthChoice) and isinstance(known, WidthChoice):
                found = [net.get_submodule(names[id(layer)]) for layer in known.layers]
                mine.layers = tuple(x for x in found if isinstance(x, (nn.Conv2d, nn.Linear)))
