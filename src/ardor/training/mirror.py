"""Mirror images of what is learned from, only where the classes survive it.

A cat is a cat from either side; a 3 or a left shoe is not. Nobody should have to know that of their
images, as the network knows it after a while: it is shown held-out images mirrored, the first such
ones it sees. Where it still tells their classes apart, it may learn from mirror images.
"""

from collections.abc import Sequence

from torch import Tensor

BEGIN = 0.2  # the progress from which on the network knows enough to be asked
# The share of the accuracy above chance that mirrored images must keep. Below it mirroring would
# teach what is wrong: classes that are each other's mirror images keep none, or less.
SURVIVES = 0.7


def survives(accuracy: float, mirrored: float, chance: float) -> bool:
    """Whether enough of the accuracy above chance is left once the images are mirrored."""
    return accuracy > chance and mirrored - chance >= SURVIVES * (accuracy - chance)


def chance(labels: Tensor) -> float:
    """The accuracy of whoever always answers with the commonest class."""
    return int(labels.bincount().max()) / len(labels)


def decided(names: Sequence[str], *, mirrored: bool) -> tuple[str, ...]:
    """What is to be done: "mirror" is a flip where images are mirrored, and otherwise nothing."""
    return tuple(
        "flip" if name == "mirror" else name for name in names if name != "mirror" or mirrored
    )


def in_words(accuracy: float, mirrored: float, *, on: bool) -> str:
    """What was decided, in a line."""
    words = "mirrored from here on" if on else "not mirrored"
    shares = f"{100 * accuracy:.1f} %, mirrored {100 * mirrored:.1f} %"
    return f"images are {words}: held-out accuracy {shares}"
