"""Random cells, to be drawn and reported."""

import random

from ardor.architecture import Architecture

OPS = (
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "conv_7x1_1x7",
)


def softmaxed(rng: random.Random, options: tuple[str, ...] = OPS) -> dict[str, float]:
    weights = {option: rng.random() ** 4 for option in options}
    return {option: weight / sum(weights.values()) for option, weight in weights.items()}


def random_cells(
    seed: int, states: int, most: int = 1
) -> tuple[Architecture, dict[str, dict[str, float]]]:
    """Two cells; each state has one to all possible inputs, each up to `most` operations."""
    rng = random.Random(seed)
    kept = {}
    for place in ("normal", "reduce"):
        for target in range(2, 2 + states):
            inputs = rng.sample(range(target), rng.randint(1, target))
            for source in range(target):
                chosen = rng.sample(OPS, rng.randint(1, most)) if source in inputs else []
                kept[f"{place}/{source}>{target}"] = tuple(chosen)
    return Architecture.of("cells", {"cells": 8}, kept), {c: softmaxed(rng) for c in kept}
