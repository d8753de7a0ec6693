"""VINNAS (Ferianc, Fan and Rodrigues 2020): Gaussian strengths of operations under an ARD prior.

q(alpha) = N(mu, sigma^2) for each operation of each edge and each kind of cell, prior 1/|alpha|;
gates z = softmax(alpha) of one draw; weights are variational as well (`VariationalConv2d`).

    loss = CE + g1 KL(w) + g2 KL(alpha) + g3 sum over edges of H(z)                     (eq. 8)

each g growing linearly from zero. The best operation of an edge has the largest positive
signal-to-noise ratio mu / sigma^2.

Departures from print: the KL has the sign of a KL (the paper's is its negative); an epoch is a
pass over the images (Algorithm 1 has one batch); the best strengths are kept only from the epochs
in which they learn. Left open in print and set here: the g's, their starts, the spread of mu at
the start (0.001 taken as a standard deviation, as in DARTS) and how the zero operation is clipped
(its draw is held at most at the mean of the other draws of its edge).

An operation is given up where it is hardly ever the best and its strength no positive signal: where
log lambda = log(sigma^2 / mu^2) is past 3, as for weights, or mu is negative. Otherwise the surely
negative would outstay those at zero, which to a softmax are the stronger ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice
from ardor.bayes import (
    Gates,
    best_probability,
    entropy,
    gaussian_draw,
    log_noise_ratio,
    log_uniform_kl,
)
from ardor.layers import LOG_VAR_START, PRUNE_AT, VariationalConv2d
from ardor.methods import Method
from ardor.ops import ZERO
from ardor.schedules import ramp
from ardor.settings import Amount, Rate, Share
from ardor.spaces import Net, Space

NEGLIGIBLE = 0.001  # probability of being the best


class Vinnas(Method):
    """Softmax of a Gaussian draw; certain where its variance has stayed small."""

    bilevel: ClassVar = True
    conv: ClassVar[type[nn.Conv2d]] = VariationalConv2d
    search: ClassVar[Mapping[str, Any]] = {
        "optimiser": "adam",
        "rate": 0.005,
        "gate_rate": 0.01,
        "weight_decay": 0.0,
        "gate_decay": 0.0,
        "smoothing": 0.1,
        "keep": "best",
    }

    def __init__(
        self,
        space: Space,
        *,
        kl_weights: Amount = 0.1,  # what the KL of the weights counts at the end; 1 is the ELBO
        kl_weights_start: Share = 0.1,  # the progress at which it begins to grow from zero
        kl_gates: Amount = 1.0,
        kl_gates_start: Share = 0.2,
        entropy: Amount = 100.0,  # nats for the data set: it sharpens, and is no part of the ELBO
        entropy_start: Share = 0.2,
        spread: Rate = 0.001,  # standard deviation of the means at the start
        select: Literal["snr", "magnitude"] = "snr",
    ) -> None:
        super().__init__(space)
        self.ends = {"kl_weights": kl_weights, "kl_gates": kl_gates, "entropy": entropy}
        self.starts = {
            "kl_weights": kl_weights_start,
            "kl_gates": kl_gates_start,
            "entropy": entropy_start,
        }
        self.select = select
        shapes = {choice.name: (1, 1, len(choice.options)) for choice in self.choices("op")}
        self.mean = nn.ParameterDict(
            {n: spread * torch.randn(shape) for n, shape in shapes.items()}
        )
        self.log_var = nn.ParameterDict(
            {n: torch.full(shape, LOG_VAR_START) for n, shape in shapes.items()}
        )

    def sample(self, batch: int, progress: float) -> Gates:
        gates = {}
        for choice in self.choices("op"):
            options = tuple(choice.options[at] for at in self.stays(choice))
            strengths = clip_zero(gaussian_draw(*self.posterior(choice)), options)
            gates[choice.name] = self.whole(choice, strengths.softmax(-1))
        return gates

    def posterior(self, choice: Choice) -> tuple[Tensor, Tensor]:
        """Means and log-variances of the strengths on an edge."""
        name = choice.name
        return self.rest(choice, self.mean[name]), self.rest(choice, self.log_var[name])

    def penalty(self, gates: Gates, net: Net, progress: float) -> Mapping[str, Tensor]:
        strengths = map(self.posterior, self.choices("op"))
        terms = {
            "kl_weights": net.kl(),
            "kl_gates": total(log_uniform_kl(mean, log_var) for mean, log_var in strengths),
            "entropy": total(entropy(gate) for gate in gates.values()),
        }
        return {
            name: self.ends[name] * ramp(progress, start=self.starts[name]) * term
            for name, term in terms.items()
        }

    def probabilities(self) -> Gates:
        """The probability that an operation is the strongest of its edge; zero never is."""
        found = {}
        for choice in self.choices("op"):
            mean, log_var = self.mean[choice.name].detach(), self.log_var[choice.name].detach()
            able = [at for at in self.stays(choice) if choice.options[at] != ZERO]
            found[choice.name] = torch.zeros_like(mean)
            found[choice.name][..., able] = best_probability(mean[..., able], log_var[..., able])
        return found

    def draw(self, count: int) -> list[Architecture]:
        scores = {}
        for choice in self.choices("op"):
            mean, log_var = self.posterior(choice)
            score = mean / log_var.exp() if self.select == "snr" else mean
            scores[choice.name] = self.whole(choice, score, gone=-torch.inf)
        return [self.space.strongest(scores)]

    def given_up(self) -> Gates:
        """Strengths that are no positive signal, and all but certain not to be the best."""
        given = {}
        for name, best in self.probabilities().items():
            mean, log_var = self.mean[name].detach(), self.log_var[name].detach()
            no_signal = (mean < 0) | (log_noise_ratio(mean, log_var) > PRUNE_AT)
            given[name] = no_signal & (best < NEGLIGIBLE)
        return given


def clip_zero(strengths: Tensor, options: tuple[str, ...]) -> Tensor:
    """Strengths with that of the zero operation at most the mean of the others."""
    if ZERO not in options:
        return strengths
    is_zero = torch.tensor([option == ZERO for option in options], device=strengths.device)
    others = strengths.masked_fill(is_zero, 0).sum(-1, keepdim=True) / (len(options) - 1)
    return torch.where(is_zero, torch.minimum(strengths, others), strengths)


def total(terms: Iterable[Tensor]) -> Tensor:
    """The sum of all entries of all terms."""
    return torch.stack([term.sum() for term in terms]).sum()
