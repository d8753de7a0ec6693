"""Chance: one architecture drawn uniformly, and no search at all.

Every search must beat it (Li and Talwalkar 2019). `rsps` draws in the same way, but many, and ranks
them.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from ardor.methods._uniform import Uniform


class Random(Uniform):
    """One architecture drawn uniformly."""

    search: ClassVar[Mapping[str, Any]] = {"epochs": 0, "candidates": 1, "held_out": 0.2}
