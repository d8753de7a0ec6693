"""Labels and probabilities for image files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ardor.data import read_pictures
from ardor.data.pictures import is_picture
from ardor.errors import ArdorError
from ardor.models.ensemble import Ensemble

BATCH = 256


@dataclass(frozen=True)
class Prediction:
    """The label of an image, and the probabilities of all classes."""

    path: Path
    label: str
    probabilities: dict[str, float]  # class -> probability
    networks: int  # whose mean they are

    @property
    def probability(self) -> float:
        """Of the label."""
        return self.probabilities[self.label]

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "path": str(self.path),
            "label": self.label,
            "probability": self.probability,
            "probabilities": self.probabilities,
            "networks": self.networks,
        }


def predict(ensemble: Ensemble, paths: Sequence[Path]) -> list[Prediction]:
    """A prediction for each image file, and for each in a folder, in order."""
    files = [file for path in paths for file in pictures_in(path)]
    if not files:
        raise ArdorError(
            f"no images in {', '.join(map(str, paths))}", "give image files, or a folder of them"
        )
    found, networks = [], len(ensemble.models)
    for start in range(0, len(files), BATCH):
        pixels, read = read_pictures(files[start : start + BATCH], ensemble.shape)
        for path, row in zip(read, ensemble.probabilities(pixels).tolist(), strict=True):
            shares = dict(zip(ensemble.classes, row, strict=True))
            found.append(Prediction(path, max(shares, key=shares.__getitem__), shares, networks))
    return found


def pictures_in(path: Path) -> list[Path]:
    """The image files in a folder and below it, or the file itself."""
    if not path.exists():
        raise ArdorError(
            f"no such file or folder: '{path}'", "give image files, or folders of them"
        )
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if is_picture(file))
