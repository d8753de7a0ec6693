"""A teacher asked of images, once for each; what it said is kept in a file, and found again."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ardor.data import Dataset, Images
from ardor.data.left_out import CACHE
from ardor.errors import ArdorError, Interrupted
from ardor.models.outputs import Outputs, are_probabilities, outputs_of
from ardor.models.teacher import SCALINGS, Teacher
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.runtime.tensors import digest, load, save
from ardor.settings.sections import TeacherConfig

SAMPLE = 256  # images by which the way pixels are brought to a teacher is found

Parts = Mapping[str, Images]
Again = Callable[[int, int], Dataset]  # all images, read in so many pixels a side and channels


class Asking:
    """Asks a teacher of images; opens it only if it must be asked."""

    def __init__(
        self,
        config: TeacherConfig,
        classes: Sequence[str],
        runtime: Runtime,
        again: Again | None = None,
    ) -> None:
        self.config, self.classes, self.runtime, self.again = config, classes, runtime, again
        self.found: Mapping[str, Any] = {}  # how its input and output are to be taken
        self.large: Dataset | None = None  # the images in its size
        self.small = False  # whether these could not be read
        self._mapped: dict[int, Outputs] = {}  # by how many outputs there are

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
        seen, begun = self.seen(parts), homes[-1] / f"{CACHE}teacher-{key[:16]}-begun.safetensors"
        look = self.found or self.look(seen["train"])
        found = self.asked(seen, look, begun, key)
        # What it said of smaller images is for this run alone.
        self.keep(files[-1:] if self.small else files, found, {"key": key, "look": look})
        return found, look

    def seen(self, parts: Parts) -> Parts:
        """The images as the teacher is to see them: read again, where it takes larger ones."""
        own = self.teacher.input
        first = next(iter(parts.values())).pixels
        if self.again is None or own.height <= first.shape[2]:
            return parts
        try:
            self.large = self.large or self.again(own.height, own.channels)
        except ArdorError as error:
            self.small = True
            self.tell(f"it sees the images at {first.shape[3]}x{first.shape[2]} pixels: {error}")
            return parts
        found = {name: getattr(self.large, name) for name in parts}
        same = all(found[name].labels.equal(part.labels) for name, part in parts.items())
        return found if same else parts

    def kept(
        self, file: Path, key: str, parts: Parts
    ) -> tuple[dict[str, Tensor], Mapping[str, Any]] | None:
        """What a file has of answers to just these images; None where it has something else."""
        try:
            tensors, facts = load(file)
        except ArdorError:
            return None
        counts = {name: len(part) for name, part in parts.items()}
        found = facts.get("look")
        look = found if isinstance(found, dict) else {}
        shares, scaling = look.get("shares"), look.get("scaling")
        if facts.get("key") != key or scaling not in SCALINGS:
            return None
        if {name: len(rows) for name, rows in tensors.items() if rows.ndim} != counts:
            return None
        if not all(map(self.are_answers, tensors.values())):
            return None
        return tensors, {"scaling": scaling, "shares": bool(shares)}

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
        if count not in self._mapped:
            path = self.teacher.path
            self._mapped[count] = outputs_of(path, count, names, self.classes, file)
        return self._mapped[count]

    def asked(
        self, parts: Parts, look: Mapping[str, Any], begun: Path, key: str
    ) -> dict[str, Tensor]:
        """The log-probabilities of all images, by parts; what a signal stops is kept in `begun`."""
        sizes = [len(part) for part in parts.values()]
        pixels = [part.pixels for part in parts.values()]
        rows, clock = self.begun(begun, key, sum(sizes)), Runtime().clock
        before = done = len(rows)
        answers = [rows]
        with self.runtime.signals():
            for some in self.left(pixels, before):
                found = self.teacher.outputs(some, look["scaling"])
                logs = self.mapped(found).log_probabilities(found, shares=look["shares"])
                answers.append(logs)
                done += len(some)
                left = clock() * (sum(sizes) - done) / (done - before)
                self.runtime.report(Progress("teacher", 0, 0, done / sum(sizes), left, {}))
                if self.runtime.stopping:
                    save(begun, {"rows": torch.cat(answers)}, {"key": key})
                    raise Interrupted(f"stopped when the teacher had seen {done:,} images")
        begun.unlink(missing_ok=True)
        return dict(zip(parts, torch.split(torch.cat(answers), sizes), strict=True))

    def begun(self, file: Path, key: str, most: int) -> Tensor:
        """The rows that a teacher had answered when it was stopped; none, where it was not."""
        with suppress(ArdorError):
            tensors, facts = load(file)
            rows = tensors.get("rows", torch.empty(0))
            if facts.get("key") == key and self.are_answers(rows) and len(rows) <= most:
                return rows
        return torch.empty(0, len(self.classes))

    def left(self, pixels: Sequence[Tensor], done: int) -> Iterator[Tensor]:
        """The images that are left after so many, as many as the teacher takes at a time."""
        for each in pixels:
            rest, done = each[done:], max(0, done - len(each))
            if len(rest):
                yield from self.teacher.parts(rest)

    def are_answers(self, rows: Tensor) -> bool:
        """Whether these are log-probabilities of our classes."""
        if rows.dtype != torch.float32 or rows.ndim != 2 or rows.shape[1] != len(self.classes):
            return False
        return bool((rows.logsumexp(1).abs() < 1e-3).all())  # not so for what is no number

    def tell(self, said: str) -> None:
        """Reports a note."""
        self.runtime.report(note(said))


def note(said: str) -> Progress:
    """What there is to say of a teacher, as a report."""
    return Progress("teacher", 0, 0, 0.0, 0.0, {}, note=said)


def homes(place: str, folder: Path) -> list[Path]:
    """The folders where answers may be kept: with the images, or else in the run."""
    beside = Path(place) if os.path.isdir(place) else Path(place).parent
    return [*([beside] if place else []), folder]
