"""Groups of weights that leave a network together, by the structures that one may want of it.

What depends on each other is one group: a channel that several layers make, because their outputs
are added, or that several read, is made and read everywhere or nowhere.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ardor.errors import ArdorError, unknown
from ardor.pruning.channels import ties
from ardor.pruning.trace import Step, layers_of, trace

KINDS: Mapping[str, str] = {
    "filters": "all weights that make a channel, in every layer that adds to it",
    "channels": "all weights that read a channel, in every layer that does",
    "shapes": "one place of a kernel and one input channel, in all filters of a convolution",
    "rows": "the weights of one output of a linear map",
    "columns": "the weights of one input of a linear map",
    "layers": "all weights of a layer that another path passes by",
    "weights": "each weight by itself",
}


@dataclass(frozen=True)
class Groups:
    """A group for every weight of some layers; the number after the last one stands for none."""

    kind: str
    index: Mapping[str, Tensor]  # layer -> group of its weights, broadcast to their shape
    count: int
    # Shifts and scales that go with them, by the name of the parameter: what they would leave of a
    # channel without weights is a constant.
    shifts: Mapping[str, Tensor] = field(default_factory=dict)

    def sums(self, values: Mapping[str, Tensor]) -> Tensor:
        """The sum of the values of each group's weights, (count,)."""
        found = torch.zeros(self.count + 1, device=self.device)
        for name, index in self.index.items():
            shared = [at for at, size in enumerate(index.shape) if size == 1]
            each = values[name].sum(shared, keepdim=True) if shared else values[name]
            found.index_add_(0, index.flatten(), each.flatten())
        return found[:-1]

    def sizes(self, like: Mapping[str, Tensor]) -> Tensor:
        """How many weights each group has."""
        return self.sums({name: torch.ones_like(like[name]) for name in self.index})

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(iter(self.index.values())).device

    def to(self, device: torch.device) -> "Groups":
        """The same groups, of weights there."""
        moved = {name: index.to(device) for name, index in self.index.items()}
        return Groups(self.kind, moved, self.count, self.shifts)

    def of_layer(self, name: str) -> "Groups":
        """The same groups, as far as they are in one layer."""
        return Groups(self.kind, {name: self.index[name]}, self.count)

    def spread(self, each: Tensor, other: float) -> dict[str, Tensor]:
        """The number of each weight's group, broadcast to its shape; `other` where it has none."""
        padded = torch.cat([each, each.new_full((1,), other)])
        return {name: padded[index] for name, index in self.index.items()}


def weights_of(net: nn.Module) -> dict[str, Tensor]:
    """The weights of convolutions and linear maps, by layer: those that can leave."""
    found = {n: m for n, m in net.named_modules() if isinstance(m, (nn.Conv2d, nn.Linear))}
    return {name: layer.weight for name, layer in found.items()}


def groups_of(net: nn.Module, shape: Sequence[int], kinds: Sequence[str]) -> list[Groups]:
    """The groups of a network, for each of these kinds."""
    check_kinds(kinds)
    steps = trace(net, shape)
    made = {
        "filters": lambda: by_channel(net, steps, "filters"),
        "channels": lambda: by_channel(net, steps, "channels"),
        "layers": lambda: by_layer(net, steps),
    }
    found = [made[kind]() if kind in made else by_place(net, steps, kind) for kind in kinds]
    return [groups for groups in found if groups.count]


def groups_in(net: nn.Module, shape: Sequence[int], kinds: Sequence[str]) -> list[Groups]:
    """The same; an ArdorError where there are none of these kinds."""
    found = groups_of(net, shape, kinds)
    if not found:
        raise ArdorError(
            f"the network has no groups of the kind {', '.join(kinds)} that could leave",
            "name others, such as --groups filters or --groups weights: 'ardor list groups'",
        )
    return found


def check_kinds(kinds: Sequence[str]) -> None:
    """An ArdorError if there is none, or one that is not known."""
    if not kinds:
        raise ArdorError("compress.groups = [] must name what leaves", f"one of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind of group", kind, KINDS)


def by_channel(net: nn.Module, steps: Sequence[Step], kind: str) -> Groups:
    """The weights that make each channel, or that read it; channels that must stay have none."""
    layers = layers_of(net)
    tied = ties(steps, layers)
    of = torch.split(tied, [step.width for step in steps])
    bound = [fixed(step, own, of) for step, own in zip(steps, of, strict=True)]
    number = numbers(tied, torch.cat(bound))
    index: dict[str, Tensor] = {}
    shifts: dict[str, Tensor] = {}
    for step, own in zip(steps, of, strict=True):
        if step.kind in ("conv", "depthwise"):
            ends = [1] * (layers[step.layer].weight.dim() - 2)
            if kind == "filters":
                index[step.layer] = number[own].view(-1, 1, *ends)
            elif step.kind == "conv":
                index[step.layer] = number[of[step.inputs[0]]].view(1, -1, *ends)
        if kind == "filters" and step.kind in ("conv", "depthwise", "norm"):
            names = ("weight", "bias") if step.kind == "norm" else ("bias",)
            shifts |= {f"{step.layer}.{name}": number[own] for name in names}
    return Groups(kind, index, int(number.max()), shifts)


def numbers(tied: Tensor, bound: Tensor) -> Tensor:
    """The number of a group for every tie; what is bound has that after the last."""
    free = torch.unique(tied)
    free = free[~torch.isin(free, bound)]
    number = torch.full((int(tied.max()) + 1,), len(free))
    number[free] = torch.arange(len(free))
    return number


def fixed(step: Step, own: Tensor, of: Sequence[Tensor]) -> Tensor:
    """The channels that a step lets nobody take away: those of images, answers and the unknown."""
    if step.kind not in ("input", "opaque"):
        return own[:0]
    return torch.cat([own, *(of[at] for at in step.inputs)])


def by_place(net: nn.Module, steps: Sequence[Step], kind: str) -> Groups:
    """Groups that lie within a layer; the rows of a layer that gives the answers all stay."""
    index, count = {}, 0
    answers = {steps[at].layer for step in steps if step.kind == "opaque" for at in step.inputs}
    for name, weight in weights_of(net).items():
        shape = shape_of(kind, weight)
        if shape and not (kind == "rows" and name in answers):
            size = int(torch.tensor(shape).prod())
            index[name] = torch.arange(count, count + size).view(shape)
            count += size
    return Groups(kind, index, count)


def shape_of(kind: str, weight: Tensor) -> tuple[int, ...]:
    """The shape of a layer's groups, with one along what a group runs through; () for none."""
    linear = weight.dim() == 2
    if kind == "weights":
        return tuple(weight.shape)
    if kind == "shapes" and not linear:
        return (1, *weight.shape[1:])
    if kind == "rows" and linear:
        return (len(weight), 1)
    return (1, weight.shape[1]) if kind == "columns" and linear else ()


def by_layer(net: nn.Module, steps: Sequence[Step]) -> Groups:
    """A group for each layer without which images still get through to the answer."""
    index: dict[str, Tensor] = {}
    weights = weights_of(net)
    gone = {name for name, weight in weights.items() if not weight.any()}
    for name in (step.layer for step in steps if step.kind == "conv"):
        if get_through(steps, gone | {name}):
            gone.add(name)
            index[name] = torch.full((1,) * weights[name].dim(), len(index))
    return Groups("layers", index, len(index))


def get_through(steps: Sequence[Step], gone: Collection[str]) -> bool:
    """Whether an image has an effect on the answer where these layers give nothing."""
    reached: list[bool] = []
    for step in steps:
        given = step.layer not in gone and any(reached[at] for at in step.inputs)
        reached.append(step.kind == "input" or given)
    return reached[-1]
