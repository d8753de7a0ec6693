"""Thompson sampling (1933) of architectures, with what was found on other images for a prior.

What an architecture scores on held-out images, here minus its nll, is a sum over its options, each
with a strength of its own:

    score = base + sum of the strengths of what is kept + noise,   strengths ~ N(0, spread^2)

Choices of the same options, such as the blocks of all stages, tell of each other: the strengths of
one option at two places are correlated by `alike`, as a strength of its own and one of the place.

This is Bayesian linear regression (`bayes/regression.py`): the posterior of the strengths is
Gaussian and exact. A step draws strengths from it and computes the architecture that is strongest
under them, so that what is likely to be good is trained most; after each epoch some draws are
scored with the weights they share, and the scores are added to the evidence. The base of every
epoch is its own: weights get better all the time.

The evidence of other data sets comes first: the posterior of one is the prior of the next. It is in
`_priors/`, a file for each space with what was trained, on which images, and how it scored. A score
on other images counts as `share` of one, and sets of images that are named in `without` not at all.
The first network of a file was found by hand, and the others are its neighbours: its options are
taken to be stronger by `belief`, or the luckiest of many neighbours would pass for the best.

Where a network may cost `max_cost` and no more (`_price.py`), weights and multiply-adds have a
price that is taken off the strengths: the least at which the likeliest one costs little enough.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from ardor import discover
from ardor.architecture import Architecture, Decisions
from ardor.bayes import Gates
from ardor.bayes.draws import best_probability
from ardor.bayes.regression import draw, evidence, posterior
from ardor.layers.operations import ZERO
from ardor.methods._base import Method, never_zero
from ardor.methods._price import Costs
from ardor.methods._priors import Known, believed, known
from ardor.settings.fields import Amount, Count, Rate, Share, Whole
from ardor.spaces import Space

NEGLIGIBLE = 0.001  # probability of being the best


class Thompson(Method):
    """Strengths of options by linear regression of scores, drawn anew in each step."""

    hard = True
    learns_by_scores: ClassVar[bool] = True
    search: ClassVar[Mapping[str, Any]] = {"warmup": 0.0, "held_out": 0.15, "candidates": 8}
    precision: Tensor
    shift: Tensor
    price: Tensor
    prior_price: Tensor
    prior_precision: Tensor
    prior_shift: Tensor

    def __init__(
        self,
        space: Space,
        *,
        spread: Rate = 0.05,  # standard deviation of a strength, before anything is known
        alike: Share = 0.5,  # correlation of an option's strengths in choices of the same options
        noise: Rate = 0.05,  # of a score, where weights are shared
        looks: Count = 8,  # architectures that are scored after an epoch
        share: Rate = 1.0,  # what a score on other images counts, of one on these
        belief: Amount = 0.03,  # mean strength of the options of the file's first network
        without: tuple[str, ...] = (),  # sets of images that the prior must know nothing of
        max_cost: Whole = 0,  # of a network, see `_price.py`; 0: whatever it costs
    ) -> None:
        super().__init__(space)
        self.spread, self.noise, self.looks, self.most = spread, noise, looks, max_cost
        self.scored = self.choices("op", "edge")
        sizes = [len(choice.options) for choice in self.scored]
        self.places = dict(zip([c.name for c in self.scored], splits(sizes), strict=True))
        self.register_buffer("precision", torch.linalg.inv(self.covariance(alike) * spread**2))
        name = discover.name_of(type(space))
        self.register_buffer("shift", self.precision @ (belief * self.features(believed(name))))
        for group in known(name, without):
            self.add(*self.seen(group), noise / share**0.5)
        # What is known before any image is seen, for reports.
        self.register_buffer("prior_precision", self.precision.clone())
        self.register_buffer("prior_shift", self.shift.clone())
        self.weighed = Costs(space, tuple(self.places)) if max_cost else None
        self.register_buffer("price", torch.tensor(self.present_price(), dtype=torch.double))
        self.register_buffer("prior_price", self.price.clone())

    def present_price(self) -> float:
        """The price of a unit of cost, by the strengths as they are known now."""
        if self.weighed is None:
            return 0.0
        mean, _ = posterior(self.precision.cpu(), self.shift.cpu())
        return self.weighed.price({n: mean[place] for n, place in self.places.items()}, self.most)

    def cost(self, name: str, price: Tensor) -> Tensor | float:
        """What is under each option of a choice costs, in units of strength."""
        return 0.0 if self.weighed is None else price.cpu() * self.weighed.under[name]

    def covariance(self, alike: float) -> Tensor:
        """Ones, and `alike` where two choices have the same options and it is the same option."""
        marks = [(choice.options, option) for choice in self.scored for option in choice.options]
        known = {mark: at for at, mark in enumerate(dict.fromkeys(marks))}
        which = torch.tensor([known[mark] for mark in marks])
        same = (which[:, None] == which[None]).double()
        return same * alike + torch.eye(len(marks), dtype=torch.double) * (1 - alike)

    def seen(self, group: Known) -> tuple[Tensor, Tensor]:
        """Features and scores of what was trained on a set of images."""
        return torch.stack([self.features(kept) for kept, _ in group]), torch.tensor(
            [score for _, score in group], dtype=torch.double
        )

    def add(self, features: Tensor, scores: Tensor, noise: float) -> None:
        """Adds a group of scores to the evidence."""
        precision, shift = evidence(features, scores, noise)
        self.precision += precision
        self.shift += shift

    def features(self, kept: Mapping[str, tuple[str, ...]]) -> Tensor:
        """One for what an architecture keeps, zero for everything else."""
        marks = [o in kept.get(c.name, ()) for c in self.scored for o in c.options]
        return torch.tensor(marks, dtype=torch.double)

    @torch.no_grad()
    def learn_from(self, score: Callable[[Architecture], float]) -> None:
        drawn = list(dict.fromkeys(self.draw(self.looks)))
        if len(drawn) > 1:
            scores = torch.tensor([score(one) for one in drawn], dtype=torch.double)
            self.add(torch.stack([self.features(one.options) for one in drawn]), scores, self.noise)
            self.price.fill_(self.present_price())

    def sample(self, batch: int, progress: float) -> Gates:
        return self.space.masks(self.strongest(self.drawn(1)[0]))

    def drawn(self, count: int) -> Tensor:
        """Draws of all strengths, (count, options of all choices)."""
        noise = torch.randn(count, len(self.shift), dtype=torch.double)
        return draw(self.precision.cpu(), self.shift.cpu(), noise)

    def strongest(self, strengths: Tensor) -> Architecture:
        """The best architecture under these strengths."""
        return self.space.strongest(self.scores(strengths[None]))

    def scores(self, strengths: Tensor) -> Gates:
        """Strengths by choice, (draws, 1, options); what has left is never kept."""
        found = {}
        for choice in self.scored:
            cost = self.cost(choice.name, self.price)
            own = strengths[:, None, self.places[choice.name]] - cost
            left = self.scatter(choice, self.gather(choice, own), removed=-torch.inf)
            found[choice.name] = never_zero(choice, left)
        return found

    @torch.no_grad()
    def draw(self, count: int) -> list[Architecture]:
        mean, _ = posterior(self.precision.cpu(), self.shift.cpu())
        return [self.strongest(mean), *(self.strongest(one) for one in self.drawn(count - 1))]

    @torch.no_grad()
    def decision_counts(self, count: int) -> list[Counter[Decisions]]:
        """Counts of the strongest options in draws of the strengths."""
        return self.space.strongest_of_each(self.scores(self.drawn(count)))

    def probabilities(self) -> Gates:
        return self.best(self.precision, self.shift, self.price)

    def best(self, precision: Tensor, shift: Tensor, price: Tensor) -> Gates:
        """The probability that an option is the strongest of its choice; zero never is."""
        mean, covariance = (part.cpu() for part in posterior(precision, shift))
        found = {}
        for choice in self.scored:
            place = self.places[choice.name]
            able = [at for at in self.remaining(choice) if choice.options[at] != ZERO]
            shares = torch.zeros(1, 1, len(choice.options))
            log_var = covariance.diagonal()[place].log()
            worth = mean[place] - self.cost(choice.name, price)
            shares[..., able] = best_probability(worth[able], log_var[able])
            found[choice.name] = shares.to(precision.device)
        return found

    def strengths(self) -> Mapping[str, Gates]:
        """Mean and variance of every strength, and P(strongest) before any image was seen."""
        mean, covariance = posterior(self.precision, self.shift)
        spread = covariance.diagonal()
        places = self.places.items()
        return {
            "mean": {name: mean[place][None, None].float() for name, place in places},
            "variance": {name: spread[place][None, None].float() for name, place in places},
            "prior": self.best(self.prior_precision, self.prior_shift, self.prior_price),
        }

    def negligible(self) -> Gates:
        return {name: best < NEGLIGIBLE for name, best in self.probabilities().items()}


def splits(sizes: list[int]) -> list[slice]:
    """Slices of such lengths, one behind another."""
    ends = torch.tensor([0, *sizes]).cumsum(0).tolist()
    return [slice(start, end) for start, end in zip(ends[:-1], ends[1:], strict=True)]
