"""The objective: the likelihood of a batch, and penalties divided by the number of images."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ardor.bayes import Gates
from ardor.bayes.divergences import distillation, softened
from ardor.data import Images
from ardor.runtime.device import Runtime
from ardor.spaces import Net
from ardor.training.accumulate import in_micro_batches


@dataclass(frozen=True)
class Batch:
    """Normalised images with their labels, and how many images the data set has in all."""

    images: Tensor
    # A class for each image, or the share of each class, (images, classes); with a teacher both
    # those of the labels and the teacher's, (images, 2, classes).
    labels: Tensor
    dataset_size: int
    temperature: float = 1.0  # of the teacher

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
    """The nll of each head, and the accuracy of the first; at once or in micro-batches.

    With a teacher also what sets the first head apart from it, and the same in the auxiliary term.
    """

    def terms_of(images: Tensor, labels: Tensor, gates: Gates) -> dict[str, Tensor]:
        main, *auxiliary = net.heads(images, gates)
        terms = of_head(main, labels, smoothing, batch.temperature)
        for head in auxiliary:
            own = of_head(head, labels, smoothing, batch.temperature)
            terms["auxiliary"] = auxiliary_weight * torch.stack([*own.values()]).sum()
        return {**terms, "accuracy": (main.argmax(1) == truth(labels)).float().mean()}

    if micro_batches == 1:
        return terms_of(batch.images, batch.labels, gates)
    return in_micro_batches(
        terms_of, batch.images, batch.labels, gates, list(net.parameters()), micro_batches
    )


def of_head(
    logits: Tensor, labels: Tensor, smoothing: float, temperature: float
) -> dict[str, Tensor]:
    """The nll of the labels and, with a teacher, the divergence from it: means over all images."""
    if labels.dim() < 3:
        return {"nll": F.cross_entropy(logits, labels, label_smoothing=smoothing)}
    own, taught = labels.unbind(1)
    # The smoothing of an image weighs as much as its label: nothing, where it has none.
    smooth = own.lerp(own.mean(1, keepdim=True).expand_as(own), smoothing)
    return {
        "nll": -(smooth * logits.log_softmax(1)).sum(1).mean(),
        "teacher": distillation(logits, taught, temperature).mean(),
    }


def targets_of(images: Images) -> Tensor:
    """What a batch is to learn of each image, as `Batch.labels` has it.

    Every image weighs one. Of an image with a label the teacher has its share; where there is no
    label, its answer stands for that and is all there is to learn.
    """
    if images.taught is None:
        return images.labels
    labelled, classes = images.labels >= 0, images.taught.answers.shape[1]
    share = torch.where(labelled, images.taught.share, 1.0)[:, None]
    labels = F.one_hot(images.labels.clamp_min(0), classes) * (1 - share)
    taught = share * softened(images.taught.answers, images.taught.temperature)
    return torch.stack([labels, taught], 1)


def truth(labels: Tensor) -> Tensor:
    """The class of each image, or that of the largest share; where no label is, the teacher's."""
    if labels.dim() == 3:
        own, taught = labels.unbind(1)
        labels = torch.where(own.sum(1, keepdim=True) > 0, own, taught)
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
