"""Methods: posteriors over architectures, each a distribution over gates."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice, Decisions, FellWith, Kind
from ardor.bayes import Gates
from ardor.layers.operations import ZERO
from ardor.spaces import Net, Space

# Choice -> option -> a number of epochs.
Epochs = Mapping[str, Mapping[str, int]]


class Curvature(Protocol):
    """How sharply the data's negative log-likelihood bends in the gates, when asked."""

    def __call__(self, gates: Gates, *, per_image: bool = False, samples: int = 0) -> Gates:
        """The Gauss-Newton diagonal at these gates, (copies | 1, 1, options), under their names.

        (copies, 1, options), in nats for the whole data set, as estimated from some of its images;
        or (copies, images, options), in nats for each of them. Exact in the classes, by a backward
        pass for each; or from `samples` labels that the net itself draws for every image.
        """


class Method(nn.Module, ABC):
    """A posterior over architectures: draws gates, learns from the loss, decides at the end.

    Its settings are the keyword arguments of its `__init__`; its parameters are what the gate
    optimiser learns. All randomness is torch's, so that a run can be continued; a search has a
    stream of random numbers for its methods alone, which no net and no image takes from.
    """

    bilevel: ClassVar[bool] = False  # gates learn on held-out images, weights on the others
    learns_by_scores: ClassVar[bool] = False  # from scores of architectures, not by gradients
    # Gates of zero have no gradient: their operations are not computed, even while gates learn.
    hard: bool = False
    conv: type[nn.Conv2d] = nn.Conv2d  # the convolution that the operations are made of
    decides: ClassVar[tuple[Kind, ...]] = ("op", "edge", "width")  # it needs one such choice
    draws_zero: ClassVar[bool] = True  # whether the zero operation is an option like the others
    empties: ClassVar[bool] = False  # whether all options of a choice may leave the supernet
    clips: ClassVar[bool] = False  # whether the gates' gradient is clipped as that of the weights
    refits: int = 1  # how often it is fitted again in an epoch, the last time at its end
    search: ClassVar[Mapping[str, Any]] = {}  # its own defaults for the search settings

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space
        # The gates' gradient is taken one weight step ahead: DARTS's second order.
        self.unrolled = False
        self.removed: Epochs = {}  # options removed from the supernet, and after which epoch

    @abstractmethod
    def sample(self, batch: int, progress: float) -> Gates:
        """Gates for one forward pass, (copies | 1, batch | 1, options) each."""

    @abstractmethod
    def probabilities(self) -> Gates:
        """How sure it is of every option, in [0, 1], (copies | 1, 1, options); for reports."""

    @abstractmethod
    def draw(self, count: int) -> list[Architecture]:
        """At most `count` architectures, at least one; the best guess is alone, or mostly first."""

    def strengths(self) -> Mapping[str, Gates]:
        """Other quantities that it knows of every option, by name: "mean", "snr", ...

        Gates, (copies | 1, 1, options), NaN for options that have left; for logs and reports.
        """
        return {}

    def fell_with(self) -> FellWith:
        """Choice -> option -> what it fell with: it is ruled out, but would have stayed by itself.

        That is a choice, "normal/0>2", or "normal/>2" for all that leads to a node; or one option
        of a choice, "normal/>2: 0" for the gate of an edge. What has left the supernet keeps what
        it fell with; for logs, drawings and reports.
        """
        return {}

    def decision_counts(self, count: int) -> list[Counter[Decisions]]:
        """Draws `count` architectures on the CPU, and counts the outcomes of each decision.

        One counter for each group of choices that are decided independently of all others, widths
        left out; none from a method that is no posterior over architectures.
        """
        return []

    @staticmethod
    def space_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings of the space that the given settings of the method require."""
        return {}

    def penalty(self, gates: Gates, net: Net, progress: float) -> Mapping[str, Tensor]:
        """Named terms of the objective besides the likelihood, in nats for the whole data set."""
        return {}

    def per_image(self, progress: float) -> Mapping[str, Tensor]:
        """Further named terms, in nats for each image, however many images there are."""
        return {}

    def after_step(self, rate: float) -> None:
        """Called after each step of the gates: for a penalty that has no gradient where it ends.

        `rate` is how far a gradient of one moves a gate in the end, momentum included.
        """

    def refit(self, curvature: Curvature) -> None:
        """Called `refits` times in an epoch in which gates learn; what is not asked is not made."""

    def learn_from(self, score: Callable[[Architecture], float]) -> None:
        """Called after each epoch in which gates learn, if it learns by scores.

        The score of an architecture is minus the logarithm of its nll on some held-out images,
        with the weights of the supernet.
        """

    @torch.no_grad()
    def pool(self, rounds: Sequence[Self]) -> None:
        """Sets the posterior to the mean of several, which were learned with different weights."""
        states = [each.state_dict() for each in rounds]
        for name, own in self.state_dict().items():
            own.copy_(torch.stack([state[name] for state in states]).mean(0))

    def negligible(self) -> Gates:
        """Booleans, (copies | 1, 1, options): options that the method rules out by its own rule.

        Options that are ruled out can leave the supernet. A method that names any must therefore
        compute with the entries that `gather` leaves, and return what `scatter` makes of them.
        """
        return {}

    def given_up(self) -> Gates:
        """Options that are negligible and that the best architecture does not keep either.

        An option that is given up for some epochs in a row is removed from the supernet.
        """
        negligible = self.negligible()
        with torch.random.fork_rng(devices=[]):
            kept = self.space.masks(self.draw(1)[0]) if negligible else {}
        return {name: gate & (kept[name] == 0).to(gate.device) for name, gate in negligible.items()}

    def remaining(self, choice: Choice) -> list[int]:
        """The indices of the options of a choice that are still in the supernet."""
        removed = self.removed.get(choice.name, {})
        return [
            at
            for at, option in enumerate(choice.options)
            if option not in removed and (option != ZERO or self.draws_zero)
        ]

    def gather(self, choice: Choice, entries: Tensor) -> Tensor:
        """The entries, (..., options), of the remaining options."""
        return entries[..., self.remaining(choice)]

    def scatter(self, choice: Choice, remaining: Tensor, removed: float = 0.0) -> Tensor:
        """An entry for each option, (..., options): `removed` for those that left the supernet."""
        full = remaining.new_full((*remaining.shape[:-1], len(choice.options)), removed)
        at = torch.tensor(self.remaining(choice), dtype=torch.long, device=remaining.device)
        return full.index_copy(-1, at, remaining)

    def choices(self, *kinds: str) -> list[Choice]:
        """The choices of these kinds in its space, but those that have left with all options."""
        return [
            choice
            for choice in self.space.choices
            if choice.kind in kinds and len(self.removed.get(choice.name, ())) < len(choice.options)
        ]


def never_zero(choice: Choice, scores: Tensor) -> Tensor:
    """Scores under which no space keeps the zero operation."""
    is_zero = torch.tensor([option == ZERO for option in choice.options], device=scores.device)
    return scores.masked_fill(is_zero, -torch.inf)
