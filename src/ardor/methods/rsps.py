"""Random search with parameter sharing (Li and Talwalkar 2019): nothing is learned of the gates.

Each step trains the weights of one architecture drawn uniformly; at the end many are drawn and
ranked on held-out images with the weights they share.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from ardor.methods.random import Random


class Rsps(Random):
    """Uniform over architectures, the best of many by shared weights."""

    search: ClassVar[Mapping[str, Any]] = {"candidates": 50, "held_out": 0.2}
