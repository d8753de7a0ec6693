"""What all operations of a net have in common: the convolution, and where BatchNorm and ReLU stand.

Three orders of the same operations: DARTS puts a ReLU before and a BatchNorm after each convolution
(pools are normalised only while searching); VINNAS follows every operation but skip and zero by
BatchNorm and ReLU; BayesNAS puts both before each convolution, so that what is added up is
normalised by what reads it (pools never are).
"""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from ardor.layers.blocks import Block, Chain

Order = Literal["relu-conv-bn", "conv-bn-relu", "bn-relu-conv"]  # DARTS, VINNAS, BayesNAS
DARTS: Order = "relu-conv-bn"


@dataclass(frozen=True)
class Style:
    """Choices for all operations of a net: the conv, the normalisation and their order."""

    conv: type[nn.Conv2d] = nn.Conv2d
    order: Order = DARTS
    searching: bool = True
    bare_pools: bool = False  # pools are never normalised (NAS-Bench-201)
    partial: int = 1  # while searching, one in so many channels goes through operations (PC-DARTS)

    @property
    def relu_last(self) -> bool:
        """Whether BatchNorm and ReLU follow each operation."""
        return self.order == "conv-bn-relu"

    @property
    def norm_first(self) -> bool:
        """Whether BatchNorm and ReLU stand before each convolution."""
        return self.order == "bn-relu-conv"

    @property
    def share(self) -> int:
        """One in so many channels goes through operations: all in the final network."""
        return self.partial if self.searching else 1

    def norm(self, channels: int) -> nn.BatchNorm2d:
        """Batch statistics and no scale while searching, a full BatchNorm in the final network."""
        final = not self.searching
        return nn.BatchNorm2d(channels, affine=final, track_running_stats=final)

    def stem_norm(self, channels: int) -> nn.BatchNorm2d:
        """For the stem: in DARTS it has a scale even while searching, in the others it does not."""
        final = not self.searching
        scaled = final or self.order == DARTS
        return nn.BatchNorm2d(channels, affine=scaled, track_running_stats=final)

    def block(self, channels: int, *convs: nn.Module) -> nn.Sequential:
        """The convolutions with ReLU and BatchNorm, of so many channels, in this order."""
        if self.norm_first:
            return nn.Sequential(self.norm(channels), nn.ReLU(), *convs)
        if self.relu_last:
            return nn.Sequential(*convs, self.norm(channels), nn.ReLU())
        return nn.Sequential(nn.ReLU(), *convs, self.norm(channels))


def in_a_row(*blocks: nn.Module) -> nn.Sequential:
    """The blocks, one after another: a chain where there is native code for all of them."""
    native = [block for block in blocks if isinstance(block, Block)]
    return Chain(*native) if len(native) == len(blocks) else nn.Sequential(*blocks)
