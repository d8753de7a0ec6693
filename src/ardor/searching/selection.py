"""Which posterior a search draws from: that of one epoch of each round, and the mean over rounds.

Within a round it is that of the last epoch, or of the epoch with the least error on held-out
images, or, if a collapse ends the search, of an epoch before it.

Rounds are complete searches, one after another. The result of a search depends on its initial
weights, and the posterior over architectures is an average over weights: each round begins with new
ones, and the mean of their posteriors is drawn from.
"""

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn

from ardor.methods import Epochs, Method
from ardor.settings.sections import SearchConfig


class Selection:
    """The method as it learns, its copy at the kept epoch, and the posteriors of ended rounds."""

    def __init__(self, method: Method, config: SearchConfig, facts: dict[str, Any]) -> None:
        self.method, self.config = method, config
        self.facts = facts  # what the search remembers as JSON
        self.kept = copy.deepcopy(method)
        self.rounds = Rounds(method, config.rounds)

    @property
    def modules(self) -> dict[str, nn.Module]:
        """Its part of a checkpoint."""
        return {"method": self.method, "kept": self.kept, "rounds": self.rounds}

    @property
    def compares_epochs(self) -> bool:
        """Whether an earlier epoch than the last may be drawn from."""
        return self.config.keep == "best" or self.config.stop_on_collapse

    def now(self, *, learning: bool = True) -> Method:
        """The posterior now, over all rounds; this round counts once its gates learn."""
        return self.rounds.together(self.method, learning=learning)

    def final(self) -> Method:
        """The posterior that is drawn from when the search ends here."""
        return self.rounds.together(self.of_round(), learning=True)

    def of_round(self) -> Method:
        """The method at the epoch of this round that is drawn from."""
        return self.kept if self.keeps_another else self.method

    @property
    def keeps_another(self) -> bool:
        """Whether an epoch has been chosen to be drawn from."""
        return self.compares_epochs and "least_error" in self.facts

    def add_epoch(self, epoch: int, error: float, *, in_doubt: bool) -> None:
        """Keeps a copy of the method if its held-out error is the least (VINNAS, line 16).

        If a collapse ends the search, epochs that look collapsed are not kept; and if the last
        epoch is wanted, the last one that does not look collapsed is kept.
        """
        last = self.config.stop_on_collapse and self.config.keep == "last"
        if not in_doubt and (last or error < self.facts.get("least_error", 2.0)):
            self.facts["least_error"], self.facts["kept_epoch"] = error, epoch
            self.kept.load_state_dict(self.method.state_dict())

    def end_search(self) -> str:
        """Ends the search with the kept epoch; a note of it, or "" if no epoch was kept."""
        if "kept_epoch" not in self.facts:
            return ""
        self.facts["ended"] = True
        return f"the search ends here, with the architecture of epoch {self.facts['kept_epoch']}"

    def begin_round(self) -> None:
        """Keeps the posterior of the round that ended, and lets the method begin anew."""
        self.rounds.end(self.of_round(), self.method)
        self.facts.pop("least_error", None)

    def remove(self, removed: Epochs) -> None:
        """Sets which options have left the supernet, in the method and its kept copy."""
        self.method.removed = self.kept.removed = removed

    def numbers(self) -> dict[str, float]:
        """Figures for tables: the epoch that is drawn from, if one was chosen."""
        known = self.keeps_another and "kept_epoch" in self.facts
        return {"kept_epoch": self.facts["kept_epoch"]} if known else {}


class Rounds(nn.Module):
    """The posteriors of the rounds that have ended; part of the checkpoints of a search."""

    ended: Tensor

    def __init__(self, method: Method, count: int) -> None:
        super().__init__()
        self.start = {name: value.clone() for name, value in method.state_dict().items()}
        self.learned = nn.ModuleList(copy.deepcopy(method) for _ in range(count - 1))
        self.register_buffer("ended", torch.tensor(0))

    def end(self, learned: Method, method: Method) -> None:
        """Keeps the posterior of a round, and resets the method."""
        self.learned[int(self.ended)].load_state_dict(learned.state_dict())
        self.ended += 1
        method.load_state_dict(self.start)

    def together(self, method: Method, *, learning: bool) -> Method:
        """The mean posterior over all rounds; with the current one if its gates learn."""
        ended = [cast(Method, each) for each in self.learned[: int(self.ended)]]
        if not ended:
            return method
        pooled = copy.deepcopy(method)
        pooled.pool([*ended, method] if learning else ended)
        return pooled
