"""BayesNAS (Zhou, Yang, Wang and Pan 2019): switches under a prior that knows what depends on what.

Each operation, and each edge in front of its operations, is scaled by a switch w ~ N(0, gamma), of
its own in each copy of a cell. All begin at 1, without softmax, and learn together with the weights
from

    nll + lambda sum over groups of omega |w|,                                         (eq. 21)

a group being the same switch in all copies. After each cycle, an epoch or part of one, omega and
gamma are fitted again from the curvature H of the nll in the switches (eqs 17-20):

    omega = sqrt(H / (1 + gamma H)),  s = |w| / omega,  1 / gamma = 1 / s + 1 / s_edge + 1 / s_in,

with s_in the sum over all that leads to the source of the edge. What has a gamma of at most
1 / (2 pi e), where the entropy of N(0, gamma) is zero, is pruned, and leaves the supernet; any
number of operations of an edge, and of edges, may stay. The formulas are in `bayes.relevance`, what
depends on what in `_dependency`.

Departures from the paper: H is divided by lambda, as in the authors' code, and it is the
Gauss-Newton diagonal, which is never negative, of a few batches without augmentation, where the
code has a diagonal by hand of the last batch. The norm is taken off by a proximal step, which ends
at zero and not around it, and the gradient is clipped as that of the weights is, so that no lambda
is too large. What is pruned counts as nothing in s_in at once. The gate of an edge scales what its
operations give, not their input, where a BatchNorm would undo it; what it depends on itself is not
said in print: here on s_in, and on one of its operations. Switches are not set to 1 in the end, as
what is found is trained anew. `dependency` "code" leaves s_in out, as the authors' code does.

lambda is weighed against the nll of an image: the larger it is, the less stays. gamma says what may
stay, not what is best: where the nll hardly bends in a switch it is large, however small the
switch. Where the nll itself is near zero, nothing bends and nothing falls. The paper has no
probabilities. Here P(keep) is gamma / (gamma + 1 / (2 pi e)), a half at the bound. `derive`
"strongest" keeps the operation of the largest s on each edge, for spaces that must have one.

Where a space has no choice of inputs, edges have no gates. In a module of one's own a choice
depends on nothing but the option that it stands in: the input may have gone around all others.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice, FellWith, Kind
from ardor.bayes import Gates
from ardor.bayes.relevance import (
    BOUND,
    Rule,
    gaussian_entropy,
    group_norm,
    reweighting,
    shrunk,
    switch,
)
from ardor.methods._base import Curvature, Method
from ardor.methods._dependency import Dependent
from ardor.settings.fields import Count, Rate
from ardor.spaces import Space


class BayesNas(Method):
    """Switches, each with a variance that says whether it is needed."""

    decides: ClassVar[tuple[Kind, ...]] = ("op", "edge")
    draws_zero: ClassVar[bool] = False
    empties: ClassVar[bool] = True
    clips: ClassVar[bool] = True  # near zero, what a BatchNorm follows has a gradient without bound
    # As the authors search; held-out images only tell how the search goes.
    search: ClassVar[Mapping[str, Any]] = {
        "optimiser": "sgd",
        "rate": 0.1,
        "schedule": "constant",
        "weight_decay": 1e-4,
        "warmup": 0.1,
        "held_out": 0.2,
        "gate_optimiser": "sgd",
        "gate_rate": 0.1,
        "gate_decay": 0.0,
        "shrink": 1,
    }

    def __init__(
        self,
        space: Space,
        *,
        sparsity: Rate = 0.01,  # lambda: of the norm of the switches, against the nll of an image
        dependency: Rule = "print",  # "code": on its edge alone, as in the authors' code
        cycles: Count = 1,  # in an epoch: switches learn, then their variances are fitted again
        classes: Literal["all", "drawn"] = "all",  # that the curvature is of; one drawn an image
        derive: Literal["entropy", "strongest"] = "entropy",
    ) -> None:
        super().__init__(space)
        self.sparsity, self.dependency, self.refits = sparsity, dependency, cycles
        self.labels, self.derive = 0 if classes == "all" else 1, derive
        self.switched = self.choices(*self.decides)
        self.weight = nn.ParameterDict(
            {c.name: torch.ones(c.copies, 1, len(c.options)) for c in self.switched}
        )
        for choice in self.switched:
            for quantity in ("omega", "s", "gamma"):
                self.register_buffer(f"{quantity}/{choice.name}", self.there(choice))

    def there(self, choice: Choice) -> Tensor:
        """One for each remaining option, and zero for all others, (1, 1, options)."""
        return self.scatter(choice, self.gather(choice, torch.ones(1, 1, len(choice.options))))

    def fitted(self, quantity: str, choice: Choice) -> Tensor:
        """omega, s or gamma of the remaining options, (1, 1, options)."""
        return self.gather(choice, self.get_buffer(f"{quantity}/{choice.name}"))

    def weights(self, choice: Choice) -> Tensor:
        """w of the remaining options, (copies, 1, options)."""
        return self.gather(choice, self.weight[choice.name])

    def sample(self, batch: int, progress: float) -> Gates:
        return {c.name: self.scatter(c, self.weights(c)) for c in self.switched}

    @torch.no_grad()
    def per_image(self, progress: float) -> Mapping[str, Tensor]:
        """The re-weighted norm of all groups; without gradient, which is that of `after_step`."""
        groups = [self.fitted("omega", c) * group_norm(self.weights(c)) for c in self.switched]
        return {"group_norm": self.sparsity * torch.stack([each.sum() for each in groups]).sum()}

    @torch.no_grad()
    def after_step(self, rate: float) -> None:
        for choice in self.switched:
            by = rate * self.sparsity * self.get_buffer(f"omega/{choice.name}")
            self.weight[choice.name].copy_(shrunk(self.weight[choice.name], by))

    def refit(self, curvature: Curvature) -> None:
        """omega, s and gamma from the curvature of an image's nll (Algorithm 1, steps 2 and 3).

        What has left the supernet keeps what it fell with.
        """
        bends = curvature(self.sample(1, 1.0), per_image=True, samples=self.labels)
        with torch.no_grad():
            for choice in self.switched:
                bend = self.gather(choice, bends[choice.name]).mean(1, keepdim=True)
                omega = reweighting(bend / self.sparsity, self.fitted("gamma", choice))
                self.fit("omega", choice, omega)
                self.fit("s", choice, switch(self.weights(choice), omega))
            for name, gamma in self.dependent().gamma.items():
                self.get_buffer(f"gamma/{name}").copy_(gamma)

    def fit(self, quantity: str, choice: Choice, remaining: Tensor) -> None:
        """Sets omega or s of the remaining options."""
        own = self.get_buffer(f"{quantity}/{choice.name}")
        there = self.there(choice).to(own.device) > 0
        own.copy_(torch.where(there, self.scatter(choice, remaining), own))

    def dependent(self) -> Dependent:
        """gamma of every option, and what fell with what, from all s."""
        s = {c.name: self.get_buffer(f"s/{c.name}") for c in self.switched}
        there = {c.name: self.there(c).to(s[c.name].device) for c in self.switched}
        return Dependent(self.switched, s, there, self.dependency)

    def fell_with(self) -> FellWith:
        return self.dependent().fell_with

    @torch.no_grad()
    def probabilities(self) -> Gates:
        """P(keep): a half where the entropy is zero."""
        gammas = {choice: self.fitted("gamma", choice) for choice in self.switched}
        return {c.name: self.scatter(c, gamma / (gamma + BOUND)) for c, gamma in gammas.items()}

    def draw(self, count: int) -> list[Architecture]:
        if self.derive == "strongest":
            own = {c.name: self.scatter(c, self.fitted("s", c)) for c in self.switched}
            return [self.space.strongest(own)]
        return [self.space.connected(self.probabilities())]

    @torch.no_grad()
    def strengths(self) -> Mapping[str, Gates]:
        """The switch w, its own variance s, that with all it needs, gamma, and the entropy."""
        quantities: dict[str, Callable[[Choice], Tensor]] = {
            "switch": self.weights,
            "s": lambda choice: self.fitted("s", choice),
            "gamma": lambda choice: self.fitted("gamma", choice),
            "entropy": lambda choice: gaussian_entropy(self.fitted("gamma", choice)),
        }
        return {
            quantity: {c.name: self.scatter(c, of(c), removed=torch.nan) for c in self.switched}
            for quantity, of in quantities.items()
        }

    def negligible(self) -> Gates:
        """Operations and edges that are pruned."""
        return {name: share <= 0.5 for name, share in self.probabilities().items()}
