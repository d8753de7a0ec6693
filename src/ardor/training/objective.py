"""The objective: the likelihood of a batch, and penalties divided by the number of images."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ardor.bayes import Gates
from ardor.runtime.device import Runtime
from ardor.spaces import Net
from ardor.training.accumulate import in_micro_batches


@dataclass(frozen=True)
class Batch:
    """Normalised images with their labels, and how many images the data set has in all."""

    images: Tensor
    labels: Tensor  # a class for each image, or the share of each class, (images, classes)
    dataset_size: int

    @classmethod
    def zeros(cls, images: int, like: Tensor, runtime: Runtime) -> "Batch":
        """A batch of black images, to measure memory."""
        pixels = runtime.images(torch.zeros(images, *like.shape[1:]))
        return cls(pixels, torch.zeros(images, dtype=torch.long, device=runtime.device), images)


@dataclass(frozen=True)
class Loss:
    """The objective of one batch in nats per image, with its terms."""

    total: Tensor
    terms: Mapping[str, float]


def likelihood(
    net: Net,
    batch: Batch,
    gates: Gates,
    *,
    smoothing: float,
    auxiliary_weight: float = 0.0,
    micro_batches: int = 1,
) -> Mapping[str, Tensor]:
    """The nll of each head, and the accuracy of the first; at once or in micro-batches."""

    def terms_of(images: Tensor, labels: Tensor, gates: Gates) -> dict[str, Tensor]:
        main, *auxiliary = net.heads(images, gates)
        terms = {"nll": F.cross_entropy(main, labels, label_smoothing=smoothing)}
        for head in auxiliary:
            nll = F.cross_entropy(head, labels, label_smoothing=smoothing)
            terms["auxiliary"] = auxiliary_weight * nll
        return {**terms, "accuracy": (main.argmax(1) == truth(labels)).float().mean()}

    if micro_batches == 1:
        return terms_of(batch.images, batch.labels, gates)
    return in_micro_batches(
        terms_of, batch.images, batch.labels, gates, list(net.parameters()), micro_batches
    )


def truth(labels: Tensor) -> Tensor:
    """The class of each image, or the one with the largest share."""
    return labels if labels.dim() == 1 else labels.argmax(1)


def objective(
    fit: Mapping[str, Tensor], penalty: Mapping[str, Tensor], *, dataset_size: int
) -> Loss:
    """nll + sum of the penalty terms / images: the one place where the KL is divided."""
    terms = {name: term for name, term in fit.items() if name != "accuracy"}
    terms |= {name: term.to(fit["nll"].device) / dataset_size for name, term in penalty.items()}
    total = torch.stack(list(terms.values())).sum()
    facts = {name: term.item() for name, term in terms.items()}
    return Loss(total, {"loss": total.item(), **facts, "accuracy": fit["accuracy"].item()})


def to_device(gates: Mapping[str, Tensor], device: torch.device) -> Mapping[str, Tensor]:
    """The gates, or other tensors by name, where the net is."""
    return {name: gate.to(device) for name, gate in gates.items()}
