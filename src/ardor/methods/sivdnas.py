"""SI-VDNAS (Wang, Dai, Li, Zou and Xiong 2020): dropout decides what stays, with rates it learns.

Each operation of an edge, and each edge into a node, has a weight g and a dropout rate delta. Its
gate is g xi, with noise from a semi-implicit distribution, drawn once a step,

    psi ~ Bernoulli(1 / (1 + delta)),  xi | psi ~ N(psi, psi delta)                 (eqs 3, 15, 16)

and the same psi is that of the prior, whose variance is at its best. The KL is then

    0.5 log(1 + (1 - lambda)^2 / delta) where psi is 1, and 0 where it is 0            (eqs 17, 18)

and does not depend on g. (1 - lambda)^2 begins at 1 and is annealed, for operations and edges
apart. The architecture is a draw of psi: any number of operations on an edge, and of edges into a
node; an edge without operation is removed, and a node without input keeps its likeliest.

Departures from the paper: eq. 9 is corrected (see `bayes.divergences.dropout_divergence`); the
annealing by 0.95 is for each fiftieth of the search, which is one epoch of the paper's 50, so that
150 epochs anneal as far as 50. (Algorithm 1 has it in every step, which would end it in the first
epoch.) It goes on while the weights warm up.

Left open by the paper and chosen here: delta is positive as exp(log delta), and starts at a drop
rate of 0.1; weights are a softmax over the operations of an edge and over the edges into a node, as
in PC-DARTS, or raw numbers; the learning rates of the gates; their decay (none: it would pull drop
rates to a half); how a gradient reaches psi. `gradient` "gaussian" takes the paper literally: psi
is a constant of the step, and delta learns from the noise of the gates that are on.
"straight-through" lets the probability of psi learn too, "concrete" makes psi soft. Instead of one
draw, `derive` "mode" keeps every option that is kept more often than not; with `search.candidates`
draws follow, and the best on held-out images wins. "strongest" keeps of those options only the best
operation of each of the best edges, which is DARTS's rule.

Defaults by experiment (`ardor bench gradients`, `ardor bench dropout`): straight-through gradients
point nearer to the true ones than those of the paper, at every drop rate, and leave the gradients
of the weights as they are, which concrete ones do not; on the test images of the digits their
networks were more accurate than those of the other two with each of three seeds. Raw weights hardly
drop anything there, and one draw does worse than the mode on average.

`noise` "gaussian" is vanilla variational dropout, xi ~ N(1, delta), under the prior at lambda = 0:
V-VDNAS with `edges` off, H-VDNAS with `edges` on. Nothing is dropped, and the strongest weights are
kept.

Zero, which the paper's operations leave out, is never drawn: an edge can be removed without it. An
operation is given up where it is kept, or is the strongest, in less than a hundredth of all draws.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice, Decisions
from ardor.bayes import Gates
from ardor.bayes.divergences import TINY, dropout_divergence
from ardor.bayes.draws import best_probability, dropout_noise, keep_probability, switch_draw
from ardor.methods._base import Method
from ardor.settings.fields import Amount, Rate
from ardor.spaces import Net, Space

EPOCHS = 50  # of the paper's search: (1 - lambda)^2 is annealed so many times
NEGLIGIBLE = 0.01  # probability
LARGEST = 8.0  # of |log delta|: kept, or dropped, in 3 of 10,000 draws
NEVER = -1.0  # the strength of an option that has left: below all others

Factor = Annotated[float, Field(gt=0, le=1)]
Drop = Annotated[float, Field(gt=0, lt=1)]
Gradient = Literal["straight-through", "gaussian", "concrete"]


class SiVdnas(Method):
    """Weights under multiplicative noise; it is sure of an option that noise hardly ever drops."""

    bilevel: ClassVar[bool] = True
    draws_zero: ClassVar[bool] = False
    search: ClassVar[Mapping[str, Any]] = {
        "optimiser": "sgd",
        "rate": 0.025,
        "rate_end": 0.001,
        "warmup": 0.3,
        "gate_rate": 0.05,  # for some 200 steps of the gates; use less in a long search
        "gate_decay": 0.0,
    }

    def __init__(
        self,
        space: Space,
        *,
        noise: Literal["semi-implicit", "gaussian"] = "semi-implicit",
        edges: bool = True,  # whether edges have weights and rates of their own
        gradient: Gradient = "straight-through",  # how a gradient passes the switches psi
        temperature: Rate = 0.5,  # of "concrete" draws: towards 0 they are zero or one
        weights: Literal["softmax", "raw"] = "softmax",
        derive: Literal["mode", "sample", "strongest"] = "mode",
        drop: Drop = 0.1,  # delta / (1 + delta) at the start
        anneal_operations: Factor = 0.95,  # of (1 - lambda)^2, in a fiftieth of the search
        anneal_edges: Factor = 0.95,
        kl_gates: Amount = 1.0,  # weight of the KL; 1 is the ELBO
        spread: Rate = 0.001,  # standard deviation of the weights at the start
    ) -> None:
        super().__init__(space)
        self.implicit, self.softmax = noise == "semi-implicit", weights == "softmax"
        self.gradient, self.temperature = gradient, temperature
        self.derive, self.kl_gates = derive, kl_gates
        self.factors = {"op": anneal_operations, "edge": anneal_edges}
        # Such a psi has no gradient: nothing is learned from a gate that it shuts.
        self.hard = self.implicit and gradient == "gaussian"
        self.kinds = ("op", "edge") if edges else ("op",)
        sizes = {choice.name: len(choice.options) for choice in self.noisy}
        self.weight = nn.ParameterDict(
            {
                name: (0 if self.softmax else 1 / size) + spread * torch.randn(1, 1, size)
                for name, size in sizes.items()
            }
        )
        start = math.log(drop / (1 - drop))
        self.log_delta = nn.ParameterDict(
            {name: torch.full((1, 1, size), start) for name, size in sizes.items()}
        )
        self.on: dict[str, Tensor] = {}  # psi of the last draw, which the KL shares

    def __getstate__(self) -> dict[str, Any]:
        """Without the last draw: copies draw for themselves, and graphs cannot be copied."""
        return {**self.__dict__, "on": {}}

    @property
    def noisy(self) -> list[Choice]:
        """The choices whose gates are drawn."""
        return self.choices(*self.kinds)

    def weights(self, choice: Choice) -> Tensor:
        """g of the remaining options."""
        weights = self.gather(choice, self.weight[choice.name])
        return weights.softmax(-1) if self.softmax else weights

    def rates(self, choice: Choice) -> Tensor:
        """log delta of the remaining options."""
        return self.gather(choice, self.log_delta[choice.name]).clamp(-LARGEST, LARGEST)

    def sample(self, batch: int, progress: float) -> Gates:
        gates = {}
        for choice in self.noisy:
            rates = self.rates(choice)
            on = torch.ones_like(rates)
            if self.implicit:
                on = switch_draw(rates, self.gradient, self.temperature)
            noise = dropout_noise(on, rates)
            gates[choice.name] = self.scatter(choice, self.weights(choice) * noise)
            self.on[choice.name] = on
        return gates

    def penalty(self, gates: Gates, net: Net, progress: float) -> Mapping[str, Tensor]:
        """The KL of operations and of edges, under the draw that `gates` were made of."""
        terms: dict[str, list[Tensor]] = {}
        for choice in self.noisy:
            remaining = self.annealed(choice.kind, progress)
            kl = self.on[choice.name] * dropout_divergence(self.rates(choice), remaining)
            name = "kl_operations" if choice.kind == "op" else "kl_edges"
            terms.setdefault(name, []).append(kl.sum())
        return {name: self.kl_gates * torch.stack(each).sum() for name, each in terms.items()}

    def annealed(self, kind: str, progress: float) -> float:
        """(1 - lambda)^2 of operations or of edges: at 1 the prior is plain ARD."""
        return float(self.factors[kind] ** (EPOCHS * progress)) if self.implicit else 1.0

    @torch.no_grad()
    def probabilities(self) -> Gates:
        """How likely an option is kept; with Gaussian noise, how likely it is the strongest."""
        return {c.name: self.scatter(c, self.choice_probabilities(c)) for c in self.noisy}

    def choice_probabilities(self, choice: Choice) -> Tensor:
        """The probabilities of the remaining options of one choice."""
        if self.implicit:
            return keep_probability(self.rates(choice))
        size = self.weights(choice).abs()
        return best_probability(size, (size.square() + TINY).log() + self.rates(choice))

    @torch.no_grad()
    def draw(self, count: int) -> list[Architecture]:
        """The best guess first, unless `derive` is "sample"; then random draws."""
        best = [] if self.derive == "sample" else [self.mode()]
        return best + [self.random_draw() for _ in range(count - len(best))]

    def mode(self) -> Architecture:
        """The architecture of all options that are kept more often than not."""
        kept = {c.name: self.keep_probability(c) for c in self.noisy}
        strengths = {c.name: self.weights(c).abs().cpu() * kept[c.name] for c in self.noisy}
        return self.architecture(kept, strengths)

    def random_draw(self) -> Architecture:
        """An architecture drawn at random."""
        keep = {c.name: self.keep_probability(c) for c in self.noisy}
        on = {name: torch.bernoulli(share) for name, share in keep.items()}
        strengths = {c.name: self.strength(c, on[c.name]) for c in self.noisy}
        # Where nothing is on, a space that needs an input takes the likeliest, not the first.
        return self.architecture({name: (on[name] + keep[name]) / 2 for name in on}, strengths)

    def keep_probability(self, choice: Choice) -> Tensor:
        """E psi of the remaining options."""
        rates = self.rates(choice).cpu()
        return keep_probability(rates) if self.implicit else torch.ones_like(rates)

    def strength(self, choice: Choice, on: Tensor) -> Tensor:
        """A draw of |g| xi for each psi in `on`; DARTS's rule ranks options by it."""
        noise = dropout_noise(on, self.rates(choice).cpu().expand_as(on))
        return (self.weights(choice).abs().cpu() * noise).clamp_min(0)

    def architecture(self, kept: Gates, strengths: Gates) -> Architecture:
        """The architecture of all options kept; by DARTS's rule, of the strongest among them."""
        keep = {c.name: self.scatter(c, kept[c.name]) for c in self.noisy}
        if self.implicit and self.derive != "strongest":
            return self.space.subset(keep)
        scores = {c.name: self.scatter(c, strengths[c.name], removed=NEVER) for c in self.noisy}
        best = self.space.masks(self.space.strongest(scores))
        return self.space.subset({name: mask * keep.get(name, mask) for name, mask in best.items()})

    @torch.no_grad()
    def strengths(self) -> Mapping[str, Gates]:
        """Weight and dropout rate delta of every option."""
        return {
            "weight": {
                c.name: self.scatter(c, self.weights(c), removed=torch.nan) for c in self.noisy
            },
            "delta": {c.name: self.scatter(c, self.rates(c).exp(), torch.nan) for c in self.noisy},
        }

    @torch.no_grad()
    def decision_counts(self, count: int) -> list[Counter[Decisions]]:
        """Counts of the strongest options in draws of Gaussian noise.

        None with switches: a node with dozens of them hardly ever draws the same twice, and counts
        would say nothing.
        """
        if self.implicit:
            return []
        draws = {}
        for choice in self.noisy:
            on = self.keep_probability(choice).expand(count, 1, -1)
            draws[choice.name] = self.scatter(choice, self.strength(choice, on), removed=NEVER)
        return self.space.strongest_of_each(draws)

    def negligible(self) -> Gates:
        """Operations that are hardly ever kept, or hardly ever the strongest."""
        shares = self.probabilities()
        return {c.name: shares[c.name] < NEGLIGIBLE for c in self.choices("op")}
