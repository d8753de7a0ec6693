"""An exporter, and the proof that what it wrote computes the same as the network."""

import contextlib
import io
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

import torch
from torch import Tensor

from ardor.data.decode import told
from ardor.errors import ArdorError
from ardor.layers.operations import Noise
from ardor.models.model import Model

Files = Mapping[str, bytes]  # name -> content


class Exporter(ABC):
    """Writes a network in one format, and computes with what it wrote."""

    file: ClassVar[str]  # the one to open; others may lie beside it
    tolerance: ClassVar[float]  # of the largest logit, or of 1 where all are smaller

    @abstractmethod
    def write(self, model: Model) -> Files:
        """The files of a network, which takes pixels in 0..255 and gives logits."""

    @abstractmethod
    def run(self, files: Files, pixels: Tensor) -> Tensor:
        """The logits of float images, computed by the files alone."""

    def latencies(self, versions: Sequence[Files], shape: tuple[int, int, int]) -> list[float]:
        """Milliseconds for one image, of each version; empty where nothing tells them."""
        return []


@dataclass(frozen=True)
class Export:
    """A network in one format, and how far its logits are from the network's own."""

    name: str
    exporter: Exporter
    files: Files
    difference: float
    allowed: float

    def to_json(self) -> dict[str, Any]:
        """Its row in the table of what was exported."""
        return {
            "file": self.exporter.file,
            "bytes": sum(map(len, self.files.values())),
            "largest_difference": self.difference,
            "tolerance": self.allowed,
        }


def checked(name: str, exporter: Exporter, model: Model, pixels: Tensor) -> Export:
    """The network in a format; an ArdorError unless its files compute the same on these images."""
    if any(isinstance(module, Noise) for module in model.modules()):
        raise ArdorError(
            "the network draws noise, which no exported file can repeat",
            "go on without: ardor evaluate RUN, then ardor report RUN",
        )
    model = model.cpu().eval()
    files = exporter.write(model)
    difference, largest = largest_difference(model, exporter, files, pixels)
    allowed = exporter.tolerance * max(1.0, largest)
    if not difference < allowed:
        raise ArdorError(
            f"the network as {name} differs from the trained one by {difference:.2g}; "
            f"it must be less than {allowed:.2g}",
            "nothing was written; please report the architecture.json of this run",
        )
    return Export(name, exporter, files, difference, allowed)


@torch.no_grad()
def largest_difference(
    model: Model, exporter: Exporter, files: Files, pixels: Tensor
) -> tuple[float, float]:
    """The largest difference of logits between a network and its files, and the largest logit."""
    pixels = pixels.float().cpu()
    ours, theirs = model(pixels), exporter.run(files, pixels)
    return float((ours - theirs).abs().max()), float(ours.abs().max())


def facts(model: Model) -> dict[str, Any]:
    """What a program needs besides the logits; nothing of the machine or the run."""
    return {
        "ardor": version("ardor"),
        "classes": list(model.classes),
        "preprocessing": told(*model.shape),
    }


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the chatter of torch's exporters off the terminal."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
