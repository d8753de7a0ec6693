"""Choosing by the validation accuracies of the table: by chance, and by regularised evolution.

A query is the full training of one cell, which the table answers at once. Regularised evolution
(Real et al. 2019) keeps the youngest `POPULATION` cells; the best of a few drawn from them has a
child, itself with another operation on one edge. Sizes as in NAS-Bench-201 (Dong and Yang 2020).
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from statistics import fmean, stdev
from typing import Any

import numpy as np

from ardor.bench.nasbench201.truth import SECONDS, Truth
from ardor.layers.operations import ZERO

POPULATION, TOURNAMENT = 10, 3
QUERIES = (1, 10, 100, 1000)
SEEDS = 100

Search = Callable[[Truth, np.random.Generator], Iterator[int]]


def chance(truth: Truth, random: np.random.Generator) -> Iterator[int]:
    """Rows drawn uniformly, without end."""
    while True:
        yield int(random.integers(len(truth.cells)))


def connected(truth: Truth, random: np.random.Generator) -> Iterator[int]:
    """Uniform rows without an empty edge: VINNAS and similar methods cannot choose one either."""
    return (row for row in chance(truth, random) if ZERO not in truth.operations[row])


def evolution(truth: Truth, random: np.random.Generator) -> Iterator[int]:
    """Rows as regularised evolution asks for them, without end."""
    known = sorted(set(truth.operations[0]).union(*truth.operations))
    alive: deque[int] = deque(islice(chance(truth, random), POPULATION), POPULATION)
    yield from tuple(alive)
    while True:
        drawn = random.choice(np.array(alive), TOURNAMENT, replace=False)
        parent = truth.operations[max(drawn, key=truth.validation.__getitem__)]
        alive.append(truth.by_operations[mutated(parent, known, random)])  # the oldest dies
        yield alive[-1]


def mutated(
    parent: tuple[str, ...], operations: list[str], random: np.random.Generator
) -> tuple[str, ...]:
    """The parent with another operation on one edge."""
    edge = int(random.integers(len(parent)))
    others = [operation for operation in operations if operation != parent[edge]]
    child = others[int(random.integers(len(others)))]
    return (*parent[:edge], child, *parent[edge + 1 :])


SEARCHES: dict[str, Search] = {
    "random search": chance,
    "random search without none": connected,
    "regularised evolution": evolution,
}


def best_of(truth: Truth, search: Search, seed: int, queries: tuple[int, ...]) -> list[int]:
    """The row that is best on validation images after each of these numbers of queries."""
    rows = list(islice(search(truth, np.random.default_rng(seed)), max(queries)))
    return [max(rows[:count], key=truth.validation.__getitem__) for count in queries]


def table(truth: Truth) -> list[dict[str, Any]]:
    """Test accuracy of what is chosen after so many queries, over many seeds."""
    rows = []
    for name, search in SEARCHES.items():
        chosen = [best_of(truth, search, seed, QUERIES) for seed in range(SEEDS)]
        for queries, found in zip(QUERIES, zip(*chosen, strict=True), strict=True):
            accuracies = truth.test[list(found)].tolist()
            rows.append(
                {
                    "method": name,
                    "queries": queries,
                    "seeds": SEEDS,
                    "test_accuracy": fmean(accuracies),
                    "test_accuracy_std": stdev(accuracies),
                    "test_accuracy_worst": min(accuracies),
                    "test_accuracy_best": max(accuracies),
                }
            )
    return rows


def seconds_a_query(truth: Truth) -> float:
    """The mean time of one query on the GPU that made the table."""
    return float(truth.numbers(SECONDS).mean())
