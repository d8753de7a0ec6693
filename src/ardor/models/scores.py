"""What a network does and what it costs: likelihood, calibration, parameters, multiply-adds."""

import copy
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from torchmetrics.functional.classification import multiclass_calibration_error

from ardor.bayes.divergences import Gates
from ardor.data import Images, Normalise
from ardor.runtime.device import Runtime
from ardor.spaces import Net

EVALUATION_BATCH = 250
CALIBRATION_BINS = 15


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
    net.eval()
    if gates is not None:
        gates = {name: gate.detach().to(runtime.device) for name, gate in gates.items()}
    chunks = max(1, -(-len(images) // batch))
    outputs = [
        net(normalise(runtime.images(pixels)), gates).cpu()
        for pixels in images.pixels.tensor_split(chunks)
    ]
    net.train(was_training)
    return torch.cat(outputs)


def scores(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy, and how good the probabilities are: nll, Brier score, calibration error."""
    p = logits.softmax(1)
    truth = F.one_hot(labels, p.shape[1])
    ece = multiclass_calibration_error(p, labels, num_classes=p.shape[1], n_bins=CALIBRATION_BINS)
    return {
        "accuracy": (p.argmax(1) == labels).float().mean().item(),
        "nll": F.cross_entropy(logits, labels).item(),
        "brier": (p - truth).square().sum(1).mean().item(),
        "ece": ece.item(),
    }


def parameters(net: nn.Module) -> int:
    """Parameters of the network; an auxiliary head leaves with the training, and is not counted."""
    return sum(p.numel() for p in deployed(net).values())


def nonzero_parameters(net: nn.Module) -> int:
    """Parameters that are not zero."""
    return sum(int(p.count_nonzero()) for p in deployed(net).values())


def deployed(net: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that a prediction uses: no auxiliary head, no variances."""
    return {
        name: parameter
        for name, parameter in net.named_parameters()
        if not name.startswith("auxiliary.") and not name.endswith("log_var")
    }


def dense_bytes(net: nn.Module) -> int:
    """The size of a safetensors file of the network."""
    return len(to_bytes({name: t.contiguous() for name, t in net.state_dict().items()}))


def sparse_bytes(net: nn.Module) -> int:
    """The size of the network stored sparsely, deflated.

    For each tensor a bit for every entry, 1 where it is not zero; then those entries in float32.
    """
    content = b""
    for tensor in net.state_dict().values():
        entries = tensor.cpu().float().numpy().ravel()
        content += np.packbits(entries != 0).tobytes() + entries[entries != 0].tobytes()
    return len(zlib.compress(content, 9))


def multiply_adds(net: Net, shape: tuple[int, int, int]) -> int:
    """Multiply-adds of convolutions and matrix products for one image."""
    # On the meta device nothing is computed, and nothing goes to native code, which is not counted.
    double = copy.deepcopy(net).to("meta").eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        double(torch.zeros(1, *shape, device="meta"))
    return int(counter.get_total_flops()) // 2
