"""Searches that are watched: their spaces and settings, and a stage that stands still."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import torch
from standins.drifting import Drifting

from ardor.data import Images
from ardor.methods import Method
from ardor.runtime.device import Runtime
from ardor.searching.loop import SearchLoop, halves
from ardor.settings.sections import SearchConfig
from ardor.spaces import Space
from ardor.spaces.cells import Cells

SPACE = Cells(
    image=(1, 8, 8),
    classes=2,
    layout="N",
    states=4,
    channels=2,
    ops="none,sep_conv_3x3,skip_connect",
)
OPS = "none,sep_conv_3x3,max_pool_3x3,skip_connect"
SMALL = Cells(image=(1, 8, 8), classes=2, layout="N", states=1, channels=2, ops=OPS)
# Nothing is learned of the gates: what moves them is the drift.
BASE = SearchConfig(epochs=6, warmup=0.0, batch=16, augment=(), gate_rate=1e-9, shrink=0)


def make(
    images: Images,
    run: Path,
    method: Callable[[Space], Method] = Drifting,
    runtime: Runtime | None = None,
    space: Space = SPACE,
    **changes: object,
) -> SearchLoop:
    runtime = runtime or Runtime.start("cpu", 0)
    torch.manual_seed(1)
    config = BASE.model_copy(update=changes)
    return SearchLoop(space, method(space), halves(images, config, 0), config, run, runtime)


def standing(runtime: Runtime | None = None) -> SimpleNamespace:
    """A stage to look from."""
    told: list[str] = []
    return SimpleNamespace(
        facts={},
        epoch=0,
        timetable=SimpleNamespace(epochs=20),
        round_progress=0.5,
        runtime=runtime or Runtime.start("cpu", 0),
        told=told,
        tell=told.append,
    )
