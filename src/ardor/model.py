"""A trained network with all it needs to predict: normalisation, classes, architecture; on disk."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.data import Normalise
from ardor.errors import ArdorError
from ardor.files import new_folder, read_json, write, write_json
from ardor.layers import Variational, VariationalConv2d
from ardor.runtime import load as load_tensors
from ardor.runtime import save as save_tensors
from ardor.spaces import Net
from ardor.spaces import of as space_of

FORMAT = 1


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
        return self(pixels).softmax(1)  # type: ignore[no-any-return]

    def save(self, folder: Path, *, card: str) -> None:
        """Writes weights, settings and model card; nothing in them runs code when loaded."""
        with new_folder(folder) as filling:
            save_tensors(filling / "model.safetensors", self.state_dict(), {})
            write_json(filling / "config.json", self.to_json())
            write(filling / "README.md", card)

    def to_json(self) -> dict[str, Any]:
        """What is needed beside the weights."""
        return {
            "format": FORMAT,
            "architecture": self.architecture.to_json(),
            "weights": "variational" if self.variational else "plain",
            "classes": list(self.classes),
            "preprocessing": {
                "shape": list(self.shape),
                "mean": self.normalise.mean.flatten().tolist(),
                "std": self.normalise.std.flatten().tolist(),
            },
        }

    @classmethod
    def load(cls, folder: Path) -> "Model":
        """The model that `save` wrote."""
        settings = read_json(folder / "config.json")
        if not isinstance(settings, Mapping) or settings.get("format") != FORMAT:
            raise ArdorError(f"'{folder}' is not a model of format {FORMAT}")
        architecture = Architecture.from_json(settings.get("architecture"))
        conv = VariationalConv2d if settings.get("weights") == "variational" else nn.Conv2d
        net = space_of(architecture).build(architecture, conv=conv)
        tensors, _ = load_tensors(folder / "model.safetensors")
        try:
            normalise = Normalise(tensors["normalise.mean"], tensors["normalise.std"])
            model = cls(net, normalise, architecture, tuple(settings["classes"]))
            model.load_state_dict(tensors)
        except (KeyError, RuntimeError) as error:
            raise ArdorError(
                f"weights in '{folder}' do not fit its config.json: {str(error).splitlines()[0]}",
                "both files must come from the same run",
            ) from error
        return model.eval()


def without_auxiliary(architecture: Architecture) -> Architecture:
    """The same network as it is deployed: an auxiliary head only helps to train."""
    space = replace(space_of(architecture), auxiliary=False)
    return space.architecture(dict(architecture.kept))
