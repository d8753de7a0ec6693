"""A network as small as what is left of it: dead weights zeroed, then dead channels taken out."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ardor.pruning.cut import cut_
from ardor.pruning.dead_weights import WEIGHTED, constants, reads, without_dead
from ardor.pruning.trace import Step, layers_of, trace
from ardor.spaces import Net


def compact(net: Net, shape: tuple[int, int, int], multiple: int = 1) -> Net:
    """The same function with fewer channels and operations; of plain weights, in evaluation.

    Widths stay multiples of `multiple`, or whole: some dead channels are left in for it.
    """
    net = without_dead(net, trace(net, shape))
    for candidates, name in net.idle():
        del candidates[name]
    steps = trace(net, shape)
    layers, stays = layers_of(net), kept(steps, net, multiple)
    for step, keep in zip(steps, stays, strict=True):
        if step.kind in WEIGHTED:
            cut_(layers[step.layer], stays[step.inputs[0]].nonzero()[:, 0], keep.nonzero()[:, 0])
    net.forget_shapes_()
    return net.eval()


def kept(steps: Sequence[Step], net: Net, multiple: int = 1) -> Sequence[Tensor]:
    """For every step the channels of its output that stay.

    One stays if it is read and not always zero, or if another that stays is tied to it. What the
    network takes and gives stays, and so does what is not understood; and of everything something.
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
    return filled(torch.cat(alive), ties(steps), [step.width for step in steps], multiple)


def filled(alive: Tensor, groups: Tensor, widths: list[int], multiple: int) -> tuple[Tensor, ...]:
    """Whole groups of channels, as few as hold all that are alive and give every step a width."""
    stays = torch.isin(groups, groups[alive])
    parts = list(zip(torch.split(stays, widths), torch.split(groups, widths), strict=True))
    before = -1
    while (now := int(stays.sum())) != before:
        before = now
        for own, group in parts:
            while not own.all() and (not own.any() or int(own.sum()) % multiple):
                stays |= groups == group[~own][0]
    return torch.split(stays, widths)


def ties(steps: Sequence[Step]) -> Tensor:
    """A number for every channel of every step, in order: the same where all must go together."""
    widths = [step.width for step in steps]
    groups = torch.arange(sum(widths))
    of = torch.split(groups, widths)
    before = torch.full_like(groups, -1)
    while not torch.equal(before, groups):
        before = groups.clone()
        for at in (*range(len(steps)), *reversed(range(len(steps)))):
            for one, other in coupled(steps[at], of[at], of):
                least = torch.minimum(one, other)
                one.copy_(least)
                other.copy_(least)
    return groups


def coupled(step: Step, own: Tensor, of: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Which channels of a step go with which of its inputs."""
    if step.kind == "cat":
        parts = torch.split(own, [len(of[at]) for at in step.inputs])
        yield from zip(parts, (of[at] for at in step.inputs), strict=True)
    elif step.kind not in ("input", "conv", "opaque"):
        yield from ((own, of[at]) for at in step.inputs)
