"""How much memory images may take, checked before any of it is used."""

from math import ceil
from pathlib import Path

from ardor.errors import ArdorError
from ardor.runtime.available import available_memory, size

COPIES = 2  # of images: one as read, one where they are joined, converted or split
# Bytes a file may unpack to: photographs take fifty times their size, zip bombs a thousand.
ALWAYS, TIMES = 2**29, 100


class Limit:
    """Counts the memory that images take, and refuses more than is allowed."""

    def __init__(self, given: int = 0) -> None:
        self.given = given
        self.most = given or available_memory() / 2
        self.taken = 0.0

    def take(self, path: Path, count: float, way_out: str = "take fewer images") -> None:
        """Counts bytes that images are going to take; an ArdorError where they are too many."""
        self.taken += COPIES * count
        self._check(f"{path} needs", self.taken, self.most, way_out)

    def unpack(self, path: Path, count: float, packed: int, way_out: str = "leave it out") -> None:
        """An ArdorError where a file unpacks to more than is allowed for its size."""
        allowed = min(self.most, self.given or ALWAYS + TIMES * packed)
        self._check(f"{path}, a file of {size(packed)}, needs", count, allowed, way_out)

    def _check(self, what: str, needed: float, allowed: float, way_out: str) -> None:
        if needed > allowed:
            raise ArdorError(
                f"{what} {size(needed)} of memory; {size(allowed)} are allowed",
                f"{way_out}; a run may take more with --set data.memory={ceil(needed / 2**30)}GB",
            )
