"""A teacher in a run: its files, its answers to all images, and how often the network agrees."""

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ardor import data
from ardor.data import Dataset, Images, Taught
from ardor.errors import ArdorError
from ardor.models.teacher import LARGEST
from ardor.pipeline.asking import Again, Asking, homes, note
from ardor.runtime.cost import timed
from ardor.runtime.device import Runtime
from ardor.runtime.files import read_bytes, read_json, write_json
from ardor.runtime.progress import Progress
from ardor.settings.sections import DataConfig, TeacherConfig

REMEMBERED = "teacher.json"  # in a run: which files they were, should they be gone one day
SURE = 2.0  # standard errors above chance, from which a teacher knows something


def with_unlabelled(images: Dataset, config: DataConfig, teacher: TeacherConfig) -> Dataset:
    """The images with those that have no labels, where there are to be any."""
    for name in ("classes", "unlabelled"):
        if getattr(teacher, name) and not teacher.model:
            raise ArdorError(
                f"teacher.{name} = '{getattr(teacher, name)}' needs a teacher",
                "give one: --teacher FILE, an ONNX classifier",
            )
    return data.with_unlabelled(
        images, teacher.unlabelled, skip_broken=config.skip_broken, memory=config.memory
    )


def files_of(config: TeacherConfig) -> dict[str, str]:
    """The settings that are places, without those that are not given."""
    names = ("model", "classes", "unlabelled")
    return {name: getattr(config, name) for name in names if getattr(config, name)}


def check(config: TeacherConfig, images: Dataset) -> None:
    """An ArdorError unless there is no teacher, or one that can answer of these images."""
    if config.model:
        some = images.train[torch.arange(min(2, len(images.train)))]
        Asking(config, images.classes, Runtime()).look(some)


def seconds(config: TeacherConfig, images: Dataset) -> float:
    """How long a teacher takes to look at all images, by its time for a few; 0 without one."""
    if not config.model:
        return 0.0
    teacher = Asking(config, images.classes, Runtime()).teacher
    some, way = next(teacher.parts(images.train.pixels)), teacher.scalings(config.input)[0]
    parts = (images.train, images.test, images.unlabelled)
    count = sum(len(part) for part in parts if part is not None)
    return timed(lambda: teacher.outputs(some, way)) * count / len(some)


def taught(
    images: Dataset,
    config: TeacherConfig,
    place: str,
    folder: Path,
    runtime: Runtime,
    again: Again | None = None,
) -> Dataset:
    """The images with the teacher's answers, from where they are kept, or asked for now.

    `place` is where the images are, "" if nowhere; `folder` is that of the run. Images that were
    made smaller are read `again` for a teacher that takes larger ones.
    """
    if not config.model:
        return images
    files = remembered(config, folder)
    asking = Asking(config, images.classes, runtime, again)
    facts = {**files, "names": list(images.classes), "input": config.input}
    labelled = {"train": images.train, "test": images.test}
    found, look = asking.answers(labelled, facts, homes(place, folder))
    if images.unlabelled is not None:
        more = {"unlabelled": images.unlabelled}
        facts, asking.found = {**facts, **look}, look
        found |= asking.answers(more, facts, homes(config.unlabelled, folder))[0]
    write_json(folder / REMEMBERED, {"of": files_of(config), **files})
    return given(images, config, found)


def unasked(images: Dataset, config: TeacherConfig) -> Dataset:
    """The images with a teacher that knows nothing: to time steps by."""
    if not config.model:
        return images
    parts = {"train": images.train, "test": images.test, "unlabelled": images.unlabelled}
    count = len(images.classes)
    blank = {name: torch.zeros(len(part), count) for name, part in parts.items() if part}
    return given(images, config, {name: rows.log_softmax(1) for name, rows in blank.items()})


def given(images: Dataset, config: TeacherConfig, answers: Mapping[str, Tensor]) -> Dataset:
    """The images with these answers, by the names of their parts."""
    changed = {
        name: replace(getattr(images, name), taught=Taught(rows, config.temperature, config.share))
        for name, rows in answers.items()
    }
    return replace(images, **changed)


def remembered(config: TeacherConfig, folder: Path) -> dict[str, str]:
    """Hashes of the teacher's files; those of last time, where the files are gone.

    An ArdorError where a file has changed since: a run that goes on would learn something else.
    """
    path = folder / REMEMBERED
    before = read_json(path) if path.exists() else {}
    same = isinstance(before, dict) and before.get("of") == files_of(config)
    hashes = {}
    for name in ("model", "classes"):
        known = str(before.get(name, "")) if same else ""
        hashes[name] = hash_of(getattr(config, name)) or known
        if known not in ("", hashes[name]):
            raise ArdorError(
                f"teacher.{name} = '{getattr(config, name)}' has changed since the run asked it",
                "put back what was there, or begin a new run",
            )
    return hashes


def hash_of(file: str) -> str:
    """The hash of a file; "" where there is none."""
    with suppress(OSError):
        return hashlib.sha256(read_bytes(Path(os.path.expanduser(file)), LARGEST)).hexdigest()
    return ""


def told(train: Images, report: Callable[[Progress], None]) -> dict[str, float]:
    """Says how often the teacher is right on training images; a warning where it knows nothing."""
    if train.taught is None:
        return {}
    right = share_right(train.taught.answers, train.labels)
    said = f"right for {right:.1%} of {len(train):,} labelled training images"
    chance = 1 / train.taught.answers.shape[1]
    if right < chance + SURE * (chance * (1 - chance) / len(train)) ** 0.5:
        said = (
            f"warning: {said}, no more than chance, {chance:.1%}; is teacher.input wrong, or the "
            "order of the classes? --teacher-classes FILE says which output is which"
        )
    report(note(said))
    return {"teacher_training_accuracy": right}


def agreement(logits: Tensor, images: Images) -> dict[str, float]:
    """How often the network says what its teacher says, and how often that is right."""
    if images.taught is None or not len(images):
        return {}
    theirs = images.taught.answers.argmax(1)
    return {
        "teacher_agreement": share_right(logits, theirs),
        "teacher_accuracy": share_right(images.taught.answers, images.labels),
    }


def share_right(logits: Tensor, labels: Tensor) -> float:
    """The share of rows whose largest entry is that of their label."""
    return int((logits.argmax(1) == labels).sum()) / len(labels)
