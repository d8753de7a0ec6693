"""Optimisers of weights and gates, their rates, and the gradients they are given."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from ardor.schedules import RATES, warm_up
from ardor.settings.sections import Fitting, SearchConfig


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


def weight_optimiser(net: nn.Module, config: Fitting) -> Optimizer:
    """The optimiser of the weights, as configured."""
    # Not `fused`: on a CPU it assumes that weights and gradients have the same layout in memory.
    settings = {"weight_decay": config.weight_decay, "foreach": True}
    momentum, betas = config.momentum, (0.9, 0.999)
    return _optimiser(
        config.optimiser, list(net.parameters()), config.rate, momentum, betas, settings
    )


def gate_optimiser(gates: Sequence[nn.Parameter], config: SearchConfig) -> Optimizer:
    """The optimiser of the gates, as configured."""
    settings = {"weight_decay": config.gate_decay}
    momentum, betas = config.gate_momentum, config.gate_betas
    return _optimiser(config.gate_optimiser, gates, config.gate_rate, momentum, betas, settings)


def _optimiser(
    kind: Literal["adam", "sgd", "adamw"],
    parameters: Sequence[nn.Parameter],
    rate: float,
    momentum: float,
    betas: tuple[float, float],
    settings: Mapping[str, Any],
) -> Optimizer:
    """SGD with that momentum, or Adam with those betas (AdamW of Loshchilov & Hutter 2019)."""
    if kind == "sgd":
        return SGD(parameters, rate, momentum=momentum, **settings)
    return (AdamW if kind == "adamw" else Adam)(parameters, rate, betas=betas, **settings)


def rate_at(config: Fitting, progress: float) -> float:
    """The weights' learning rate: up to `rate`, then to `rate_end` along the schedule."""
    share = RATES[config.schedule](progress)
    rate = config.rate_end + (config.rate - config.rate_end) * share
    return rate * warm_up(progress, until=config.rate_warmup)


def set_rate_(optimiser: Optimizer, rate: float) -> None:
    """Sets the learning rate for the next step."""
    for group in optimiser.param_groups:
        group["lr"] = rate
