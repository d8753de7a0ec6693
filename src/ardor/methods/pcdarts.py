"""PC-DARTS (Xu et al. 2020): DARTS on a part of the channels, with a softmax over edges too.

One in `partial` channels goes through the operations while searching, the others pass by: the
space does that, where it has the setting (`space.partial`). Because that makes gates noisy, the
edges into a node have a softmax of their own (eq. 3), which is learned with the operations'; an
edge is kept by its best operation's share times its own. Spaces without such choices do without.

As printed, gates learn after 15 of 50 epochs, at twice the rate of DARTS, and the weights' rate
ends at zero. A departure: the printed batch of 256 at a rate of 0.1 is, for each image, that of
DARTS, which stays: 64 at 0.025.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from ardor.methods.darts import Darts
from ardor.settings.fields import Count, Rate
from ardor.spaces import Space


class PcDarts(Darts):
    """Softmax over the operations of an edge, and over the edges into a node."""

    kinds: ClassVar[tuple[str, ...]] = ("op", "edge")
    search: ClassVar[Mapping[str, Any]] = {
        **Darts.search,
        "rate_end": 0.0,
        "gate_rate": 6e-4,
        "warmup": 0.3,
    }

    def __init__(
        self,
        space: Space,
        *,
        partial: Count = 4,  # one in so many channels goes through operations; 1 is all
        spread: Rate = 0.001,  # standard deviation of the logits at the start
    ) -> None:
        super().__init__(space, spread=spread)

    @staticmethod
    def space_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The share of the channels is the space's to take."""
        return {"partial": settings["partial"]} if "partial" in settings else {}
