"""A network without what has no effect: dead weights zeroed, then dead channels taken out."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ardor.errors import reported
from ardor.pruning.cut import cut_, run
from ardor.pruning.dead_weights import WEIGHTED, Layers, constants, reads, without_dead_weights
from ardor.pruning.trace import Step, layers_of, trace
from ardor.spaces import Net

FIXED = (
    "its forward goes by widths of its own: take them from what comes, as x.shape[1]; "
    "nothing was written"
)


def compact(net: Net, shape: tuple[int, int, int], multiple: int = 1) -> Net:
    """The same function with fewer channels and operations; of plain weights, in evaluation.

    Widths become multiples of `multiple`, or stay as they are: some dead channels remain for that.
    """
    net = without_dead_weights(net, trace(net, shape))
    for candidates, name in net.idle():
        del candidates[name]
    take_dead_channels_out_(net, shape, multiple)
    return net


def take_dead_channels_out_(net: Net, shape: tuple[int, int, int], multiple: int = 1) -> None:
    """Removes the channels of a network in evaluation that are not read, or always zero."""
    steps = trace(net, shape)
    layers, remaining = layers_of(net), kept(steps, net, multiple)
    for step, keep in zip(steps, remaining, strict=True):
        if step.kind in WEIGHTED:
            inputs = remaining[step.inputs[0]] if step.inputs else keep
            cut_(layers[step.layer], inputs.nonzero()[:, 0], keep.nonzero()[:, 0])
    net.forget_shapes_()
    net.eval()
    with reported("the network without channels that have no effect", FIXED):
        run(net, shape)


def kept(steps: Sequence[Step], net: Net, multiple: int = 1) -> Sequence[Tensor]:
    """For every step the channels of its output that are kept.

    A channel is kept if it is read and not always zero, or if it is tied to one that is kept. So
    are all inputs and outputs of the network and of opaque steps; and at least one channel of each
    step.
    """
    layers = layers_of(net)
    alive = [
        read & (value != 0)
        for read, value in zip(reads(steps, layers), constants(steps, layers), strict=True)
    ]
    for step, here in zip(steps, alive, strict=True):
        if step.kind in ("input", "opaque"):
            here.fill_(True)
            for at in step.inputs:
                alive[at].fill_(True)
    groups = ties(steps, layers)
    return whole_groups(torch.cat(alive), groups, [step.width for step in steps], multiple)


def whole_groups(
    alive: Tensor, groups: Tensor, widths: list[int], multiple: int
) -> tuple[Tensor, ...]:
    """The fewest whole groups with all live channels and a permitted width for every step."""
    kept = torch.isin(groups, groups[alive])
    parts = list(zip(torch.split(kept, widths), torch.split(groups, widths), strict=True))
    before = -1
    while (now := int(kept.sum())) != before:
        before = now
        for own, group in parts:
            while not own.all() and (not own.any() or int(own.sum()) % multiple):
                kept |= groups == group[~own][0]
    return torch.split(kept, widths)


def ties(steps: Sequence[Step], layers: Layers) -> Tensor:
    """A group for every channel of every step, in order: a group is kept or removed as one.

    What a mask makes zero is tied to nothing before it: others may read that channel.
    """
    widths = [step.width for step in steps]
    groups = torch.arange(sum(widths))
    of = torch.split(groups, widths)
    before = torch.full_like(groups, -1)
    while not torch.equal(before, groups):
        before = groups.clone()
        for at in (*range(len(steps)), *reversed(range(len(steps)))):
            if steps[at].kind == "spread":
                spread_(of[at], of[steps[at].inputs[0]])
            for one, other in coupled(steps[at], of[at], of):
                tied = torch.ones_like(one, dtype=torch.bool)
                if steps[at].kind == "mask":
                    tied = layers[steps[at].layer].weight.flatten() != 0
                least = torch.minimum(one, other)
                one.copy_(least.where(tied, one))
                other.copy_(least.where(tied, other))
    return groups


def spread_(own: Tensor, given: Tensor) -> None:
    """Ties what a channel has become to it, all of it as one."""
    each = own.view(len(given), -1)
    given.copy_(torch.minimum(given, each.amin(1)))
    each.copy_(given[:, None])


def coupled(step: Step, own: Tensor, of: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs of channels, of a step and of one of its inputs, that can only be removed together."""
    if step.kind == "cat":
        parts = torch.split(own, [len(of[at]) for at in step.inputs])
        yield from zip(parts, (of[at] for at in step.inputs), strict=True)
    elif step.kind not in ("input", "conv", "spread", "opaque"):
        yield from ((own, of[at]) for at in step.inputs)
