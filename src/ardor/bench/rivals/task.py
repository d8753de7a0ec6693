"""What a contender is given, and what it makes of it."""

from dataclasses import asdict, dataclass
from pathlib import Path

from ardor.data import Dataset


@dataclass(frozen=True)
class Task:
    """What a contender is given."""

    path: Path  # of the file with the images
    images: Dataset
    source: str  # the data set that they were cut from, of which a prior must know nothing
    mirrored: bool  # whether an image keeps its class in a mirror
    seconds: float  # of the CPU, for all it does
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What came of it; sizes only of networks."""

    accuracy: float  # on the test images
    cpu_seconds: float
    params: int | None = None
    nonzero_params: int | None = None
    macs: int | None = None
    latency_ms: float | None = None

    def to_json(self) -> dict[str, float]:
        """For a file: what is known."""
        return {name: value for name, value in asdict(self).items() if value is not None}
