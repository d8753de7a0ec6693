"""The layers that operations, cells and networks are made of."""

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.bayes.divergences import log_noise_ratio, log_uniform_kl

# VINNAS, second version; the first has lambda >= 3, a slip (Molchanov et al. 2017: log alpha).
PRUNE_AT = 3.0
LOG_VAR_START = -10.0
# Inside the root, so that its slope at zero variance is finite: a std of 1e-8.
FLOOR = 1e-16
# Above it a square times exp(10) summed over a kernel could leave float32.
LARGEST_SQUARE = 1e28


class Variational(nn.Module, ABC):
    """Gaussian weights, mean `weight`, variance exp(`log_var`), under a log-uniform prior."""

    weight: Tensor
    bias: Any  # a Tensor, or None without one
    log_var: Tensor
    samples_weights = True  # while training; if not, the means are used as weights

    def start_(self) -> None:
        """Xavier-uniform means, log-variances of -10 (VINNAS, section V)."""
        self.log_var = nn.Parameter(torch.full_like(self.weight, LOG_VAR_START))
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def variance(self) -> Tensor:
        """sigma^2, clamped so that float32 can square and sum it."""
        return self.log_var.clamp(-30, 10).exp()

    def noise(self) -> Tensor:
        """log lambda = log(sigma^2 / mu^2) of every weight."""
        return log_noise_ratio(self.weight, self.log_var)

    def pruned(self, threshold: float = PRUNE_AT) -> Tensor:
        """The means, zero where a weight is only noise: log lambda is at or above the threshold."""
        return self.weight.masked_fill(self.noise() >= threshold, 0.0)

    def kl(self) -> Tensor:
        """KL of all weights to the prior, in nats."""
        return log_uniform_kl(self.weight, self.log_var)

    @abstractmethod
    def apply_weights(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The output of the layer with these weights."""

    def forward(self, x: Tensor) -> Tensor:
        if not samples_weights(self):
            weight = self.weight if self.training else self.pruned()
            return self.apply_weights(x, weight, self.bias)
        square = x.square().clamp_max(LARGEST_SQUARE)
        mean = self.apply_weights(x, self.weight, self.bias)
        return local_draw(mean, self.apply_weights(square, self.variance(), None))


def samples_weights(layer: nn.Module) -> bool:
    """Whether the output of a layer is drawn from a posterior of its weights."""
    return isinstance(layer, Variational) and layer.training and layer.samples_weights


def local_draw(mean: Tensor, variance: Tensor) -> Tensor:
    """Activations drawn instead of weights (Kingma et al. 2015): less noise in the gradient."""
    return torch.addcmul(mean, (variance + FLOOR).sqrt(), noise_like(mean))


def noise_like(x: Tensor) -> Tensor:
    """Standard normal noise in the layout of x; drawn in memory order, which is far faster."""
    if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
        batch, channels, height, width = x.shape
        noise = torch.randn(batch, height, width, channels, dtype=x.dtype, device=x.device)
        return noise.permute(0, 3, 1, 2)
    return torch.randn_like(x)


class VariationalConv2d(Variational, nn.Conv2d):
    """A convolution with Gaussian weights; its bias, if any, is in the mean only."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.start_()

    def apply_weights(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._conv_forward(x, weight, bias)  # type: ignore[no-any-return]


class VariationalLinear(Variational, nn.Linear):
    """A linear map with Gaussian weights; its bias, if any, is in the mean only."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.start_()

    def apply_weights(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x, weight, bias)


def linear_for(conv: type[nn.Conv2d]) -> type[nn.Linear]:
    """The linear layer with the same kind of weights as `conv`."""
    return VariationalLinear if issubclass(conv, VariationalConv2d) else nn.Linear
