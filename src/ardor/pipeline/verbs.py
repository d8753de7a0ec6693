"""The functions `ardor.run`, `search`, `train`, `compress` and `resume`, as the commands."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ardor import discover, spaces
from ardor.errors import ArdorError
from ardor.models.model import Model
from ardor.pipeline.changes import changed
from ardor.pipeline.given import given, layers_for
from ardor.pipeline.open import give
from ardor.pipeline.resolve import difference, layered, over_usual
from ardor.pipeline.run import STAGES, Run
from ardor.pipeline.stages import do
from ardor.runtime.progress import Progress, unwatched
from ardor.settings.merge import bounded

Layer = Mapping[str, Any]
Build = Callable[..., nn.Module]  # (image, classes, **settings): a space of one's own
Watcher = Callable[[Progress], None]


def run(
    data: str | os.PathLike[str],
    *settings: Layer,
    space: str | Build | None = None,
    keep_accuracy: float = 0.0,
    max_params: int = 0,
    max_macs: int = 0,
    teacher: str | os.PathLike[str] | None = None,
    unlabelled: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    trust: Sequence[str] = (),
    on_progress: Watcher = unwatched,
) -> Run:
    """Searches, trains, prunes, exports, measures and reports on labelled images.

    `data` is a folder of images by class, a data file, or a known name such as "digits". Settings
    are mappings by section, a later one over those before it: `ardor.preset("digits")`, or
    `{"search": {"epochs": 2}}`. The network is pruned to the smallest that keeps an accuracy on the
    validation images, in percent, or to the most accurate with at most so many parameters or
    multiply-adds for an image; what is 0 is not asked for. A `teacher` is an ONNX classifier over
    the same classes, to learn from beside the labels, and of `unlabelled` images, a folder or .npz,
    alone; for its other settings give {"teacher": ...}. The folder must be a new one; without a
    name it is the first free one of runs/DATA-METHOD-N. `trust` names modules of your own that
    settings may import; a space that is given here is trusted by that.
    """
    asked = {"keep_accuracy": keep_accuracy, "max_params": max_params, "max_macs": max_macs}
    bounds = bounded({name: value for name, value in asked.items() if value})
    layers = [*settings, bounds, *_named(space), _teacher(teacher, unlabelled)]
    made = _created(data, layers, STAGES, folder, trust)
    return resume(made, on_progress=on_progress)


def search(
    space: str | Build,
    data: str | os.PathLike[str],
    *settings: Layer,
    folder: str | os.PathLike[str] | None = None,
    trust: Sequence[str] = (),
    on_progress: Watcher = unwatched,
) -> Run:
    """Searches a space only: the run has an architecture, to look at or to train.

    The space is a name, such as "cells", the dotted name of a module of your own, or a function
    `build(image, classes, **settings)` that gives a module with choices inside.
    """
    made = _created(data, [*settings, *_named(space)], ("search",), folder, trust)
    return resume(made, on_progress=on_progress)


def train(
    searched: Run | str | os.PathLike[str],
    *settings: Layer,
    on_progress: Watcher = unwatched,
) -> Model:
    """Trains what a search has found and does all later stages; returns the network."""
    begun = _opened(searched, on_progress)
    with begun.held():
        begun = changed(begun, "train", *settings)
        for stage in STAGES[STAGES.index("train") :]:
            do(begun, stage)
    return begun.model()


def compress(
    network: nn.Module | str | os.PathLike[str],
    data: str | os.PathLike[str],
    *settings: Layer,
    weights: str | os.PathLike[str] | None = None,
    prior: str = "",
    groups: Sequence[str] = (),
    keep_accuracy: float = 0.0,
    max_params: int = 0,
    max_macs: int = 0,
    times_smaller: float = 0.0,
    teacher: str | os.PathLike[str] | None = None,
    unlabelled: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    trust: Sequence[str] = (),
    on_progress: Watcher = unwatched,
) -> Run:
    """Makes a network that one has smaller; `run.model().net.module` is the smaller module.

    The network is a module, which stays as it is, the folder of a run or model, or a name: of one
    of `ardor list networks`, or of a module of your own, "lab.nets:build", with its weights in a
    safetensors file. What has no weights is trained first. It becomes as small as it is asked to
    be: to keep an accuracy on held-out images, in percent, or to have at most so many parameters or
    multiply-adds, or so many times fewer parameters; what is 0 is not asked for. If nothing is, it
    loses no more than half a percent of accuracy. `teacher` and `unlabelled` are as in `run`. A
    module's run is continued by the same call with
    its folder.
    """
    found = given(network, None if weights is None else Path(weights), trust)
    asked = {
        "prior": prior,
        "groups": tuple(groups),
        "keep_accuracy": keep_accuracy,
        "max_params": max_params,
        "max_macs": max_macs,
        "times_smaller": times_smaller,
    }
    typed = {"compress": {name: value for name, value in asked.items() if value}}
    source = {"data": {"source": os.fspath(data)}}
    layers = layers_for(found, (*settings, typed, _teacher(teacher, unlabelled), source))
    place = None if folder is None else Path(folder)
    if isinstance(network, nn.Module) and place is not None and (place / "config.json").exists():
        return resume(_made_before(network, place, layers, trust), on_progress=on_progress)
    made = Run.create(place, *layers, **found.creating, trust=trust)
    return resume(made, on_progress=on_progress)


def resume(
    begun: Run | str | os.PathLike[str],
    *,
    trust: Sequence[str] = (),
    on_progress: Watcher = unwatched,
) -> Run:
    """Does every stage of a run that is not done yet, from its newest checkpoint."""
    going = _opened(begun, on_progress, trust)
    with going.held():
        for stage in going.stages:
            if not going.done(
                stage
            ):  # checked each time, as a stage that is done anew removes later results
                do(going, stage)
    return going


def _made_before(
    module: nn.Module, folder: Path, layers: Sequence[Layer], trust: Sequence[str]
) -> Run:
    """The run that the same call has begun; an ArdorError if it was another one."""
    give(module, folder)
    run = Run.open(folder, trust)
    if apart := difference(run.config, layered(tuple(layers))):
        raise ArdorError(
            f"'{folder}' was made with {apart}", "continue it as it is, or name another folder"
        )
    return run


def _named(space: str | Build | None) -> list[Layer]:
    """The setting that names a space; whoever gives a module or function here trusts it."""
    if space is None:
        return []
    typed = space if isinstance(space, str) else discover.name_of(spaces.of_function(space))
    name = discover.module_of(typed)
    if discover.is_dotted(name):
        discover.trust([name])
    return [{"space": {"name": name}}]


def _teacher(
    model: str | os.PathLike[str] | None, unlabelled: str | os.PathLike[str] | None
) -> Layer:
    """The settings of a teacher that are given."""
    given = {"model": model, "unlabelled": unlabelled}
    found = {name: os.fspath(path) for name, path in given.items() if path is not None}
    return {"teacher": found} if found else {}


def _created(
    data: str | os.PathLike[str],
    settings: Sequence[Layer],
    stages: tuple[str, ...],
    folder: str | os.PathLike[str] | None,
    trust: Sequence[str],
) -> Run:
    """A new run on these images."""
    source = {"data": {"source": os.fspath(data)}}
    place = None if folder is None else Path(folder)
    return Run.create(place, *over_usual(*settings), source, stages=stages, trust=trust)


def _opened(run: Run | str | os.PathLike[str], watch: Watcher, trust: Sequence[str] = ()) -> Run:
    """A run, or the one in a folder, with its reports going to `watch`."""
    opened = run if isinstance(run, Run) else Run.open(Path(run), trust)
    if watch is not unwatched:
        opened.on_progress = watch
    return opened
