"""Random cells, to be drawn and reported."""

import random

from ardor.architecture import Architecture, Choice, Family, Place
from ardor.layers.operations import families_of
from ardor.spaces.cells import Cells

OPS = (
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "conv_7x1_1x7",
)
CELLS = {
    name: Place(name, kind, title, shrinks=kind == "reduce", joins=True)
    for name, kind, title in (
        ("", "", "cell"),
        ("normal", "normal", "normal cell"),
        ("reduce", "reduce", "reduction cell"),
        ("normal3", "normal", "normal cell 3"),
    )
}


def link(
    place: Place, source: int, target: int, options: tuple[str, ...] = OPS, *families: Family
) -> Choice:
    """An operation between two nodes, under the name that the space of cells gives it."""
    name = f"{place.name}/{source}>{target}" if place.name else f"{source}>{target}"
    said = families or families_of(options)
    return Choice(name, "op", options, 1, place, source, target, said)


def softmaxed(rng: random.Random, options: tuple[str, ...] = OPS) -> dict[str, float]:
    weights = {option: rng.random() ** 4 for option in options}
    return {option: weight / sum(weights.values()) for option, weight in weights.items()}


def random_cells(
    seed: int, states: int, most: int = 1
) -> tuple[Architecture, tuple[Choice, ...], dict[str, dict[str, float]]]:
    """Two cells, their choices and how likely each option is.

    Each state has one to all possible inputs, each up to `most` operations.
    """
    rng = random.Random(seed)
    kept = {}
    for place in ("normal", "reduce"):
        for target in range(2, 2 + states):
            inputs = rng.sample(range(target), rng.randint(1, target))
            for source in range(target):
                chosen = rng.sample(OPS, rng.randint(1, most)) if source in inputs else []
                kept[f"{place}/{source}>{target}"] = tuple(chosen)
    choices = Cells(states=states, ops=",".join(OPS)).choices
    return Architecture.of("cells", {"cells": 8}, kept), choices, {c: softmaxed(rng) for c in kept}
