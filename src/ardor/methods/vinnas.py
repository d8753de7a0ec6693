"""VINNAS (Ferianc, Fan and Rodrigues 2020): Gaussian strengths of operations under an ARD prior.

q(alpha) = N(mu, sigma^2) for each operation of each edge and each kind of cell, prior 1/|alpha|;
gates z = softmax(alpha) of one draw; weights are variational as well (`VariationalConv2d`).

    loss = CE + g1 KL(w) + g2 KL(alpha) + g3 sum over edges of H(z)                     (eq. 8)

each g growing linearly from zero. The best operation of an edge has the largest positive
signal-to-noise ratio mu / sigma^2: that is `select` "snr", as published. It can keep an operation
that the posterior calls unlikely to be the strongest: a weak strength without noise beats a strong
one with some. "likeliest" keeps of each edge the operation that is likeliest to be the strongest,
and the edges whose kept operation has the largest mean; "magnitude" goes by the means alone. In
five searches each on NAS-Bench-201 and on the digits, the first two kept the same operations, or
networks as accurate: the published rule stays the default.

Departures from the paper: the KL has the sign of a KL (the paper's is its negative); an epoch is a
pass over the images (Algorithm 1 has one batch); the best strengths are kept only from the epochs
in which they learn, and scored under one draw of them; in a step strengths learn before weights do;
the g's grow with every step, not with every epoch; the gradient of the weights is clipped at a norm
of 5. Left open by the paper and chosen here: the g's, their starts, the spread of mu at
the start (0.001 taken as a standard deviation, as in DARTS) and how the zero operation is clipped
(its draw is held at most at the mean of the other draws of its edge).
With a `log_var` above the paper's -10 strengths begin broad: weights then learn under all kinds of
mixtures of operations, not under nearly the same one in every step.

`tie` says what cells of a kind have in common. "type", as published and the default: one set of
strengths for each kind of cell. "none": one set for each cell. "hierarchical": one set for each
cell p, and for each kind, edge and operation a Gaussian that the strengths of its cells are drawn
from,

    alpha_p | m ~ N(m, s^2),  q(m) = N(M, S^2),  prior 1/|m|,

with s^2 learned, one for each edge of each kind. KL(alpha) is then KL(m) and, for each cell,
E_m KL(q(alpha_p) || N(m, s^2)): cells of a kind differ only where the images call for it.

An operation is given up where it is hardly ever the best and its strength is no positive signal:
log lambda = log(sigma^2 / mu^2) is above 3, as for weights, or mu is negative. Without the latter,
strengths that are surely negative would stay longer than those at zero, which are the stronger ones
in a softmax.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice, Decisions, Kind
from ardor.bayes import Gates
from ardor.bayes.divergences import entropy, gaussian_kl, log_noise_ratio, log_uniform_kl
from ardor.bayes.draws import best_probability, gaussian_draw, mixture_log_var
from ardor.layers.operations import ZERO
from ardor.layers.variational import LOG_VAR_START, PRUNE_AT, VariationalConv2d
from ardor.methods._base import Method, never_zero
from ardor.schedules import ramp
from ardor.settings.fields import Amount, Rate, Share
from ardor.spaces import Net, Space

NEGLIGIBLE = 0.001  # probability of being the best
LogVariance = Annotated[float, Field(ge=-30, le=10)]
# log s^2 at the start, s = 0.1: between where strengths begin (0.001) and what they reach (1).
LOG_WIDTH_START = -4.6


class Vinnas(Method):
    """Softmax of a Gaussian draw of the strengths."""

    bilevel: ClassVar = True
    decides: ClassVar[tuple[Kind, ...]] = ("op",)
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
        kl_weights: Amount = 0.1,  # weight at the end; 1 is the ELBO, 0: plain weights
        kl_weights_start: Share = 0.1,  # the progress at which it begins to grow from zero
        kl_gates: Amount = 1.0,
        kl_gates_start: Share = 0.2,
        entropy: Amount = 100.0,  # nats for the data set: sharpens the gates, no part of the ELBO
        entropy_start: Share = 0.2,
        spread: Rate = 0.001,  # standard deviation of the means at the start
        log_var: LogVariance = LOG_VAR_START,  # of the strengths at the start
        select: Literal["snr", "likeliest", "magnitude"] = "snr",  # what an edge keeps
        tie: Literal["type", "none", "hierarchical"] = "type",  # what the cells of a kind share
    ) -> None:
        super().__init__(space)
        self.ends = {"kl_weights": kl_weights, "kl_gates": kl_gates, "entropy": entropy}
        self.starts = {
            "kl_weights": kl_weights_start,
            "kl_gates": kl_gates_start,
            "entropy": entropy_start,
        }
        self.select = select
        # Without their KL nothing would keep the weights' variances from going to zero.
        self.conv = VariationalConv2d if kl_weights else nn.Conv2d
        ops = self.choices("op")
        self.mean, self.log_var = gaussians({c.name: len(c.options) for c in ops}, spread, log_var)
        self.hierarchical = tie == "hierarchical"
        if self.hierarchical:
            self.kinds = by_kind(ops)
            sizes = {name: len(places[0].options) for name, places in self.kinds.items()}
            self.kind_mean, self.kind_log_var = gaussians(sizes, spread, log_var)
            self.log_width = nn.Parameter(torch.full((len(sizes),), LOG_WIDTH_START))

    def sample(self, batch: int, progress: float) -> Gates:
        gates = {}
        for choice in self.choices("op"):
            options = tuple(choice.options[at] for at in self.remaining(choice))
            strengths = clip_zero(gaussian_draw(*self.posterior(choice)), options)
            gates[choice.name] = self.scatter(choice, strengths.softmax(-1))
        return gates

    def posterior(self, choice: Choice) -> tuple[Tensor, Tensor]:
        """Means and log-variances of the strengths on an edge."""
        name = choice.name
        return self.gather(choice, self.mean[name]), self.gather(choice, self.log_var[name])

    def penalty(self, gates: Gates, net: Net, progress: float) -> Mapping[str, Tensor]:
        terms = {
            "kl_weights": net.kl(),
            "kl_gates": total(self.kl_gates()),
            "entropy": total(entropy(gate) for gate in gates.values()),
        }
        return {
            name: self.ends[name] * ramp(progress, start=self.starts[name]) * term
            for name, term in terms.items()
        }

    def kl_gates(self) -> Iterator[Tensor]:
        """The terms of the KL of the strengths and, in a hierarchy, of the kinds above them."""
        if not self.hierarchical:
            for choice in self.choices("op"):
                yield log_uniform_kl(*self.posterior(choice))
            return
        for (name, places), log_width in zip(self.kinds.items(), self.log_width, strict=True):
            mean, log_var = self.kind_mean[name], self.kind_log_var[name]
            there = sorted({at for choice in places for at in self.remaining(choice)})
            yield log_uniform_kl(mean[..., there], log_var[..., there])
            for choice in places:
                prior = self.gather(choice, mean), self.gather(choice, log_var)
                yield gaussian_kl(*self.posterior(choice), *prior, log_width)

    def strengths(self) -> Mapping[str, Gates]:
        """Mean, variance and signal-to-noise ratio mu / sigma^2 of every strength."""
        quantities: dict[str, dict[str, Tensor]] = {"mean": {}, "variance": {}, "snr": {}}
        for choice in self.choices("op"):
            mean, log_var = (parameter.detach() for parameter in self.posterior(choice))
            values = mean, log_var.exp(), snr(mean, log_var)
            for quantity, value in zip(quantities.values(), values, strict=True):
                quantity[choice.name] = self.scatter(choice, value, removed=torch.nan)
        return quantities

    def decision_counts(self, count: int) -> list[Counter[Decisions]]:
        """Counts of the strongest options in draws of the strengths."""
        draws = {}
        for choice in self.choices("op"):
            mean, log_var = (p.detach().cpu().expand(count, 1, -1) for p in self.posterior(choice))
            strengths = gaussian_draw(mean, log_var)
            draws[choice.name] = never_zero(
                choice, self.scatter(choice, strengths, removed=-torch.inf)
            )
        return self.space.strongest_of_each(draws)

    @staticmethod
    def space_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Strengths of its own for each cell need a space whose cells share no choices."""
        return {"shared": settings["tie"] == "type"} if "tie" in settings else {}

    def probabilities(self) -> Gates:
        """The probability that an operation is the strongest of its edge; zero never is."""
        return {choice.name: self.strongest_probability(choice) for choice in self.choices("op")}

    def strongest_probability(self, choice: Choice) -> Tensor:
        """The probabilities of the operations of one edge."""
        mean, log_var = self.mean[choice.name].detach(), self.log_var[choice.name].detach()
        able = [at for at in self.remaining(choice) if choice.options[at] != ZERO]
        shares = torch.zeros_like(mean)
        shares[..., able] = best_probability(mean[..., able], log_var[..., able])
        return shares

    @torch.no_grad()
    def draw(self, count: int) -> list[Architecture]:
        scores = {}
        for choice in self.choices("op"):
            score = self.scatter(choice, self.score(choice), removed=-torch.inf)
            scores[choice.name] = never_zero(choice, score)
        return [self.space.strongest(scores)]

    def score(self, choice: Choice) -> Tensor:
        """A number for each remaining operation, by which operations and then edges are ranked."""
        mean, log_var = self.posterior(choice)
        if self.select == "snr":
            return snr(mean, log_var)
        if self.select == "magnitude":
            return mean
        # Of two edges the likelier to be the stronger is the one with the larger mean.
        best = self.gather(choice, self.strongest_probability(choice))
        return mean.masked_fill(best < best.amax(-1, keepdim=True), -torch.inf)

    @torch.no_grad()
    def pool(self, rounds: Sequence[Self]) -> None:
        """The mixture of the rounds: where they disagree, the variance is larger."""
        super().pool(rounds)
        for choice in self.choices("op"):
            name = choice.name
            pairs = [(each.mean[name], each.log_var[name]) for each in rounds]
            means, log_vars = (
                self.gather(choice, torch.stack(p)) for p in zip(*pairs, strict=True)
            )
            pooled = self.scatter(choice, mixture_log_var(means, log_vars), LOG_VAR_START)
            self.log_var[name].copy_(pooled)

    def negligible(self) -> Gates:
        """Operations whose strength is no positive signal, and that are hardly ever the best."""
        negligible = {}
        for name, best in self.probabilities().items():
            mean, log_var = self.mean[name].detach(), self.log_var[name].detach()
            no_signal = (mean < 0) | (log_noise_ratio(mean, log_var) > PRUNE_AT)
            negligible[name] = no_signal & (best < NEGLIGIBLE)
        return negligible


def gaussians(
    sizes: Mapping[str, int], spread: float, log_var: float
) -> tuple[nn.ParameterDict, ...]:
    """Means and log-variances by name, (1, 1, size) each, at the start of a search."""
    means = {name: spread * torch.randn(1, 1, size) for name, size in sizes.items()}
    log_vars = {name: torch.full_like(mean, log_var) for name, mean in means.items()}
    return nn.ParameterDict(means), nn.ParameterDict(log_vars)


def by_kind(choices: Iterable[Choice]) -> dict[str, list[Choice]]:
    """Choices of the same edge, from the same options, in all cells of a kind: "normal/0>2"."""
    kinds: dict[str, list[Choice]] = {}
    for choice in choices:
        link = f"{choice.place.kind}/{choice.source}>{choice.target}"
        name = choice.name if choice.source is None else link
        if name in kinds and kinds[name][0].options != choice.options:
            name = choice.name
        kinds.setdefault(name, []).append(choice)
    return kinds


def snr(mean: Tensor, log_var: Tensor) -> Tensor:
    """The signal-to-noise ratio of VINNAS: with its sign, and divided by the variance."""
    return mean / log_var.exp()


def clip_zero(strengths: Tensor, options: tuple[str, ...]) -> Tensor:
    """The strengths, that of the zero operation at most the mean of the others."""
    if ZERO not in options:
        return strengths
    is_zero = torch.tensor([option == ZERO for option in options], device=strengths.device)
    others = strengths.masked_fill(is_zero, 0).sum(-1, keepdim=True) / (len(options) - 1)
    return torch.where(is_zero, torch.minimum(strengths, others), strengths)


def total(terms: Iterable[Tensor]) -> Tensor:
    """The sum of all entries of all terms."""
    return torch.stack([term.sum() for term in terms]).sum()
