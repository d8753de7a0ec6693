"""evaluation.json: how often each class was taken for which, and the worst mistakes as pictures."""

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ardor.errors import ArdorError
from ardor.reporting.format import number
from ardor.runtime.files import read_object

FILE = "evaluation.json"
FORMAT = 1
MISTAKES = 12
PNG = b"\x89PNG\r\n\x1a\n"
LARGEST = 2**18  # bytes of a picture
SPREAD = 1.959964  # standard deviations that hold 95 % of a Gaussian


@dataclass(frozen=True)
class Mistake:
    """An image that the network is sure about, and wrong."""

    true: str
    predicted: str
    probability: float  # of the predicted class
    png: str  # in base64


@dataclass(frozen=True)
class Evaluation:
    """What a network said of images that it has not seen."""

    held_out: bool  # from training, as there are no test images
    classes: tuple[str, ...]
    confusion: Mapping[str, Mapping[str, int]]  # true class -> predicted class -> images, if any
    mistakes: Sequence[Mistake]  # the surest first

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        return {
            "format": FORMAT,
            "images": "held out" if self.held_out else "test",
            "classes": list(self.classes),
            "confusion": {true: dict(said) for true, said in self.confusion.items()},
            "mistakes": [vars(mistake) for mistake in self.mistakes],
        }

    def images(self, true: str) -> int:
        """How many images of a class there were."""
        return sum(self.confusion.get(true, {}).values())

    def taken(self, true: str, predicted: str) -> int:
        """How many images of the one class were taken for the other."""
        return self.confusion.get(true, {}).get(predicted, 0)


def wilson(right: int, images: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927): low and high.

    (p + z^2/2n -+ z sqrt(p (1-p) / n + z^2/4n^2)) / (1 + z^2/n), with p = right / n.
    """
    share, extra = right / images, SPREAD**2 / images
    middle = share + extra / 2
    spread = SPREAD * math.sqrt(share * (1 - share) / images + extra / (4 * images))
    low, high = (middle - spread) / (1 + extra), (middle + spread) / (1 + extra)
    return max(0.0, low), min(1.0, high)


def read_evaluation(run: Path) -> Evaluation | None:
    """What the file of a run folder says; None in a run that has none, as older ones."""
    path = run / FILE
    if not path.exists():
        return None
    content = read_object(path, FORMAT)
    try:
        return _evaluation(content)
    except (ValueError, binascii.Error) as error:
        raise ArdorError(
            f"'{path}' {error}", "delete it, and measure again with 'ardor evaluate'"
        ) from error


def _evaluation(content: Mapping[str, Any]) -> Evaluation:
    """The evaluation in a file; a ValueError says what a stranger has made of it."""
    classes, which = content.get("classes"), content.get("images")
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise ValueError(f"has classes {_cut(classes)}; must be a list of names")
    if len(set(classes)) < max(1, len(classes)):
        raise ValueError("must name each class once")
    if which not in ("test", "held out"):
        raise ValueError(f"has images {_cut(which)}; must be 'test' or 'held out'")
    known = frozenset(classes)
    confusion = _confusion(content.get("confusion"), known)
    if not any(map(any, (said.values() for said in confusion.values()))):
        raise ValueError("has counted no image")
    mistakes = content.get("mistakes")
    if not isinstance(mistakes, list) or len(mistakes) > MISTAKES:
        raise ValueError(f"must have a list of at most {MISTAKES} mistakes")
    found = [_mistake(mistake, known) for mistake in mistakes]
    return Evaluation(which == "held out", tuple(classes), confusion, found)


def _confusion(content: Any, known: frozenset[str]) -> dict[str, dict[str, int]]:
    """Counts by true and by predicted class."""
    if not isinstance(content, dict) or not all(isinstance(x, dict) for x in content.values()):
        raise ValueError("must count images by true and by predicted class")
    strange = sorted(set().union(content, *content.values()) - known)
    if strange:
        raise ValueError(f"counts images of {_cut(strange[0])}, which is no class of it")
    for said in content.values():
        for count in said.values():
            if type(count) is not int or count < 0:
                raise ValueError(f"has a count of {_cut(count)}; must be a whole number from 0")
    return content


def _mistake(content: Any, known: frozenset[str]) -> Mistake:
    """One picture with what it shows."""
    content = content if isinstance(content, dict) else {}
    names = [content.get(key) for key in ("true", "predicted")]
    if not all(isinstance(name, str) and name in known for name in names):
        raise ValueError(f"has a mistake of classes {_cut(names)}; must be of its own")
    share, png = number(content.get("probability")), content.get("png")
    if share is None or not 0 <= share <= 1:
        raise ValueError(f"has a probability {_cut(content.get('probability'))}; must be 0 to 1")
    if not isinstance(png, str) or len(png) > LARGEST or not png.isascii():
        raise ValueError("has a picture that is no PNG in base64")
    if not base64.b64decode(png, validate=True).startswith(PNG):
        raise ValueError("has a picture that is no PNG in base64")
    return Mistake(str(names[0]), str(names[1]), share, png)


def _cut(value: Any) -> str:
    """A strange value in few letters and one line."""
    said = ascii(value)
    return said if len(said) <= 40 else f"{said[:40]}..."
