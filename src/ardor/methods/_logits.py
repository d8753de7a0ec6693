"""The DARTS family: logits for every option, and gates that are a function of them.

`Logits` holds the parameters. `Categorical` is the parent of methods whose options compete by a
softmax; of those, `Concrete` draws one option at a temperature. All three are abstract.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture, Decisions
from ardor.bayes import Gates
from ardor.bayes.draws import gumbel_scores
from ardor.methods._base import Method
from ardor.spaces import Space

# As the authors of DARTS train the weights of their supernet.
DARTS_SEARCH: Mapping[str, Any] = {
    "optimiser": "sgd",
    "rate": 0.025,
    "rate_end": 0.001,
    "warmup": 0.0,
}
NEGLIGIBLE = 0.1  # of an even share


class Logits(Method):
    """A logit for every option, the same for every image."""

    bilevel: ClassVar[bool] = True
    kinds: ClassVar[tuple[str, ...]] = ("op",)  # of the choices that have logits
    search: ClassVar[Mapping[str, Any]] = DARTS_SEARCH

    def __init__(
        self,
        space: Space,
        *,
        spread: float,  # standard deviation of the logits at the start
    ) -> None:
        super().__init__(space)
        self.logits = nn.ParameterDict(
            {c.name: spread * torch.randn(1, 1, len(c.options)) for c in self.choices(*self.kinds)}
        )

    def gates(self, of: Callable[[Tensor], Tensor], removed: float = 0.0) -> Gates:
        """A function of the logits of each choice; `removed` for options that have left."""
        return {
            choice.name: self.scatter(
                choice, of(self.gather(choice, self.logits[choice.name])), removed
            )
            for choice in self.choices(*self.kinds)
        }

    def softmax(self) -> Gates:
        """The softmax over the options of each choice."""
        return self.gates(partial(torch.softmax, dim=-1))


class Categorical(Logits):
    """Options of a choice compete: their probabilities are the softmax of their logits.

    By a rule of thumb, which is no paper's, an operation is given up where its probability is below
    a tenth of an even share: without it the supernet computes nearly the same.
    """

    @torch.no_grad()
    def probabilities(self) -> Gates:
        return self.softmax()

    def draw(self, count: int) -> list[Architecture]:
        return [self.space.strongest(self.probabilities())]

    def negligible(self) -> Gates:
        shares = self.probabilities()
        return {
            choice.name: shares[choice.name] < NEGLIGIBLE / len(self.remaining(choice))
            for choice in self.choices("op")
        }


class Concrete(Categorical):
    """Gates are a random draw with a gradient, the nearer to one-hot the lower the temperature."""

    def __init__(
        self,
        space: Space,
        *,
        start: float,  # the temperature at first
        end: float,  # and at last
        spread: float,
    ) -> None:
        super().__init__(space, spread=spread)
        self.start, self.end = start, end

    def temperature(self, progress: float) -> float:
        """From `start` to `end` in a line."""
        return self.start + progress * (self.end - self.start)

    @torch.no_grad()
    def decision_counts(self, count: int) -> list[Counter[Decisions]]:
        """Operations as they are drawn; the inputs of a state by how likely they are not zero."""
        draws = self.gates(
            lambda logits: gumbel_scores(logits.cpu().expand(count, 1, -1)), removed=-torch.inf
        )
        return self.space.strongest_of_each(draws)
