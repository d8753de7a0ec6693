"""The objective, and the gradients of weights and gates in it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from ardor.bayes.divergences import Gates, gauss_newton_diagonal
from ardor.methods import Curvature, Method
from ardor.runtime.device import Runtime
from ardor.schedules import RATES, warm_up
from ardor.settings.sections import Fitting
from ardor.spaces import Net
from ardor.training.accumulate import in_parts


@dataclass(frozen=True)
class Batch:
    """Normalised images with their labels, and how many images the data set has in all."""

    images: Tensor
    labels: Tensor
    of: int

    @classmethod
    def blank(cls, images: int, like: Tensor, runtime: Runtime) -> "Batch":
        """A batch with nothing on it."""
        pixels = runtime.images(torch.zeros(images, *like.shape[1:]))
        return cls(pixels, torch.zeros(images, dtype=torch.long, device=runtime.device), images)


@dataclass(frozen=True)
class Loss:
    """The objective of one batch in nats per image, with its terms."""

    total: Tensor
    terms: Mapping[str, float]


def likelihood(
    net: Net,
    batch: Batch,
    gates: Gates,
    *,
    smoothing: float,
    auxiliary_weight: float = 0.0,
    parts: int = 1,
) -> Mapping[str, Tensor]:
    """The nll of each head, and the accuracy of the first; in one go, or part by part."""

    def terms_of(images: Tensor, labels: Tensor, gates: Gates) -> dict[str, Tensor]:
        main, *auxiliary = net.heads(images, gates)
        terms = {"nll": F.cross_entropy(main, labels, label_smoothing=smoothing)}
        for head in auxiliary:
            nll = F.cross_entropy(head, labels, label_smoothing=smoothing)
            terms["auxiliary"] = auxiliary_weight * nll
        return {**terms, "accuracy": (main.argmax(1) == labels).float().mean()}

    if parts == 1:
        return terms_of(batch.images, batch.labels, gates)
    return in_parts(terms_of, batch.images, batch.labels, gates, list(net.parameters()), parts)


def objective(fit: Mapping[str, Tensor], penalty: Mapping[str, Tensor], *, of: int) -> Loss:
    """nll + sum of the penalty terms / images: the one place where the KL is divided."""
    terms = {name: term for name, term in fit.items() if name != "accuracy"}
    terms |= {name: term.to(fit["nll"].device) / of for name, term in penalty.items()}
    total = torch.stack(list(terms.values())).sum()
    facts = {name: term.item() for name, term in terms.items()}
    return Loss(total, {"loss": total.item(), **facts, "accuracy": fit["accuracy"].item()})


def searching(
    net: Net, method: Method, batch: Batch, progress: float, *, smoothing: float, parts: int = 1
) -> Loss:
    """The objective of a search step under one draw of the gates."""
    gates = to_device(method.sample(len(batch.labels), progress), batch.images.device)
    fit = likelihood(net, batch, gates, smoothing=smoothing, parts=parts)
    fit = {**fit, **to_device(method.per_image(progress), batch.images.device)}
    return objective(fit, method.penalty(gates, net, progress), of=batch.of)


def to_device(gates: Mapping[str, Tensor], device: torch.device) -> Mapping[str, Tensor]:
    """The gates, or other tensors by name, where the net is."""
    return {name: gate.to(device) for name, gate in gates.items()}


def set_gradients_(parameters: Sequence[nn.Parameter], loss: Tensor) -> None:
    """Gradients of `loss` in these parameters alone; zero where it does not depend on one."""
    # Hard gates may have drawn no operation at all: then there is nothing to learn from.
    found: Sequence[Tensor | None] = [None] * len(parameters)
    if loss.requires_grad:
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, found, strict=True):
        parameter.grad = torch.zeros_like(parameter) if gradient is None else gradient


@contextmanager
def held(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Parameters that do not learn for a while: their gradients are not even computed."""
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


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
    """The weights, for a while, `size` times `step` away; then exactly what they were."""
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


def weight_optimiser(net: nn.Module, config: Fitting) -> Optimizer:
    """The optimiser of the weights, as configured."""
    parameters = list(net.parameters())
    # Not `fused`: on a CPU it takes weights and gradients for the same layout in memory.
    settings: dict[str, Any] = {"weight_decay": config.weight_decay, "foreach": True}
    if config.optimiser == "sgd":
        return SGD(parameters, config.rate, momentum=config.momentum, **settings)
    return Adam(parameters, config.rate, **settings)


def rate_at(config: Fitting, progress: float) -> float:
    """The weights' learning rate: up to `rate`, then to `rate_end` along the schedule."""
    share = RATES[config.schedule](progress)
    rate = config.rate_end + (config.rate - config.rate_end) * share
    return rate * warm_up(progress, until=config.rate_warmup)


def set_rate_(optimiser: Optimizer, rate: float) -> None:
    """Sets the learning rate for the next step."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def curvature_of(
    net: Net, method: Method, batches: Sequence[Batch], *, parts: int = 1
) -> Curvature:
    """The curvature of the data's likelihood in the gates, with the net's statistics frozen."""
    copies = {choice.name: choice.copies for choice in method.space.choices}

    def curvature(gates: Gates) -> Gates:
        total: dict[str, Tensor] = {}
        for batch in batches:
            gates = to_device(gates, batch.images.device)
            with frozen_statistics(net, batch.images, gates):
                for images in batch.images.tensor_split(parts):
                    each = {n: g.expand(copies[n], len(images), -1) for n, g in gates.items()}
                    for name, diagonal in gauss_newton_diagonal(partial(net, images), each).items():
                        total[name] = total.get(name, torch.zeros_like(diagonal)) + diagonal
        seen = sum(len(batch.labels) for batch in batches)
        return {name: diagonal * batches[0].of / seen for name, diagonal in total.items()}

    return curvature


@contextmanager
def frozen_statistics(net: Net, images: Tensor, gates: Gates) -> Iterator[None]:
    """The net in evaluation with the batch statistics of these images held as constants.

    A supernet normalises by the statistics of its batch, so that one image's gates would act on
    another's logits; frozen, each image stands alone. Nothing of the net is changed afterwards.
    """
    norms = [
        m for m in net.modules() if isinstance(m, nn.BatchNorm2d) and not m.track_running_stats
    ]
    was_training = net.training
    for norm in norms:
        norm.track_running_stats, norm.momentum = True, 1.0
        norm.running_mean = torch.zeros(norm.num_features, device=images.device)
        norm.running_var = torch.ones(norm.num_features, device=images.device)
        norm.train()
    try:
        with torch.no_grad():
            for module in net.modules():
                module.training = module in norms
            net(images, gates)
        net.eval()
        yield
    finally:
        for norm in norms:
            norm.track_running_stats, norm.momentum = False, 0.1
            norm.running_mean = norm.running_var = None
        net.train(was_training)
