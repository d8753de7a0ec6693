"""A network that a person has, opened by what they have of it, to be made smaller."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ardor import discover, spaces
from ardor.architecture import Architecture
from ardor.data import Dataset, Normalise
from ardor.errors import ArdorError, unknown
from ardor.models.model import Model, check_shapes, check_values
from ardor.models.smaller import prune
from ardor.pipeline.folder import COMPRESSING
from ardor.pipeline.open import load
from ardor.pipeline.plan import LONGEST, REST, Layer, Layers
from ardor.pipeline.resolve import SIZES
from ardor.pipeline.run import Opened
from ardor.runtime.tensors import load_any
from ardor.settings.merge import merge
from ardor.settings.presets import USUAL, preset
from ardor.settings.sections import NOTHING, CompressConfig

AFTER = 0.05  # of the time of all: for export, scores and report, if that is more than `REST`
TRAINED = 0.5  # of the rest: to train a network that has no weights yet
COUNT = "num_batches_tracked"  # of a BatchNorm: it changes no answer, and some files leave it out


@dataclass(frozen=True)
class Given:
    """What is to be made smaller: an architecture, and where its weights are from."""

    architecture: Architecture
    opened: Opened | None = None  # None: it has no weights yet, and is trained first
    image: tuple[int, int, int] | None = None  # the size of its images, where only one is possible

    @property
    def creating(self) -> dict[str, Any]:
        """What a new run is told of it."""
        stages = COMPRESSING if self.opened is None else COMPRESSING[1:]
        return {"stages": stages, "given": self.architecture, "trained": self.opened}


def given(
    network: str | PathLike[str] | nn.Module, weights: Path | None = None, trust: Sequence[str] = ()
) -> Given:
    """A run's network, a module, or a name: of a network, or of a module of one's own."""
    if isinstance(network, nn.Module):
        return of_module(network)
    if Path(network).is_dir():
        return of_folder(Path(network), weights, trust)
    name = discover.module_of(str(network))
    if not discover.is_dotted(name) and name not in spaces.networks():
        raise unknown("network", str(network), spaces.networks())
    if discover.is_dotted(name):
        discover.trust([name])
    architecture = spaces.known(name)
    if weights is None:
        return Given(architecture)
    return Given(architecture, lambda of, images, asked: from_file(weights, of, images, asked))


def of_folder(folder: Path, weights: Path | None, trust: Sequence[str]) -> Given:
    """The network that a run ends with so far, or that of a model's folder."""
    if weights is not None:
        raise ArdorError(
            f"'{folder}' has weights of its own: --weights '{weights}' must be left out",
            "weights are given to a module of yours, or to one of 'ardor list networks'",
        )
    found = load(folder, trust)
    plain = prune(found, NOTHING) if found.variational or has_auxiliary(found) else found

    def opened(of: Architecture, images: Dataset, asked: CompressConfig) -> Model:
        if plain.shape != images.shape:
            raise ArdorError(
                f"images are {in_words(images.shape)}; the network in '{folder}' is for "
                f"{in_words(plain.shape)}",
                "leave out data.size and data.channels, or give images of that size",
            )
        if plain.classes != images.classes:
            raise ArdorError(
                f"classes of the images are {', '.join(images.classes)}; the network in '{folder}' "
                f"tells apart {', '.join(plain.classes)}",
                "give images of the classes it was trained for, in folders of the same names",
            )
        return plain

    return Given(plain.architecture, opened, plain.shape)


def in_words(shape: tuple[int, int, int]) -> str:
    """The size of images, for reading."""
    return f"{shape[1]}x{shape[2]} pixels of {shape[0]} channels"


def has_auxiliary(model: Model) -> bool:
    """Whether a network has a head that only helps to train."""
    return spaces.of(model.architecture).auxiliary


def of_module(module: nn.Module) -> Given:
    """A module as it is, in a copy."""
    space = spaces.of_module(module)

    def opened(of: Architecture, images: Dataset, asked: CompressConfig) -> Model:
        return model_of(spaces.network(of), of, images, asked, Path(type(module).__name__))

    return Given(spaces.known(discover.name_of(space)), opened)


def from_file(path: Path, of: Architecture, images: Dataset, asked: CompressConfig) -> Model:
    """A network with the weights of a safetensors file, by the names that its module has."""
    net = spaces.network(of)
    assert isinstance(net.module, nn.Module)
    own = net.module.state_dict()
    read = load_any(path)
    found = {name: t.float() if t.is_floating_point() else t for name, t in read.items()}
    if "normalise.mean" in read:
        raise ArdorError(
            f"'{path}' holds a whole model of Ardor, and not the weights of a module",
            "give the folder that it is in, in place of the module, and no --weights",
        )
    missing = {name: t for name, t in own.items() if name.endswith(COUNT) and name not in found}
    check_shapes(
        path,
        {**found, **missing},
        own,
        f"the module of '{of.space}'",
        "names and shapes must be those of its state_dict(); settings: --set space.NAME=VALUE",
    )
    net.module.load_state_dict({**found, **missing})
    return model_of(net, of, images, asked, path)


def model_of(
    net: spaces.Net, of: Architecture, images: Dataset, asked: CompressConfig, where: Path
) -> Model:
    """A network with the normalisation of its settings, or else of the images."""
    model = Model(net, normalise_of(images, asked), of, images.classes).eval()
    check_values(where, model)
    return model


def normalise_of(images: Dataset, asked: CompressConfig) -> Normalise:
    """How pixels are brought to a module: its own mean and deviation of 0..1, or these images'."""
    if not asked.mean and not asked.std:
        return Normalise.of(images.train)
    channels = images.shape[0]
    for name, values in (("mean", asked.mean), ("std", asked.std)):
        if len(values) != channels or (name == "std" and min(values) <= 0):
            raise ArdorError(
                f"compress.{name} = {list(values)} must be {channels} numbers, one for each channel"
                + (", above 0" if name == "std" else ""),
                "as the module was trained with, for pixels in 0..1; leave out both, and they are "
                "those of the images",
            )
    return Normalise(*(255 * torch.tensor(values) for values in (asked.mean, asked.std)))


def layers_for(network: Given, settings: Sequence[Layer], seconds: float = 0.0) -> Layers:
    """The settings of a run that makes it smaller, in all these seconds; 0: no limit."""
    usual = {name: part for name, part in preset(USUAL).items() if name not in ("space", "time")}
    kept = {name: v for name, v in network.architecture.settings if name not in SIZES}
    own: dict[str, Any] = {
        "space": {"name": network.architecture.space, **kept},
        "train": {"start": "scratch", "max_weights": 0},
        "prune": {"within": 0.0},
    }
    if network.image is not None:
        channels, height, width = network.image
        own["data"] = {"channels": channels, **({"size": height} if height == width else {})}
    counted = any(
        "epochs" in layer.get(stage, {}) for layer in settings for stage in ("train", "compress")
    )
    if seconds or (network.opened is None and not counted):
        own = merge(own, shared_out(seconds or LONGEST, trains=network.opened is None))
    return (usual, own, *settings)


def shared_out(seconds: float, *, trains: bool) -> Layer:
    """Times for training, if it has to be, and for making it smaller; the rest is for files."""
    left = max(1.0, seconds - max(REST, AFTER * seconds))
    train = TRAINED * left if trains else 0.0
    times = {"train": {"time": round(train, 1)}, "compress": {"time": round(left - train, 1)}}
    return times if trains else {"compress": times["compress"]}
