"""A guard of search quality: textures that only one candidate can tell apart, for every method.

Rows of one class repeat after three pixels, those of the other are noise. A patch of three by three
pixels looks alike in both, so that the stem, skip connections and average pools see no difference;
a convolution on top of the stem does.
"""

from pathlib import Path

import pytest
import torch

from ardor import methods
from ardor.data import Images
from ardor.methods.random import Random
from ardor.runtime.device import Runtime
from ardor.searching.loop import search
from ardor.searching.result import SearchResult
from ardor.settings.merge import resolve
from ardor.spaces.cells import Cells

USEFUL = "sep_conv_5x5"
USELESS = ("none", "skip_connect", "avg_pool_3x3")
SPACE = Cells(
    image=(1, 8, 8),
    classes=2,
    layout="N",
    states=1,
    inputs=1,
    channels=8,
    stem=1,
    ops=",".join((*USELESS, USEFUL)),
)
# Short and steep: the methods keep their own ways, not their own rates.
STEEP = {"optimiser": "adam", "rate": 0.02, "gate_rate": 0.05, "warmup": 0.25}
SEARCHING = [name for name in methods.names() if name != "random"]


def textures(count: int = 192) -> Images:
    """Half of them periodic along the rows, half of them noise."""
    labels = torch.arange(count) % 2
    noise = torch.randint(0, 2, (count, 1, 8, 8))
    periodic = noise[..., [0, 1, 2, 0, 1, 2, 0, 1]]
    pixels = torch.where(labels[:, None, None, None] == 1, periodic, noise)
    return Images((255 * pixels).to(torch.uint8), labels)


def find(name: str, run: Path) -> SearchResult:
    own = {"search": dict(methods.find(name).search)}
    tiny = {"search": {"epochs": 8, "batch": 32, "augment": [], **STEEP}}
    images, runtime = textures(), Runtime.start("cpu", 0)
    method = methods.make(name, SPACE, {})
    return search(SPACE, method, images, resolve(own, tiny).search, run=run, runtime=runtime)


def keeps_the_useful(options: dict[str, tuple[str, ...]]) -> bool:
    return any(USEFUL in kept for kept in options.values())


@pytest.mark.parametrize("name", SEARCHING)
def test_a_search_keeps_the_operation_that_tells_the_classes_apart(
    name: str, tmp_path: Path
) -> None:
    found = find(name, tmp_path)
    assert keeps_the_useful(found.architecture.options), found.probabilities


def test_chance_keeps_it_as_often_as_chance_does() -> None:
    draws = Random(SPACE).draw(3000)
    often = sum(keeps_the_useful(drawn.options) for drawn in draws) / len(draws)
    assert often == pytest.approx(1 / 3, abs=0.035)  # four standard errors; zero is never kept
