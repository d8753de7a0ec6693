"""How good the network is, in words: its accuracy, each class, and what it takes for what."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ardor.reporting.evaluation import Evaluation, wilson
from ardor.reporting.format import count, percent

_MATRIX = 20  # classes that a matrix is readable for
_PAIRS = 15


@dataclass(frozen=True)
class Count:
    """A field of the confusion matrix."""

    images: int
    share: float  # of the images of its true class
    right: bool
    words: str


def quality(found: Evaluation | None) -> dict[str, Any]:
    """All that the template shows of it; nothing where nothing was measured."""
    if found is None:
        return {"quality": None}
    many = len(found.classes) > _MATRIX
    return {
        "quality": sentence(found),
        "recalls": list(_recalls(found)),
        "matrix": None if many else _matrix(found),
        "classes": found.classes,
        "pairs": _pairs(found) if many else [],
        "mistakes": [(m, percent(m.probability, 1)) for m in found.mistakes],
    }


def sentence(found: Evaluation) -> str:
    """The accuracy, with its interval and what it was measured on."""
    images = sum(map(found.images, found.classes))
    right = sum(found.taken(name, name) for name in found.classes)
    which = "held-out" if found.held_out else "test"
    why = " There are no test images, so these were held out of the training." * found.held_out
    return (
        f"{percent(right / images, 1)} of the {which} images are told right: {count(right)} of "
        f"{count(images)}. The 95 % interval is {interval(right, images)}.{why}"
    )


def interval(right: int, images: int) -> str:
    """The 95 % interval of a share in words."""
    low, high = wilson(right, images)
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def _recalls(found: Evaluation) -> list[tuple[str, str, str, float]]:
    """Each class, its images that are told right, their share and its interval; weakest first."""
    rows: list[tuple[float, tuple[str, str, str, float]]] = []
    for name in found.classes:
        images, right = found.images(name), found.taken(name, name)
        share = right / images if images else 0.0
        said = f"{percent(share, 1)} ({interval(right, images)})" if images else "no images"
        row = (name, f"{count(right)} of {count(images)}", said, share)
        rows.append((share if images else 2.0, row))
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def _matrix(found: Evaluation) -> list[tuple[str, list[Count]]]:
    """A row of counts for each true class."""
    return [(true, list(_counts(found, true))) for true in found.classes]


def _counts(found: Evaluation, true: str) -> Iterator[Count]:
    images = found.images(true)
    for predicted in found.classes:
        taken = found.taken(true, predicted)
        words = f"{count(taken)} of class {true} taken for {predicted}"
        yield Count(taken, taken / images if images else 0.0, true == predicted, words)


def _pairs(found: Evaluation) -> list[tuple[str, str, str, str]]:
    """The classes that are taken for another most often, by the number of images."""
    pairs = [
        (taken, true, predicted)
        for true, said in found.confusion.items()
        for predicted, taken in said.items()
        if taken and true != predicted
    ]
    pairs.sort(key=lambda pair: (-pair[0], pair[1:]))
    return [
        (true, predicted, count(taken), percent(taken / found.images(true)))
        for taken, true, predicted in pairs[:_PAIRS]
    ]
