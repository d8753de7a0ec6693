"""Random search with parameter sharing (Li and Talwalkar 2019): nothing is learned of the gates.

Each step trains the weights of one architecture drawn uniformly, with DARTS's optimiser; at the end
many are drawn and ranked on held-out images with the weights they share.

Departures from the paper: 50 candidates are ranked on all held-out images, where the authors rank
many more on a few batches first; a fifth of the images is held out, not half.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from ardor.methods._uniform import Uniform


class Rsps(Uniform):
    """Uniform over architectures, the best of many by shared weights."""

    search: ClassVar[Mapping[str, Any]] = {
        "optimiser": "sgd",
        "rate": 0.025,
        "rate_end": 0.001,
        "candidates": 50,
        "held_out": 0.2,
    }
