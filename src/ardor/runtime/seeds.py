"""The states of all random generators, saved and restored."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def random_states() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Every random state, as tensors and as JSON."""
    tensors = {"torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["cuda"] = torch.cuda.get_rng_state()
    kind, keys, *rest = np.random.get_state()
    tensors["numpy"] = torch.from_numpy(np.asarray(keys, dtype=np.int64))
    version, words, gauss = random.getstate()
    tensors["python"] = torch.tensor(words)
    return tensors, {"numpy": [kind, *rest], "python": [version, gauss]}


def restore_random_states(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Puts every random state back to what `random_states` saw."""
    torch.set_rng_state(tensors["torch"])
    if "cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["cuda"])
    kind, *rest = facts["numpy"]
    if type(rest[0]) is not int or not 0 <= rest[0] <= len(tensors["numpy"]):
        raise ValueError(f"{rest[0]!r} is no place in the random numbers")  # numpy does not check
    np.random.set_state((kind, tensors["numpy"].numpy().astype(np.uint32), *rest))
    version, gauss = facts["python"]
    if not isinstance(gauss, float | None):
        raise TypeError(f"{gauss!r} is no state of the random numbers")
    random.setstate((version, tuple(tensors["python"].tolist()), gauss))
