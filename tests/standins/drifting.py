"""A search that collapses by a schedule: skip connections of the normal cell gain each epoch."""

from ardor.methods import Curvature
from ardor.methods.darts import Darts
from ardor.spaces import Space

HEALTHY = "normal/0>2"  # where a convolution stays the strongest


class Drifting(Darts):
    """DARTS whose skip connections begin at `start` and gain `pull` after every epoch."""

    def __init__(self, space: Space, *, start: float = -1.25, pull: float = 0.5) -> None:
        super().__init__(space, spread=1e-6)
        self.pull = pull
        for choice in self.choices("op"):
            self.logits[choice.name].data[..., choice.options.index("skip_connect")] = start
            if choice.name == HEALTHY:
                self.logits[HEALTHY].data[..., choice.options.index("sep_conv_3x3")] = 20.0

    def refit(self, curvature: Curvature) -> None:
        for choice in self.choices("op"):
            if choice.name.startswith("normal"):
                at = choice.options.index("skip_connect")
                self.logits[choice.name].data[..., at] += self.pull
