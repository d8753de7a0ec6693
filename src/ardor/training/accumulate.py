"""A batch computed in micro-batches, one after another: less memory, the same gradient."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ardor.bayes import Gates
from ardor.native.kernels import first_order

# Images, labels and gates of a micro-batch -> its terms, each a mean over its images.
Terms = Callable[[Tensor, Tensor, Gates], Mapping[str, Tensor]]


def micro_batches_of(accumulate: int, images: int) -> int:
    """The number of micro-batches: each has two images at least, for the statistics of a batch."""
    return max(1, min(accumulate, images // 2))


def in_micro_batches(
    terms_of: Terms,
    images: Tensor,
    labels: Tensor,
    gates: Gates,
    weights: Sequence[nn.Parameter],
    micro_batches: int,
) -> Mapping[str, Tensor]:
    """The terms of a batch under one draw of the gates; their sum has the gradient of the batch.

    The first term carries that gradient: only the sum of all may be differentiated, and once.
    """
    names: list[str] = []

    def named(*part: Any) -> list[Tensor]:
        terms = terms_of(*part)
        names[:] = terms
        return list(terms.values())

    pieces = list(
        zip(images.tensor_split(micro_batches), labels.tensor_split(micro_batches), strict=True)
    )
    values = _InMicroBatches.apply(
        named, pieces, list(gates), len(gates), *gates.values(), *weights
    )  # type: ignore[no-untyped-call]
    return dict(zip(names, values, strict=True))


class _InMicroBatches(torch.autograd.Function):
    """Runs every micro-batch forwards and backwards at once: memory holds only one at a time."""

    @staticmethod
    def forward(
        ctx: Any, terms_of: Any, pieces: Any, names: list[str], count: int, *inputs: Tensor
    ) -> Any:
        leaves = [gate.detach().requires_grad_(gate.requires_grad) for gate in inputs[:count]]
        wanted = [leaf for leaf in (*leaves, *inputs[count:]) if leaf.requires_grad]
        slopes: dict[Tensor, Tensor] = {}
        totals: list[Tensor] = []
        with torch.enable_grad():
            for share, part in _shared(pieces, dict(zip(names, leaves, strict=True))):
                terms = [share * term for term in terms_of(*part)]
                learning = [term for term in terms if term.requires_grad]
                found: Sequence[Tensor | None] = [None] * len(wanted)
                if learning:  # hard gates may have drawn no operation at all
                    loss = torch.stack(learning).sum()
                    found = torch.autograd.grad(loss, wanted, allow_unused=True)
                for leaf, slope in zip(wanted, found, strict=True):
                    if slope is not None:
                        slopes[leaf] = slopes[leaf] + slope if leaf in slopes else slope
                values = [term.detach() for term in terms]
                totals = [a + b for a, b in zip(totals, values, strict=True)] if totals else values
        ctx.slopes = [slopes.get(leaf) for leaf in (*leaves, *inputs[count:])]
        ctx.mark_non_differentiable(*totals[1:])
        return tuple(totals)

    @staticmethod
    @first_order
    def backward(ctx: Any, g: Tensor, *_: Tensor) -> Any:
        return None, None, None, None, *(None if s is None else g * s for s in ctx.slopes)


def _shared(
    pieces: Sequence[tuple[Tensor, Tensor]], gates: Gates
) -> Iterator[tuple[float, tuple[Tensor, Tensor, Gates]]]:
    """Each micro-batch with its share of the images; gates that differ by image are split."""
    total, at = sum(len(labels) for _, labels in pieces), 0
    for images, labels in pieces:
        here = slice(at, at + len(labels))
        own = {name: g[:, here] if g.shape[1] == total else g for name, g in gates.items()}
        yield len(labels) / total, (images, labels, own)
        at += len(labels)
