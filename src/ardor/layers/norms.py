"""BatchNorm in two forms: a supernet's, by each batch's statistics, and a network's, by its own.

A supernet normalises without a scale, and by what it sees at once. A network that begins with its
weights predicts each image by itself: it needs statistics that stay, and may learn a scale.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def norms_of(net: nn.Module) -> list[nn.BatchNorm2d]:
    """The BatchNorms of a net, in order."""
    return [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]


def complete_(norm: nn.BatchNorm2d) -> None:
    """Gives a BatchNorm what it lacks: a scale of one, a shift of zero, running statistics."""
    if not norm.affine:
        norm.affine = True
        norm.weight = nn.Parameter(torch.ones(norm.num_features))
        norm.bias = nn.Parameter(torch.zeros(norm.num_features))
    if not norm.track_running_stats:
        add_statistics_(norm)
        norm.num_batches_tracked = torch.tensor(0)


def add_statistics_(
    norm: nn.BatchNorm2d, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> None:
    """Gives a BatchNorm running statistics, of nothing seen yet."""
    norm.track_running_stats = True
    norm.running_mean = torch.zeros(norm.num_features, device=device, dtype=dtype)
    norm.running_var = torch.ones(norm.num_features, device=device, dtype=dtype)


def remove_statistics_(norm: nn.BatchNorm2d) -> None:
    """Has a BatchNorm go by the statistics of its batch again."""
    norm.track_running_stats = False
    norm.running_mean = norm.running_var = None


@contextmanager
def measured(norms: Sequence[nn.BatchNorm2d]) -> Iterator[None]:
    """The net, for a while in evaluation, normalises each batch by its own statistics.

    Afterwards its norms hold those of all that they have seen, with the variance of these images
    and no estimate of others': after one batch the net computes just what it did with that batch.
    """
    seen = [Statistics(norm) for norm in norms]
    hooks = [norm.register_forward_pre_hook(of.see) for norm, of in zip(norms, seen, strict=True)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    for statistics in seen:
        statistics.keep()


class Statistics:
    """Mean and variance of what a BatchNorm is given, over batches."""

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        self.norm, self.images = norm, 0

    @torch.no_grad()
    def see(self, norm: nn.BatchNorm2d, inputs: tuple[Tensor]) -> None:
        """Adds a batch (Chan et al. 1979, "Updating Formulae", eq. 1.5), and normalises by it."""
        (x,) = inputs
        variance, mean = torch.var_mean(x, (0, 2, 3), correction=0)
        self.images += len(x)
        if self.images == len(x):
            self.mean, self.variance = mean, variance
        else:
            share, apart = len(x) / self.images, mean - self.mean
            self.mean = self.mean + share * apart
            between = (1 - share) * apart.square()
            self.variance = self.variance + share * (variance - self.variance + between)
        self.put(mean, variance)

    def keep(self) -> None:
        """Leaves the norm the statistics of all batches; its own where it has seen none."""
        if self.images:
            self.put(self.mean, self.variance)

    def put(self, mean: Tensor, variance: Tensor) -> None:
        """Has the norm normalise by these."""
        assert self.norm.running_mean is not None
        assert self.norm.running_var is not None
        self.norm.running_mean.copy_(mean)
        self.norm.running_var.copy_(variance)
