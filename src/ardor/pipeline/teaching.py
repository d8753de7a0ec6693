"""What a teacher says of a run's images: asked once for each, and kept beside them."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ardor import data
from ardor.data import Dataset, Images, Taught
from ardor.data.left_out import CACHE
from ardor.errors import ArdorError, Interrupted
from ardor.models.outputs import Outputs, are_probabilities, outputs_of
from ardor.models.teacher import LARGEST, Teacher
from ardor.runtime.device import Runtime
from ardor.runtime.files import read_bytes, read_json, write_json
from ardor.runtime.progress import Progress
from ardor.runtime.tensors import digest, load, save
from ardor.settings.sections import DataConfig, TeacherConfig

REMEMBERED = "teacher.json"  # in a run: which files they were, should they be gone one day
SAMPLE = 256  # images by which the way pixels are brought to a teacher is found
SURE = 2.0  # standard errors above chance, from which a teacher knows something

Parts = Mapping[str, Images]


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


def taught(
    images: Dataset, config: TeacherConfig, place: str, folder: Path, runtime: Runtime
) -> Dataset:
    """The images with the teacher's answers, from where they are kept, or asked for now.

    `place` is where the images are, "" if nowhere; `folder` is that of the run.
    """
    if not config.model:
        return images
    files = remembered(config, folder)
    asking = Asking(config, images.classes, runtime)
    facts = {**files, "names": list(images.classes), "input": config.input}
    labelled = {"train": images.train, "test": images.test}
    found, look = asking.answers(labelled, facts, homes(place, folder))
    if images.unlabelled is not None:
        more = {"unlabelled": images.unlabelled}
        facts, asking.found = {**facts, **look}, look
        found |= asking.answers(more, facts, homes(config.unlabelled, folder))[0]
    write_json(folder / REMEMBERED, files)
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
    """Hashes of the teacher's files; those of last time, where the files are gone."""
    path = folder / REMEMBERED
    before = read_json(path) if path.exists() else {}
    before = before if isinstance(before, dict) else {}
    return {name: hash_of(config, name, before) for name in ("model", "classes")}


def hash_of(config: TeacherConfig, name: str, before: Mapping[str, Any]) -> str:
    """The hash of one of them."""
    file = getattr(config, name)
    if not file:
        return ""
    with suppress(OSError):
        return hashlib.sha256(read_bytes(Path(os.path.expanduser(file)), LARGEST)).hexdigest()
    if isinstance(before.get(name), str):
        return str(before[name])
    raise ArdorError(f"no file '{file}', as teacher.{name} says", "put it back where it was")


def homes(place: str, folder: Path) -> list[Path]:
    """The folders where answers may be kept: with the images, or else in the run."""
    beside = Path(place) if os.path.isdir(place) else Path(place).parent
    return [*([beside] if place else []), folder]


class Asking:
    """Asks a teacher of images; opens it only if it must be asked."""

    def __init__(self, config: TeacherConfig, classes: Sequence[str], runtime: Runtime) -> None:
        self.config, self.classes, self.runtime = config, classes, runtime
        self.found: Mapping[str, Any] = {}  # how its input and output are to be taken

    @cached_property
    def teacher(self) -> Teacher:
        """The teacher, opened."""
        return Teacher(Path(os.path.expanduser(self.config.model)))

    def answers(
        self, parts: Parts, facts: Mapping[str, Any], homes: Sequence[Path]
    ) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
        """Log-probabilities for each part, and how input and output were taken."""
        text = json.dumps(facts, sort_keys=True)
        images = {f"{name}.pixels": part.pixels for name, part in parts.items()}
        labels = {f"{name}.labels": part.labels for name, part in parts.items()}
        key = digest(text, {**images, **labels})
        files = [home / f"{CACHE}teacher-{key[:16]}.safetensors" for home in homes]
        for file in files:
            if kept := self.kept(file, key, parts):
                return kept
        look = self.found or self.look(parts["train"])
        found = self.asked(parts, look)
        self.keep(files, found, {"key": key, "look": look})
        return found, look

    def kept(
        self, file: Path, key: str, parts: Parts
    ) -> tuple[dict[str, Tensor], Mapping[str, Any]] | None:
        """What a file has of answers to just these images; None where it has something else."""
        try:
            tensors, facts = load(file)
        except ArdorError:
            return None
        rows = {name: (len(part), len(self.classes)) for name, part in parts.items()}
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if facts.get("key") != key or shapes != rows or not isinstance(facts.get("look"), dict):
            return None
        whole = all(
            tensor.dtype == torch.float32 and bool((tensor.logsumexp(1).abs() < 1e-3).all())
            for tensor in tensors.values()
        )
        return (tensors, facts["look"]) if whole else None

    def keep(
        self, files: Sequence[Path], found: Mapping[str, Tensor], facts: Mapping[str, Any]
    ) -> None:
        """Writes answers into the first of these files that can be written."""
        *others, last = files
        for file in others:
            with suppress(ArdorError):
                save(file, found, facts)
                return
            self.tell(f"cannot write beside the images; its answers are kept in '{last.parent}'")
        save(last, found, facts)

    def look(self, train: Images) -> dict[str, Any]:
        """How its input and output are to be taken: of several ways the one that is right most.

        That is seen on some labelled images.
        """
        count = min(SAMPLE, len(train))
        some = train[torch.linspace(0, len(train) - 1, count).long()]
        right: dict[str, float] = {}
        shares: dict[str, bool] = {}
        for scaling in self.teacher.scalings(self.config.input):
            parts = self.teacher.parts(some.pixels)
            found = torch.cat([self.teacher.outputs(part, scaling) for part in parts])
            shares[scaling] = are_probabilities(found)
            answers = self.mapped(found).log_probabilities(found, shares=shares[scaling])
            right[scaling] = float((answers.argmax(1) == some.labels).float().mean())
        best = max(right, key=right.__getitem__)
        others = [f"'{name}' {share:.0%}" for name, share in right.items() if name != best]
        why = f", right for {right[best]:.0%} of {count:,} images ({', '.join(others)})"
        gives = "probabilities" if shares[best] else "logits"
        taken = f"input '{best}'{why if others else ''}; gives {gives}; its outputs are taken"
        self.tell(f"{self.teacher.path.name}: {taken} {self.mapped(found).words}")
        return {"scaling": best, "shares": shares[best]}

    def mapped(self, found: Tensor) -> Outputs:
        """Which of these outputs are our classes."""
        file = Path(os.path.expanduser(self.config.classes)) if self.config.classes else None
        names, count = self.teacher.names, found.shape[1]
        return outputs_of(self.teacher.path, count, names, self.classes, file)

    def asked(self, parts: Parts, look: Mapping[str, Any]) -> dict[str, Tensor]:
        """The log-probabilities of all images, by parts."""
        total, done, clock = sum(map(len, parts.values())), 0, Runtime().clock
        answers: dict[str, Tensor] = {}
        with self.runtime.signals():
            for name, images in parts.items():
                rows = [torch.empty(0, len(self.classes))]
                for pixels in self.teacher.parts(images.pixels) if len(images) else ():
                    found = self.teacher.outputs(pixels, look["scaling"])
                    outputs = self.mapped(found)
                    rows.append(outputs.log_probabilities(found, shares=look["shares"]))
                    done += len(pixels)
                    left = clock() * (total / done - 1)
                    self.runtime.report(Progress("teacher", 0, 0, done / total, left, {}))
                    if self.runtime.stopping:
                        raise Interrupted(f"stopped when the teacher had seen {done:,} images")
                answers[name] = torch.cat(rows)
        return answers

    def tell(self, note: str) -> None:
        """Reports a note."""
        self.runtime.report(Progress("teacher", 0, 0, 0.0, 0.0, {}, note=note))


def told(train: Images, report: Callable[[Progress], None]) -> dict[str, float]:
    """Says how often the teacher is right on training images; a warning where it knows nothing."""
    if train.taught is None:
        return {}
    right = share_right(train.taught.answers, train.labels)
    note = f"right for {right:.1%} of {len(train):,} labelled training images"
    chance = 1 / train.taught.answers.shape[1]
    if right < chance + SURE * (chance * (1 - chance) / len(train)) ** 0.5:
        note += (
            f", no more than chance, {chance:.1%}; is teacher.input wrong, or the order of the "
            "classes? --teacher-classes FILE says which output is which"
        )
    report(Progress("teacher", 0, 0, 1.0, 0.0, {}, note=note))
    return {"teacher_training_accuracy": right}


def agreement(logits: Tensor, images: Images) -> dict[str, float]:
    """How often the network says what its teacher says, and how often that is right."""
    if images.taught is None or not len(images):
        return {}
    said = images.taught.answers.argmax(1)
    return {
        "teacher_agreement": share_right(logits, said),
        "teacher_accuracy": share_right(images.taught.answers, images.labels),
    }


def share_right(logits: Tensor, labels: Tensor) -> float:
    """The share of rows whose largest entry is that of their label."""
    return int((logits.argmax(1) == labels).sum()) / len(labels)
