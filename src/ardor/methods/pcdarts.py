"""PC-DARTS (Xu et al. 2020): DARTS on a part of the channels, with a softmax over edges too.

While searching, one in `partial` channels goes through the operations and the others bypass them:
the space does that, where it has the setting (`space.partial`). Because that makes gates noisy, the
edges into a node have a softmax of their own (eq. 3), learned together with the operations'. Edges
are ranked by the share of their best operation times their own share. In a space without choices of
edges, only the operations have a softmax.

As published, gates learn after 15 of 50 epochs, at twice the rate of DARTS, and the weights' rate
ends at zero. A departure: the published batch of 256 at a rate of 0.1 is, for each image, the same
as that of DARTS, 64 at 0.025, which is used here.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from ardor.bayes import Gates
from ardor.methods._logits import DARTS_SEARCH, Categorical
from ardor.settings.fields import Count, Rate
from ardor.spaces import Space


class PcDarts(Categorical):
    """Softmax over the operations of an edge, and over the edges into a node."""

    kinds: ClassVar[tuple[str, ...]] = ("op", "edge")
    search: ClassVar[Mapping[str, Any]] = {
        **DARTS_SEARCH,
        "rate_end": 0.0,
        "gate_rate": 6e-4,
        "warmup": 0.3,
    }

    def __init__(
        self,
        space: Space,
        *,
        partial: Count = 4,  # one in so many channels goes through operations; 1: all do
        spread: Rate = 0.001,
    ) -> None:
        super().__init__(space, spread=spread)

    def sample(self, batch: int, progress: float) -> Gates:
        return self.softmax()

    @staticmethod
    def space_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The space must let that share of the channels through its operations."""
        return {"partial": settings["partial"]} if "partial" in settings else {}
