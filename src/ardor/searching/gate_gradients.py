"""How gates learn: the loss of a search step, its gradient one weight step ahead, and curvature."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial

import torch
from torch import Tensor, nn

from ardor.architecture import Choice
from ardor.bayes import Gates
from ardor.bayes.curvature import LogitsAt, gauss_newton_diagonal
from ardor.layers.blocks import Block, Normalised, Statistics
from ardor.layers.norms import add_statistics_, measured, norms_of, remove_statistics_
from ardor.methods import Method
from ardor.spaces import Net
from ardor.training.objective import Batch, Loss, likelihood, objective, to_device
from ardor.training.optimise import held

Draws = Callable[[], AbstractContextManager[None]]  # a stream of random numbers


def searching(
    net: Net,
    method: Method,
    batch: Batch,
    progress: float,
    *,
    smoothing: float,
    micro_batches: int = 1,
    drawing: Draws = nullcontext,  # the stream of the method's random numbers
) -> Loss:
    """The objective of a search step under one draw of the gates."""
    with drawing():
        gates = to_device(method.sample(len(batch.labels), progress), batch.images.device)
    fit = likelihood(net, batch, gates, smoothing=smoothing, micro_batches=micro_batches)
    with drawing():
        fit = {**fit, **to_device(method.per_image(progress), batch.images.device)}
        penalty = method.penalty(gates, net, progress)
    return objective(fit, penalty, dataset_size=batch.dataset_size)


def unrolled_gradients_(
    gates: Sequence[nn.Parameter],
    weights: Sequence[nn.Parameter],
    training_loss: Callable[[], Loss],
    held_out_loss: Callable[[], Loss],
    velocity: Sequence[Tensor | None],
    *,
    rate: float,
    momentum: float,
    decay: float,
) -> Loss:
    """Gradients in the gates one weight step ahead (DARTS eq. 7), by finite differences (eq. 8)."""
    gradient = torch.autograd.grad(training_loss().total, weights, allow_unused=True)
    step = [
        rate * ((0 if g is None else g) + decay * w + (0 if v is None else momentum * v))
        for g, w, v in zip(gradient, weights, velocity, strict=True)
    ]
    with moved(weights, step, -1.0):
        held_out = held_out_loss()
        ahead = torch.autograd.grad(held_out.total, [*gates, *weights], allow_unused=True)
    direct, slope = _split(ahead, gates, weights)
    size = 0.01 / torch.stack([s.norm() for s in slope]).norm().clamp_min(1e-12).item()
    sides = []
    for sign in (1.0, -1.0):
        with moved(weights, slope, sign * size):
            found = torch.autograd.grad(training_loss().total, gates, allow_unused=True)
            sides.append(_split(found, gates, [])[0])
    for gate, now, plus, minus in zip(gates, direct, *sides, strict=True):
        gate.grad = now - rate * (plus - minus) / (2 * size)
    return held_out


def _split(
    gradients: Sequence[Tensor | None],
    first: Sequence[nn.Parameter],
    second: Sequence[nn.Parameter],
) -> tuple[list[Tensor], list[Tensor]]:
    """Gradients of two lists of parameters, zero where one is unused."""
    full = [
        torch.zeros_like(p) if g is None else g
        for g, p in zip(gradients, [*first, *second], strict=True)
    ]
    return full[: len(first)], full[len(first) :]


@contextmanager
def moved(weights: Sequence[nn.Parameter], step: Sequence[Tensor], size: float) -> Iterator[None]:
    """Moves the weights by `size` times `step` inside the block, and restores them exactly."""
    before = [w.detach().clone() for w in weights]
    try:
        with torch.no_grad():
            for weight, change in zip(weights, step, strict=True):
                weight.add_(change, alpha=size)
        yield
    finally:
        with torch.no_grad():
            for weight, old in zip(weights, before, strict=True):
                weight.copy_(old)


class GateCurvature:
    """The curvature of the data's likelihood in the gates, with the net's statistics frozen."""

    def __init__(
        self,
        net: Net,
        choices: Sequence[Choice],
        gather: Callable[[], Sequence[Batch]],
        *,
        micro_batches: int = 1,
        drawing: Draws = nullcontext,  # the stream for noise of the net, and for drawn labels
    ) -> None:
        self.net, self.micro_batches, self.drawing = net, micro_batches, drawing
        self.copies = {choice.name: choice.copies for choice in choices}
        self.gather = cache(gather)  # only when called: most methods need no curvature

    def __call__(self, gates: Gates, *, per_image: bool = False, samples: int = 0) -> Gates:
        """The Gauss-Newton diagonal, as `methods.Curvature` describes it."""
        batches = self.gather()
        weights = [weight for weight in self.net.parameters() if weight.requires_grad]
        with self.drawing(), held(weights):  # nothing is kept, or computed, for their gradients
            pieces = [
                gauss_newton_diagonal(logits_at, each, per_image=per_image, samples=samples)
                for batch in batches
                for logits_at, each in self.pieces(batch, gates)
            ]
        found = {name: torch.cat([piece[name] for piece in pieces], 1) for name in gates}
        if per_image:
            return found
        share = sum(len(batch.labels) for batch in batches) / batches[0].dataset_size
        return {name: each.sum(1, keepdim=True) / share for name, each in found.items()}

    def pieces(self, batch: Batch, gates: Gates) -> Iterator[tuple[LogitsAt, Gates]]:
        """For each micro-batch its logits as a function of gates, and the gates by image."""
        gates = to_device(gates, batch.images.device)
        with frozen_statistics(self.net, [(batch.images, gates)]):
            for images in batch.images.tensor_split(self.micro_batches):
                sizes = {name: (self.copies[name], len(images), -1) for name in gates}
                yield (
                    partial(self.net, images),
                    {name: gate.expand(sizes[name]) for name, gate in gates.items()},
                )


@contextmanager
def frozen_statistics(net: Net, seen: Iterable[tuple[Tensor, Gates]]) -> Iterator[None]:
    """The net in evaluation with the statistics of these images under these gates as constants.

    A supernet normalises by the statistics of its batch, so that one image's gates would change
    another's logits; with frozen statistics images are independent. The net is restored at the end.
    """
    norms = [norm for norm in norms_of(net) if not norm.track_running_stats]
    was_training, weight = net.training, next(net.parameters())
    for norm in norms:
        add_statistics_(norm, weight.device, weight.dtype)
    try:
        net.eval()
        normalise_by_(net, norms, "measured")
        with torch.no_grad(), measured(norms):
            for images, gates in seen:
                net(images, gates)
        normalise_by_(net, norms, "frozen")
        yield
    finally:
        normalise_by_(net, norms, "batch")
        for norm in norms:
            remove_statistics_(norm)
        net.train(was_training)


def normalise_by_(net: Net, norms: Sequence[nn.BatchNorm2d], statistics: Statistics) -> None:
    """Sets what the blocks with these norms, which native code computes, normalise by."""
    own = set(norms)
    for block in net.modules():
        if isinstance(block, Block) and (not isinstance(block, Normalised) or block.norm in own):
            block.statistics = statistics
    net.forget_shapes_()
