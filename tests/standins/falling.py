"""The shape of a method that knows what depends on what: what is behind a closed gate falls."""

import math
from collections.abc import Mapping

import torch

from ardor.architecture import Architecture, Choice
from ardor.bayes import Gates
from ardor.methods import Method

OPEN, CLOSED, BOUND = 1.0, 0.01, 1 / (2 * math.pi * math.e)


class Falling(Method):
    """Of the edges into a node the first is closed, and its operations fall; nothing is learned."""

    def first(self, choice: Choice) -> str | None:
        """The gate of an operation, if it is the one that is closed."""
        for gates in self.choices("edge"):
            same = (gates.place, gates.target) == (choice.place, choice.target)
            if same and gates.options[0] == str(choice.source):
                return f"{gates.name}: {gates.options[0]}"
        return None

    def alone(self, choice: Choice) -> torch.Tensor:
        """The variances that they would have by themselves."""
        own = torch.full((1, 1, len(choice.options)), OPEN)
        if choice.kind == "edge":
            own[..., 0] = CLOSED
        return own

    def gamma(self, choice: Choice) -> torch.Tensor:
        """The variances, given the gate."""
        own = self.alone(choice)
        closed = choice.kind == "op" and self.first(choice)
        return 1 / (1 / own + 1 / CLOSED) if closed else own

    def sample(self, batch: int, progress: float) -> Gates:
        return {c.name: torch.ones(1, 1, len(c.options)) for c in self.choices("op", "edge")}

    def probabilities(self) -> Gates:
        gammas = {c.name: self.gamma(c) for c in self.choices("op", "edge")}
        return {name: gamma / (gamma + BOUND) for name, gamma in gammas.items()}

    def strengths(self) -> Mapping[str, Gates]:
        choices = self.choices("op", "edge")
        return {
            "switch": self.sample(1, 1.0),
            "s": {c.name: self.alone(c) for c in choices},
            "gamma": {c.name: self.gamma(c) for c in choices},
            "entropy": {c.name: 0.5 * (self.gamma(c) / BOUND).log() for c in choices},
        }

    def fell_with(self) -> Mapping[str, Mapping[str, str]]:
        closed = {c: gate for c in self.choices("op") if (gate := self.first(c))}
        return {c.name: dict.fromkeys(c.options, gate) for c, gate in closed.items()}

    def draw(self, count: int) -> list[Architecture]:
        return [self.space.subset(self.probabilities())]
