"""Networks beside the trained one that predict together with it, as their search has left them."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from ardor.architecture import Architecture
from ardor.data import Images
from ardor.models.model import Model
from ardor.runtime.device import Runtime
from ardor.settings.sections import TrainConfig
from ardor.training.start import has_statistics, normalise_of, recalibrate_, take_
from ardor.training.train import new_network, split_validation


def as_found(
    architecture: Architecture,
    images: Images,
    classes: tuple[str, ...],
    config: TrainConfig,
    searched: Mapping[str, Tensor],
    *,
    run: Path,
    runtime: Runtime,
) -> Model:
    """A network with the weights of its search alone: what `train` gives without any epochs."""
    learned_from = split_validation(images, config, runtime.seed)[0]
    normalise = normalise_of(learned_from, searched).to(runtime.device)
    net = runtime.place(new_network(architecture, config))
    take_(net, architecture, searched, run)
    if not has_statistics(searched):
        recalibrate_(net, learned_from, normalise, runtime)
    return Model(net, normalise, architecture, classes).cpu().eval()
