"""The result of a search: an architecture, the candidates it is chosen from, and certainties."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from ardor.architecture import (
    Architecture,
    Choice,
    FellWith,
    Options,
    Probabilities,
    against_odds,
    choices_to_json,
)
from ardor.methods import Epochs
from ardor.searching.likely import Likely


@dataclass(frozen=True)
class Candidate:
    """An architecture, and its scores on held-out images with the supernet's weights."""

    architecture: Architecture
    accuracy: float
    nll: float
    draw: int = 0  # the how manieth draw of the posterior, from 0

    def to_json(self, widths: Collection[str] = ()) -> dict[str, Any]:
        """Its entry in architecture.json; for the choices in `widths` only the number kept."""
        counts = {name: len(self.architecture.options[name]) for name in widths}
        return {
            "kept": without(widths, self.architecture),
            **({"widths": counts} if counts else {}),
            "draw": self.draw,
            "held_out_accuracy": self.accuracy,
            "held_out_nll": self.nll,
        }


@dataclass(frozen=True)
class SearchResult:
    """The architecture that was found, its candidates, and how sure the method is."""

    architecture: Architecture
    choices: tuple[Choice, ...]  # of its space
    candidates: tuple[Candidate, ...]  # best first
    probabilities: Probabilities
    strengths: Mapping[str, Mapping[str, Mapping[str, float]]]  # choice -> option -> quantity
    removed: Epochs  # options that left the supernet, each after which epoch
    likeliest: tuple[Likely, ...]  # itself, then its runners-up; empty without a posterior
    watched: Mapping[str, float]  # figures of the collapse monitor, and how sure the search is
    # The weights of the architecture and of all members in the supernet, by name; see handover.py.
    weights: Mapping[str, Tensor] = field(repr=False, compare=False)
    widths: Mapping[str, float] = field(default_factory=dict)  # choice -> channels expected to stay
    # Choice -> option -> what it fell with, where it would have stayed by itself.
    fell_with: FellWith = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # where the search has decided little
    members: tuple[Architecture, ...] = ()  # those that are to predict together, itself first

    def to_json(self) -> dict[str, Any]:
        """The content of architecture.json."""
        return {
            **self.architecture.to_json(),
            "choices": choices_to_json(self.choices),
            "probabilities": self.probabilities,
            "against_odds": [
                asdict(one)
                for one in against_odds(self.choices, self.architecture.options, self.probabilities)
            ],
            "strengths": self.strengths,
            **({"fell_with": self.fell_with} if self.fell_with else {}),
            "left": self.removed,
            **({"widths": self.widths} if self.widths else {}),
            "warnings": list(self.warnings),
            "candidates": [candidate.to_json(self.widths) for candidate in self.candidates],
            **self.likelihoods(),
            **self.together(),
        }

    def together(self) -> dict[str, Any]:
        """What the others keep that are to predict with it, widths and all."""
        others = [member.to_json()["kept"] for member in self.members[1:]]
        return {"members": others} if others else {}

    def likelihoods(self) -> dict[str, Any]:
        """Its probability and its runners-up; nothing without a posterior over architectures."""
        if not self.likeliest:
            return {}
        own, *others = self.likeliest
        return {
            "probability": own.probability,
            "runners_up": [
                {
                    "kept": without(self.widths, other.architecture),
                    "probability": other.probability,
                    "times_as_likely": other.times_as_likely,
                    "standard_error": other.standard_error,
                }
                for other in others
            ],
        }


def without(names: Collection[str], architecture: Architecture) -> Options:
    """The kept options of an architecture, without these choices."""
    return {name: options for name, options in architecture.kept if name not in names}
