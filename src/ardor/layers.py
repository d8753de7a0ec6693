"""The layers that operations, cells and networks are made of."""

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor import kernels
from ardor.bayes import log_noise_ratio, log_uniform_kl

# VINNAS, second version; the first prints lambda >= 3, a slip (Molchanov et al. 2017: log alpha).
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

    def start_(self) -> None:
        """Xavier-uniform means, log-variances of -10 (VINNAS, section V)."""
        self.log_var = nn.Parameter(torch.full_like(self.weight, LOG_VAR_START))
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def variance(self) -> Tensor:
        """sigma^2, held where float32 can square and sum it."""
        return self.log_var.clamp(-30, 10).exp()

    def pruned(self, threshold: float = PRUNE_AT) -> Tensor:
        """The means, zero where log lambda says that a weight is only noise."""
        noise = log_noise_ratio(self.weight, self.log_var) >= threshold
        return self.weight.masked_fill(noise, 0.0)

    def kl(self) -> Tensor:
        """KL of all weights to the prior, in nats."""
        return log_uniform_kl(self.weight, self.log_var)

    @abstractmethod
    def apply_weights(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """What the layer computes with these weights."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.apply_weights(x, self.pruned(), self.bias)
        square = x.square().clamp_max(LARGEST_SQUARE)
        mean = self.apply_weights(x, self.weight, self.bias)
        return local_draw(mean, self.apply_weights(square, self.variance(), None))


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


class FactorizedReduce(nn.Module):
    """Halves the image without dropping pixels: two strided 1x1 convolutions, one shifted."""

    def __init__(self, inputs: int, outputs: int, *, conv: type[nn.Conv2d], norm: Any) -> None:
        super().__init__()
        self.even = conv(inputs, outputs // 2, 1, stride=2, bias=False)
        self.odd = conv(inputs, outputs - outputs // 2, 1, stride=2, bias=False)
        self.norm = norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        # An odd side is padded, so that both halves have the size of any other strided operation.
        shifted = F.pad(x, (-1, x.shape[3] % 2, -1, x.shape[2] % 2))
        joined: Tensor = self.norm(torch.cat([self.even(x), self.odd(shifted)], 1))
        return joined


class DropPath(nn.Module):
    """Drops a path for some examples while training, and scales it up for the others."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        keep = 1 - self.rate
        return x * (torch.rand(x.shape[0], 1, 1, 1, device=x.device) < keep) / keep


class SeparableBlock(nn.Module):
    """Depthwise, pointwise, normalised; rectified before (DARTS) or after (VINNAS)."""

    def __init__(
        self, depthwise: nn.Conv2d, pointwise: nn.Conv2d, norm: nn.BatchNorm2d, *, relu_last: bool
    ) -> None:
        super().__init__()
        self.depthwise, self.pointwise, self.norm = depthwise, pointwise, norm
        self.relu_last = relu_last

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.relu_last else F.relu(x)
        x = self.norm(self.pointwise(self.depthwise(x)))
        return F.relu(x) if self.relu_last else x

    @property
    def uncertain(self) -> bool:
        """Whether its activations are drawn."""
        return self.training and isinstance(self.depthwise, Variational)

    def native(self) -> bool:
        """Whether kernels.py computes the same: batch statistics, no scale of the norm's own."""
        return self.norm.running_mean is None and not self.norm.affine

    def weights(self) -> list[Tensor]:
        """Depthwise and pointwise weights; with their variances where activations are drawn."""
        convs = (self.depthwise, self.pointwise)
        if self.uncertain:
            means = [conv.weight for conv in convs]
            return means + [conv.variance() for conv in convs if isinstance(conv, Variational)]
        return [conv.pruned() if isinstance(conv, Variational) else conv.weight for conv in convs]

    def shape(self, *, first: bool, last: bool) -> kernels.Shape:
        """What kernels.py must know of it at its place in a chain."""
        return kernels.Shape(
            kernel=self.depthwise.kernel_size[0],
            stride=self.depthwise.stride[0],
            dilation=self.depthwise.dilation[0],
            relu=not (first and self.relu_last),
            relu_last=last and self.relu_last,
            uncertain=self.uncertain,
            eps=self.norm.eps,
        )


class Chain(nn.Sequential):
    """Separable blocks, one after another."""

    def blocks(self) -> list[SeparableBlock]:
        """Its blocks."""
        return [block for block in self if isinstance(block, SeparableBlock)]

    def shapes(self) -> list[kernels.Shape]:
        """What kernels.py must know of them."""
        blocks = self.blocks()
        return [block.shape(first=block is blocks[0], last=block is blocks[-1]) for block in blocks]


class Mixed(nn.Module):
    """The candidates of one choice, added up under their gates."""

    def __init__(self, options: tuple[str, ...], candidates: dict[str, nn.Module]) -> None:
        super().__init__()
        self.candidates = nn.ModuleDict(candidates)
        self.gate_of = {name: options.index(name) for name in candidates}
        self.drop_path = DropPath()

    def forward(
        self, x: Tensor, gates: Tensor | None = None, seen: dict[str, Tensor] | None = None
    ) -> Tensor | None:
        """The sum, or None where every gate is shut; `gates` is (batch | 1, options).

        `seen` remembers candidates without weights, which are the same on every edge from x.
        """
        chains: list[str] = []
        others: list[str] = []
        for name, candidate in self.candidates.items():
            if gates is not None and is_shut(gates[:, self.gate_of[name]]):
                continue
            fast = gates is not None and self._native(x, candidate)
            (chains if fast else others).append(name)
        outputs = [self._output(name, x, {} if seen is None else seen) for name in others]
        if chains and gates is not None:
            return self._fast(x, gates, chains, others, outputs)
        if gates is not None:
            outputs = [
                gates[:, self.gate_of[name], None, None, None] * output
                for name, output in zip(others, outputs, strict=True)
            ]
        return sum(outputs[1:], outputs[0]) if outputs else None

    def _native(self, x: Tensor, candidate: nn.Module) -> bool:
        return (
            isinstance(candidate, Chain)
            and (self.drop_path.rate == 0 or not self.training)
            and all(block.native() for block in candidate.blocks())
            and kernels.ready(x, [candidate.shapes()])
        )

    def _fast(
        self, x: Tensor, gates: Tensor, chains: list[str], others: list[str], outputs: list[Tensor]
    ) -> Tensor:
        candidates = [c for name in chains if isinstance(c := self.candidates[name], Chain)]
        weights = [w for c in candidates for block in c.blocks() for w in block.weights()]
        order = [self.gate_of[name] for name in (*chains, *others)]
        return kernels.mixed(x, gates[:, order], [c.shapes() for c in candidates], weights, outputs)

    def _output(self, name: str, x: Tensor, seen: dict[str, Tensor]) -> Tensor:
        candidate = self.candidates[name]
        weighted = any(True for _ in candidate.parameters())
        output: Tensor = candidate(x) if weighted or name not in seen else seen[name]
        if not weighted:
            seen[name] = output
        return output if isinstance(candidate, nn.Identity) else self.drop_path(output)


def is_shut(gate: Tensor | None) -> bool:
    """True for a gate that is zero and does not learn: nothing need be computed."""
    return gate is not None and not gate.requires_grad and not bool(gate.any())
