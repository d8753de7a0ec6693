"""Bias and spread of the gradients that SI-VDNAS can take through its dropout switches.

A problem small enough for the truth: three operations, of which one sees the labels, one sees them
dimly and one is noise, add up to the logits of a few images. The expected loss under dropout noise
is a sum over all switches and an integral over their Gaussians; its finite differences are the true
gradient, in the rates log delta and in the weights.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ardor.bayes.draws import dropout_noise, keep_probability, switch_draw
from ardor.runtime.files import write_json
from ardor.runtime.origin import about

PROBLEMS = 3
DRAWS = 40_000
DROPS = (0.1, 0.5, 0.9)  # delta / (1 + delta) of all operations
KINDS = (
    ("gaussian", 1.0),
    ("straight-through", 1.0),
    ("concrete", 0.1),
    ("concrete", 0.5),
    ("concrete", 1.0),
)
IMAGES, CLASSES = 16, 3
POINTS = 20  # of the quadrature, in each Gaussian: within 3 % at the highest drop rate
STEP = 1e-4  # of the finite differences

Measured = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """Logits of three operations for some images, (operations, images, classes), and the labels."""

    logits: Tensor
    labels: Tensor

    @classmethod
    def of(cls, seed: int) -> "Problem":
        """One operation that knows the labels, one that knows them vaguely, and one of noise."""
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(CLASSES, (IMAGES,), generator=generator)
        noise = torch.randn(3, IMAGES, CLASSES, generator=generator, dtype=torch.double)
        right = F.one_hot(labels, CLASSES).double()
        return cls(torch.stack([2 * right, right, 0 * right]) + noise, labels)

    def loss(self, gates: Tensor) -> Tensor:
        """The nll of an image under gates, (..., operations)."""
        mixed = torch.einsum("...k,knc->...nc", gates, self.logits)
        right = mixed.log_softmax(-1)[..., torch.arange(IMAGES), self.labels]
        return -right.mean(-1)

    def expected(self, log_delta: Tensor, weight: Tensor) -> Tensor:
        """E loss(weight xi), by all switches and the quadrature of Gauss and Hermite."""
        nodes, shares = np.polynomial.hermite_e.hermegauss(POINTS)
        e = torch.tensor(list(product(nodes, repeat=3)))
        share = torch.tensor(list(product(shares / shares.sum(), repeat=3))).prod(-1)
        keep, total = keep_probability(log_delta), torch.zeros((), dtype=torch.double)
        for psi in torch.tensor(list(product((0.0, 1.0), repeat=3))).double():
            noise = psi * (1 + (0.5 * log_delta).exp() * e)
            chance = torch.where(psi > 0, keep, 1 - keep).prod()
            total = total + chance * (share * self.loss(weight * noise)).sum()
        return total

    def true_gradients(self, log_delta: Tensor, weight: Tensor) -> dict[str, Tensor]:
        """Of the expected loss, by central differences."""
        steps = STEP * torch.eye(3, dtype=torch.double)
        in_rates = [self.expected(log_delta + s, weight) for s in (*steps, *-steps)]
        in_weights = [self.expected(log_delta, weight + s) for s in (*steps, *-steps)]
        both = {"rates": torch.stack(in_rates), "weights": torch.stack(in_weights)}
        return {name: (e[:3] - e[3:]) / (2 * STEP) for name, e in both.items()}

    def drawn_gradients(
        self, log_delta: Tensor, weight: Tensor, gradient: str, temperature: float, count: int
    ) -> dict[str, Tensor]:
        """Of the loss under one draw each, (draws, operations)."""
        rates, weights = (p.expand(count, 3).clone().requires_grad_() for p in (log_delta, weight))
        on = switch_draw(rates, gradient, temperature)
        loss = self.loss(weights * dropout_noise(on, rates)).sum()
        found = torch.autograd.grad(loss, (rates, weights))
        return dict(zip(("rates", "weights"), found, strict=True))


def compared(drawn: Tensor, true: Tensor) -> Measured:
    """Bias and its standard error, spread of one draw, and cosine; the first three over |true|."""
    mean, size = drawn.mean(0), true.norm()
    spread = drawn.var(0).sum().sqrt()
    return {
        "bias": ((mean - true).norm() / size).item(),
        "bias_error": (spread / len(drawn) ** 0.5 / size).item(),
        "spread": (spread / size).item(),
        "cosine": F.cosine_similarity(mean, true, dim=0).item(),
        "true": true.tolist(),
        "mean": mean.tolist(),
    }


def measured(seed: int, draws: int) -> Iterator[Measured]:
    """The measures of each kind of gradient, for a problem at every drop rate."""
    problem = Problem.of(seed)
    weight = torch.ones(3, dtype=torch.double)
    for drop in DROPS:
        log_delta = torch.full_like(weight, drop / (1 - drop)).log()
        true = problem.true_gradients(log_delta, weight)
        for kind in KINDS:
            torch.manual_seed(seed)
            drawn = problem.drawn_gradients(log_delta, weight, *kind, draws)
            both = {name: compared(drawn[name], true[name]) for name in true}
            yield {"method": name_of(*kind), "drop": drop, **both}


def name_of(gradient: str, temperature: float) -> str:
    """The name of a kind of gradient, with the temperature of concrete ones."""
    return f"{gradient} {temperature:g}" if gradient == "concrete" else gradient


def gradients(
    folder: Path,
    problems: int = PROBLEMS,
    *,
    command: str,
    say: Callable[[str], None],
    draws: int = DRAWS,
) -> Measured:
    """Measures all kinds of gradients; a row for each, the mean over problems."""
    runs = []
    for seed in range(problems):
        say(f"problem {seed + 1} of {problems} ...")
        runs.append({"seed": seed, "rows": list(measured(seed, draws))})
    alike = zip(*(run["rows"] for run in runs), strict=True)
    result = {
        **about(command),
        "bench": "gradients",
        "measure": "gradients",
        "draws": draws,
        "settings": {"draws": draws, "problems": problems},
        "table": [row_of(rows) for rows in alike],
        "runs": runs,
    }
    write_json(folder / "results.json", result)
    return result


def row_of(rows: Sequence[Mapping[str, Any]]) -> Measured:
    """The mean over problems of one kind of gradient at one drop rate."""
    row = {"method": rows[0]["method"], "seeds": len(rows), "drop": rows[0]["drop"]}
    for name in ("rates", "weights"):
        for quantity in ("bias", "bias_error", "spread", "cosine"):
            row[f"{name}_{quantity}"] = fmean(each[name][quantity] for each in rows)
    return row
