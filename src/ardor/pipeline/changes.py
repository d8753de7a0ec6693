"""Changes of a run that has begun: settings of a later stage, and the place of its images."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ardor import data, spaces
from ardor.errors import ArdorError
from ardor.pipeline.resolve import check_ensemble, check_epochs, check_formats, check_start
from ardor.pipeline.run import Run
from ardor.runtime.device import find_device
from ardor.settings.merge import resolve

# Stage -> sections that may change before it begins: earlier stages have used the others.
CHANGEABLE = {
    "train": ("train", "teacher", "network", "device"),
    "prune": ("prune",),
    "export": ("export",),
}


def moved(run: Run, place: Path | None) -> Run:
    """The run with its images in another place; an ArdorError if those are other images."""
    if place is not None:
        if not place.exists():
            raise data.Missing(f"no such file or folder: '{place}'", "name where they are now")
        with run.held():
            run.place = os.path.abspath(place)
            _ = run.images  # reads and checks them
            run.write_config()
    return run


def changed(run: Run, stage: str, *layers: Mapping[str, Any]) -> Run:
    """The run with other settings for a stage to come; a trained network is never replaced."""
    check_pruned_by_itself(run, stage)
    if stage == "train" and run.done("train"):
        raise ArdorError(
            f"'{run.folder}' is trained already, and is left as it is",
            "search again into a new folder to train otherwise",
        )
    if not layers:
        check_epochs(run.config, (stage,))
        return run
    new = replace(run, config=resolve(run.config.model_dump(), *layers))
    check_changeable(run, stage, layers)
    check_able(new, stage)
    if stage == "prune":
        new.drop_checkpoints("tune")
    return new


def check_pruned_by_itself(run: Run, stage: str) -> None:
    """An ArdorError where a run makes its network smaller in its own way, and has begun with it."""
    if "compress" in run.stages and stage in ("train", "prune"):
        begun = run.done("compress")
        raise ArdorError(
            f"'{run.folder}' makes a network smaller already: 'ardor {stage}' is of other runs",
            f"make it smaller still: ardor compress {run.folder} --data {run.config.data.source}"
            if begun
            else f"go on with it: {run.typed('resume')}",
        )


def check_changeable(run: Run, stage: str, layers: tuple[Mapping[str, Any], ...]) -> None:
    """An ArdorError where settings come too late: an earlier stage, or this one, has used them."""
    late = [key for layer in layers for key in layer if key not in CHANGEABLE[stage]]
    if late:
        raise ArdorError(
            f"'{late[0]}' cannot change any more: '{run.folder}' was made with it",
            f"'ardor {stage}' takes settings of {', '.join(CHANGEABLE[stage])}",
        )
    if run.checkpoints(stage):
        raise ArdorError(
            f"the {stage} stage of '{run.folder}' has begun with other settings",
            f"continue it as it is: {run.typed('resume')}",
        )


def check_able(run: Run, stage: str) -> None:
    """An ArdorError unless the results that a stage begins with exist and fit its settings."""
    find_device(run.config.device)
    if stage == "train":
        check_start(run.config)
        check_ensemble(run.config)
        check_epochs(run.config, (stage,))
        spaces.of(run.network).build(run.network)
        run.learned(run.network)
    elif stage == "prune":
        run.trained()
    elif stage == "export":
        check_formats(run.config)
