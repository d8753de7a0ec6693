"""Random images and labels as arrays, and how a source of them is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ardor.data import load
from ardor.errors import ArdorError

RNG = np.random.default_rng(0)


def pixels(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def labels(count: int, classes: int = 10) -> np.ndarray[Any, Any]:
    return (np.arange(count) % classes).astype(np.uint8)


class Poison:
    """A pickle of it calls what it is made of."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.recipe = call, arguments

    def __reduce__(self) -> Any:
        return self.recipe


def refused(source: object, match: str, **settings: Any) -> ArdorError:
    with pytest.raises(ArdorError, match=match) as caught:
        load(str(source), **settings)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    return caught.value
