"""The scores of a network on images: accuracy, likelihood, calibration."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics.functional.classification import multiclass_calibration_error

from ardor.bayes import Gates
from ardor.data import Images, Normalise
from ardor.runtime.device import Runtime
from ardor.spaces import Net

EVALUATION_BATCH = 250
CALIBRATION_BINS = 15


def batch_count(images: int, batch: int = EVALUATION_BATCH) -> int:
    """In how many batches so many images are evaluated."""
    return max(1, -(-images // batch))


@torch.no_grad()
def logits_of(
    net: Net,
    images: Images,
    normalise: Normalise,
    runtime: Runtime,
    gates: Gates | None = None,
    *,
    batch: int = EVALUATION_BATCH,
) -> Tensor:
    """The logits of all images, on the CPU, in batches of nearly one size."""
    was_training = net.training
    if was_training:  # going through all modules takes time
        net.eval()
    if gates is not None:
        gates = {name: gate.detach().to(runtime.device) for name, gate in gates.items()}
    outputs = [
        net(normalise(runtime.images(pixels)), gates).cpu()
        for pixels in images.pixels.tensor_split(batch_count(len(images), batch))
    ]
    if was_training:
        net.train()
    return torch.cat(outputs)


def scores(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy, and the quality of the probabilities: nll, Brier score, calibration error."""
    p = logits.softmax(1)
    truth = F.one_hot(labels, p.shape[1])
    ece = multiclass_calibration_error(p, labels, num_classes=p.shape[1], n_bins=CALIBRATION_BINS)
    return {
        "accuracy": (p.argmax(1) == labels).float().mean().item(),
        "nll": F.cross_entropy(logits, labels).item(),
        "brier": (p - truth).square().sum(1).mean().item(),
        "ece": ece.item(),
    }
