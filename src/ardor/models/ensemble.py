"""Networks that predict together, by the mean of their probabilities; saved in one folder."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short

import torch
from torch import Tensor

from ardor.errors import ArdorError
from ardor.models.card import card
from ardor.models.model import Model
from ardor.runtime.files import check_links, replaced_folder

MEMBERS = "members"  # in the folder of the first: the others, by number from 2 on
MOST = 10  # a search knows no more of its best candidates exactly
MORE = "a search keeps more: --set search.ensemble=5 --set train.start=search"


@dataclass(frozen=True)
class Ensemble:
    """Networks for the same images and classes, the best first."""

    models: tuple[Model, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.models[0].classes

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of the images it takes."""
        return self.models[0].shape

    def probabilities(self, pixels: Tensor) -> Tensor:
        """(batch, classes), the mean over networks."""
        return torch.stack([model.probabilities(pixels) for model in self.models]).mean(0)


def together(logits: Sequence[Tensor]) -> Tensor:
    """The log of the mean probabilities of networks with these logits: logits of all together."""
    log_shares = torch.stack([each.log_softmax(1) for each in logits])
    return log_shares.logsumexp(0) - math.log(len(logits))


def save(models: Sequence[Model], folder: Path) -> None:
    """Writes the first network into a folder, and the others inside it, all or nothing."""
    first, *others = models
    with replaced_folder(folder) as filling:
        first.save(filling, card=card(folder.name, first, together=len(models)))
        for number, model in enumerate(others, 2):
            name = str(number)
            model.save(filling / MEMBERS / name, card=card(name, model))


def load(folder: Path, count: int) -> Ensemble:
    """The network in a folder, with so many of those saved inside it that there are `count`."""
    check_count(folder, count, saved(folder))
    if count > 1:
        check_links(folder)
    first = Model.load(folder)
    others = [folder / MEMBERS / str(number) for number in range(2, count + 1)]
    return Ensemble((first, *(alike(place, first) for place in others)))


def saved(folder: Path) -> int:
    """How many networks can predict together in the folder of a model."""
    count = 1
    while count < MOST and (folder / MEMBERS / str(count + 1)).is_dir():
        count += 1
    return count


def alike(place: Path, first: Model) -> Model:
    """A member; an ArdorError unless it takes the images and tells the classes of the first."""
    found = Model.load(place)
    for what, own, wanted in (
        ("classes", found.classes, first.classes),
        ("images", found.shape, first.shape),
    ):
        if own != wanted:
            raise ArdorError(
                f"the network in '{place}' is for {what} {short(own)}; must be for "
                f"{short(wanted)}, as the one that it predicts with",
                "put back what Ardor wrote there",
            )
    return found


def check_count(folder: Path, count: int, there: int, way: str = MORE) -> None:
    """An ArdorError, with the way to more of them, unless so many networks are there."""
    if not 1 <= count <= there:
        most = "1" if there == 1 else f"1 to {there}"
        raise ArdorError(
            f"ensemble = {count} must be {most}: so many networks are in '{folder}'", way
        )
