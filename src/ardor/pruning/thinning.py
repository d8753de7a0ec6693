"""A network that loses groups of weights while it learns: which are zero, and which are next."""

import copy
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from ardor.layers.conversion import plain_
from ardor.layers.variational import Variational
from ardor.pruning.channels import take_dead_channels_out_
from ardor.pruning.dead_weights import without_dead_weights
from ardor.pruning.groups import Groups, weights_of
from ardor.pruning.priors import Prior
from ardor.pruning.trace import trace
from ardor.spaces import Net

Fits = Callable[[Net], bool]  # whether a smaller network is small enough
GONE = -30.0  # log sigma^2 of a weight that has left: it brings no noise either
CLOSE = 2000  # parts of all groups: nearer to the largest network that fits nobody needs to come
WIDTHS = ("filters", "channels")  # kinds of groups by which layers become narrower
STAYS = 2**62  # the rank of a group that stays, whatever leaves


class Thinning(nn.Module):
    """The masks of a network's weights, and the prior by which they are chosen."""

    def __init__(
        self,
        net: Net,
        shape: tuple[int, int, int],
        prior: Prior,
        *,
        by_time: bool = False,
        multiple: int = 1,  # of which widths are, or whole
    ) -> None:
        super().__init__()
        self.prior, self.shape, self.multiple = prior, shape, multiple
        # What a group's relevance is divided by: all weights cost alike, or by their multiply-adds.
        self.costs = multiply_adds_of_weights(net, shape) if by_time else {}
        self._net = [net]  # in a list, as its weights are saved elsewhere
        for name, weight in weights_of(net).items():
            self.register_buffer(mask_of(name), weight.detach() != 0)

    @property
    def net(self) -> Net:
        """The network that learns."""
        return self._net[0]

    @torch.no_grad()
    def hold(self, net: Net | None = None) -> None:
        """Sets to zero again what a step has moved away from it, here or in a net of this form."""
        for name, module in (net or self.net).named_modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                kept = self.get_buffer(mask_of(name))
                module.weight.mul_(kept)
                if isinstance(module, Variational):
                    module.log_var.masked_fill_(~kept, GONE)

    def thin_(self, fits: Fits) -> Net:
        """Takes out the fewest of the least relevant groups so that what is left fits.

        All but the last of each layer if nothing does. Returns the network without what has left.
        """
        ranks = ranked(self.prior, self.costs)
        least, most = 0, max(int(rank.where(rank < STAYS, 0).max()) for rank in ranks)
        close = most // CLOSE
        while most - least > close:
            middle = (least + most) // 2
            if fits(self.smaller(ranks, middle)):
                most = middle
            else:
                least = middle + 1
        self.take_(without_dead(self.without(ranks, most), self.shape))
        return self.smaller(ranks, most)

    def smaller(self, ranks: Sequence[Tensor], removed: int) -> Net:
        """The network with so many groups removed, and without dead channels."""
        net = without_dead(self.without(ranks, removed), self.shape)
        take_dead_channels_out_(net, self.shape, self.multiple)
        return net

    @torch.no_grad()
    def without(self, ranks: Sequence[Tensor], removed: int) -> Net:
        """A copy with plain weights, those of the groups with the lowest ranks zero."""
        net = copy.deepcopy(self.net).cpu()
        plain_(net)
        net.forget_shapes_()
        parameters = dict(net.named_parameters())
        for groups, rank in zip(self.prior.groups, ranks, strict=True):
            stays = torch.cat([rank > removed, torch.ones(1, dtype=torch.bool)])
            if groups.kind in WIDTHS:
                fill_up_(stays, rank, groups, self.multiple)
            weights = {f"{name}.weight": index for name, index in groups.index.items()}
            for name, index in {**weights, **groups.shifts}.items():
                if name in parameters:  # a layer may have no bias
                    parameters[name].mul_(stays[index.cpu()])
        return net

    @torch.no_grad()
    def take_(self, thinner: Net) -> None:
        """Takes over all that a network of this form has, its zeros as masks."""
        own = self.net.state_dict()
        for name, tensor in thinner.state_dict().items():
            own[name].copy_(tensor)
        self.read_masks_()
        self.hold()

    def read_masks_(self) -> None:
        """Takes what is zero in the network as what has left it."""
        for name, weight in weights_of(self.net).items():
            self.get_buffer(mask_of(name)).copy_(weight != 0)


def without_dead(net: Net, shape: tuple[int, int, int]) -> Net:
    """A network in evaluation without weights that have no effect."""
    return without_dead_weights(net, trace(net, shape))


def ranked(prior: Prior, costs: Mapping[str, float]) -> list[Tensor]:
    """The place of each group among those that may leave, from one, the first to leave.

    That is the least relevant for what it costs: for its weights, or those times their `costs`.

    Zero for what leaves in any case; `STAYS` for the most relevant of each layer, without which
    nothing would get through it.
    """
    relevance = prior.relevance()
    every = torch.cat(relevance).cpu()
    price = torch.cat([mean_cost(groups, prior.weights, costs) for groups in prior.groups]).cpu()
    stays = torch.cat([best(*pair) for pair in zip(prior.groups, relevance, strict=True)])
    leaves = ~(every > prior.never) & ~stays
    ranks = torch.zeros(len(every), dtype=torch.long)
    open_ = (~leaves & ~stays).nonzero()[:, 0]
    ranks[open_[(every / price)[open_].argsort(stable=True)]] = torch.arange(1, len(open_) + 1)
    ranks[stays] = STAYS
    return list(torch.split(ranks, [len(each) for each in relevance]))


def fill_up_(stays: Tensor, rank: Tensor, groups: Groups, multiple: int) -> None:
    """Has the most relevant of those that would leave stay, until each layer has a good width."""
    layers = [index.flatten().cpu() for index in groups.index.values()]
    ranks, before = torch.cat([rank, rank.new_zeros(1)]), -1
    while (now := int(stays.sum())) != before:
        before = now
        for here in layers:
            missing = -int(stays[here].sum()) % multiple
            gone = here[~stays[here]]
            stays[gone[ranks[gone].argsort(descending=True, stable=True)[:missing]]] = True


def mean_cost(groups: Groups, weights: Mapping[str, Tensor], costs: Mapping[str, float]) -> Tensor:
    """What a weight of each group costs."""
    each = {name: torch.full_like(weights[name], costs.get(name, 1.0)) for name in groups.index}
    return groups.sums(each) / groups.sizes(weights)


def multiply_adds_of_weights(net: nn.Module, shape: Sequence[int]) -> dict[str, float]:
    """How often each weight of a layer is used for an image: once for each pixel of its output."""
    found: dict[str, float] = {}

    def note(name: str) -> Callable[..., None]:
        return lambda layer, given, made: found.update({name: float(made[0, 0].numel())})

    layers = [(n, m) for n, m in net.named_modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    hooks = [layer.register_forward_hook(note(name)) for name, layer in layers]
    with torch.no_grad():
        net.eval()(torch.zeros(1, *shape, device=next(net.parameters()).device))
    for hook in hooks:
        hook.remove()
    return found


def best(groups: Groups, relevance: Tensor) -> Tensor:
    """Which groups are the most relevant of a layer; layers as a whole can all be done without."""
    found = torch.zeros(groups.count + 1, dtype=torch.bool, device=groups.device)
    padded = torch.cat([relevance, relevance.new_full((1,), -torch.inf)])
    for index in () if groups.kind == "layers" else groups.index.values():
        here = index.flatten()
        found[here[padded[here].argmax()]] = True
    return found[:-1].cpu()


def mask_of(layer: str) -> str:
    """The name of a mask; those of buffers have no dots."""
    return "kept/" + layer.replace(".", "/")
