"""A trained network with all it needs to predict: normalisation, classes, architecture; on disk."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.data import Normalise
from ardor.data.decode import told
from ardor.errors import ArdorError
from ardor.layers.variational import Variational, VariationalConv2d
from ardor.pruning.cut import fit_, record
from ardor.runtime.files import read_object, replaced_folder, write, write_json
from ardor.runtime.tensors import load as load_tensors
from ardor.runtime.tensors import save as save_tensors
from ardor.spaces import Net, network
from ardor.spaces import of as space_of

FORMAT = 1
SEARCHED = "searched"  # the form of a network with the supernet's weights: no other has an entry


class Model(nn.Module):
    """Pixels in 0..255, (batch, channels, height, width), to logits."""

    def __init__(
        self, net: Net, normalise: Normalise, architecture: Architecture, classes: tuple[str, ...]
    ) -> None:
        super().__init__()
        self.net, self.normalise = net, normalise
        self.architecture, self.classes = architecture, classes

    def forward(self, pixels: Tensor) -> Tensor:
        return self.net(self.normalise(pixels))  # type: ignore[no-any-return]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of the images it takes."""
        return space_of(self.architecture).image

    @property
    def variational(self) -> bool:
        """Whether its weights have variances, by which it can be pruned."""
        return any(isinstance(module, Variational) for module in self.net.modules())

    @torch.no_grad()
    def probabilities(self, pixels: Tensor) -> Tensor:
        """(batch, classes), in evaluation."""
        self.eval()
        found: Tensor = self(pixels).softmax(1)
        if not found.isfinite().all():
            raise ArdorError(
                "the network has no probabilities for these images: its weights are too large",
                "train again into a new run, with a lower train.rate",
            )
        return found

    def save(self, folder: Path, *, card: str) -> None:
        """Writes weights, settings and model card; nothing in them runs code when loaded."""
        with replaced_folder(folder) as filling:
            save_tensors(filling / "model.safetensors", self.state_dict(), {})
            write_json(filling / "config.json", self.to_json())
            write(filling / "README.md", card)

    def to_json(self) -> dict[str, Any]:
        """All that is needed besides the weights: architecture, classes, preprocessing."""
        with torch.device("meta"):
            built = network(self.architecture, as_searched=self.net.as_searched)
        cut = record(self.net, built)
        return {
            "format": FORMAT,
            "architecture": self.architecture.to_json(),
            "weights": "variational" if self.variational else "plain",
            **({"form": SEARCHED} if self.net.as_searched else {}),
            **({"compact": cut} if cut else {}),
            "classes": list(self.classes),
            "preprocessing": {
                **told(*self.shape),
                "mean": self.normalise.mean.flatten().tolist(),
                "std": self.normalise.std.flatten().tolist(),
            },
        }

    @classmethod
    def load(cls, folder: Path) -> "Model":
        """The model that `save` wrote."""
        settings = read_object(folder / "config.json", FORMAT)
        architecture = Architecture.from_json(settings.get("architecture"))
        space = space_of(architecture)
        conv = VariationalConv2d if settings.get("weights") == "variational" else nn.Conv2d
        searched = as_searched(folder, settings.get("form"))
        channels, net = space.image[0], network(architecture, conv=conv, as_searched=searched)
        if "compact" in settings:
            fit_(net, space.image, settings["compact"], folder / "config.json")
        model = cls(
            net,
            Normalise(torch.zeros(channels), torch.ones(channels)),
            architecture,
            class_names(folder, settings.get("classes"), space.classes),
        )
        tensors, _ = load_tensors(folder / "model.safetensors")
        check_shapes(folder, tensors, model.state_dict())
        model.load_state_dict(tensors)
        check_values(folder, model)
        return model.eval()


def as_searched(folder: Path, given: Any) -> bool:
    """Whether a network has the supernet's form; an ArdorError where its file says neither."""
    if given not in (None, SEARCHED):
        raise ArdorError(
            f"form in '{folder / 'config.json'}' is {given!r}; must be '{SEARCHED}', or left out",
            "put back what Ardor wrote there",
        )
    return given is not None


def class_names(folder: Path, given: Any, count: int) -> tuple[str, ...]:
    """The names of the classes, or an ArdorError unless there are `count` different ones."""
    names = given if isinstance(given, list) else []
    texts = {name for name in names if isinstance(name, str)}
    if not len(texts) == len(names) == count:
        raise ArdorError(
            f"classes in '{folder / 'config.json'}' are {given!r}; must be {count} different names",
            "put back what Ardor wrote there",
        )
    return tuple(names)


def check_shapes(
    folder: Path,
    given: Mapping[str, Tensor],
    wanted: Mapping[str, Tensor],
    to: str = "its config.json",
    hint: str = "both files must come from the same run",
) -> None:
    """An ArdorError that names the first tensor whose shape or type does not fit the network."""
    for name in sorted(given.keys() | wanted.keys()):
        found, needed = (
            str(tuple(tensors[name].shape)) if name in tensors else "absent"
            for tensors in (given, wanted)
        )
        if found != needed:
            raise ArdorError(
                f"weights in '{folder}' do not fit {to}: '{name}' is {found}; must be {needed}",
                hint,
            )
        if given[name].dtype != wanted[name].dtype:
            raise no_network(folder, name, f"numbers of {given[name].dtype}")


def check_values(folder: Path, model: Model) -> None:
    """An ArdorError that names the first tensor with values that give no probabilities."""
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise no_network(folder, name, "numbers that are not finite")
        if name.endswith("running_var") and (tensor < 0).any():
            raise no_network(folder, name, "variances below 0")
        if name == "normalise.std" and (tensor <= 0).any():
            raise no_network(folder, name, "deviations that are not above 0")


def no_network(folder: Path, name: str, what: str) -> ArdorError:
    """The error for weights that cannot be used."""
    return ArdorError(
        f"weights in '{folder}' are of no use: '{name}' has {what}",
        "put back what Ardor wrote there, or train again into a new run",
    )
