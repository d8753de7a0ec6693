"""A run: its folder and settings, the results of its stages, and which stages are done."""

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ardor import data, discover, spaces
from ardor.architecture import Architecture, Choice, choices_to_json
from ardor.errors import ArdorError
from ardor.models.model import Model
from ardor.models.smaller import prune
from ardor.pipeline import teaching
from ardor.pipeline.folder import (
    SEARCHED,
    STAGES,
    WRITTEN,
    Taken,
    check_free,
    free_folder,
    make,
    read,
    read_architecture,
    read_members,
    typed,
    update,
)
from ardor.pipeline.plan import Plan, left_for_training, planned
from ardor.pipeline.record import Record
from ardor.pipeline.resolve import (
    check_choices,
    check_epochs,
    check_held_out,
    check_images,
    check_scratch,
    final_space,
    resolved,
    searched_space,
)
from ardor.pruning.groups import groups_in
from ardor.runtime.device import Runtime
from ardor.runtime.files import clean
from ardor.runtime.lock import hold
from ardor.runtime.progress import Progress, clock_from_now, unwatched
from ardor.runtime.tensors import load as load_tensors
from ardor.settings.sections import CompressConfig, Config, TeacherConfig
from ardor.training.start import own

__all__ = ["STAGES", "Opened", "Run"]

# An architecture, images, and settings of a normalisation -> the network that a person has of it.
Opened = Callable[[Architecture, data.Dataset, CompressConfig], Model]


@dataclass
class Run:
    """A folder, the settings it was made with, and the stages that it is to do."""

    folder: Path
    config: Config
    stages: tuple[str, ...]
    place: str = ""  # where the images are, whatever folder a command is given in
    on_progress: Callable[[Progress], None] = unwatched
    clock: Callable[[], float] = field(default_factory=clock_from_now)
    earlier: float = 0.0  # seconds that its stages took before this process
    said: tuple[str, ...] = ()  # what there is to say of its plan, when it is made
    places: Mapping[str, str] = field(default_factory=dict)  # of a teacher's files, as typed

    @classmethod
    def create(
        cls,
        folder: Path | str | None,
        *layers: Mapping[str, Any],
        command: str = "python",
        stages: tuple[str, ...] = STAGES,
        given: Architecture | None = None,
        trained: Opened | None = None,
        trust: Sequence[str] = (),
        clock: Callable[[], float] | None = None,
    ) -> "Run":
        """A new folder with every setting resolved and checked; never one that exists.

        Without a name the folder is the first free one of runs/DATA-METHOD-N. With `given`, an
        architecture found on any images, nothing is searched; with `trained`, its network, nothing
        is trained. A method or space that is a module of your own is imported if `trust` names it.
        The time of a run counts from when `clock` began.
        """
        discover.trust(trust)
        if folder is not None:
            check_free(Path(folder))
        clock = clock or clock_from_now()
        plan = Plan(*resolved(layers))
        check_choices(plan.config, stages)
        if plan.config.time:
            plan = planned(layers, plan.config, plan.images, stages, given)
        config = plan.config
        teaching.check(config.teacher, plan.images)
        check_epochs(config, stages)
        check_held_out(config, stages)
        if given:
            check_scratch(config)
        while True:
            place = free_folder(config) if folder is None else Path(folder)
            run = cls(place, config, stages, data.place_of(config.data.source), clock=clock)
            run.images, run.said = plan.images, plan.said
            content = {"stages": stages, **run._settings()}
            run.places = content["place"]
            model = run._opened(given, trained) if given else None
            try:
                make(place, command, content, run._adopted(given) if given else None, model)
            except Taken:
                if folder is not None:
                    raise  # otherwise someone else was quicker, and the next one is free
            else:
                return run

    def _opened(self, given: Architecture, trained: Opened | None) -> Model | None:
        """The network that a person has, if so; an ArdorError if nothing can leave it."""
        of = self.space().adopted(given)
        model = trained(of, self.images, self.config.compress) if trained else None
        if "compress" in self.stages:
            net = model.net if model else spaces.network(of)
            groups_in(net, self.images.shape, self.config.compress.groups)
        return model

    def _adopted(self, given: Architecture) -> dict[str, Any]:
        """The content of architecture.json where an architecture is given."""
        space = self.space()
        return {**space.adopted(given).to_json(), "choices": choices_to_json(space.choices)}

    @classmethod
    def open(cls, folder: Path | str, trust: Sequence[str] = ()) -> "Run":
        """The run in a folder; `trust` names the modules that it may have imported."""
        discover.trust(trust)
        config, stages, places = read(Path(folder))
        place = places.get(config.data.source, "")
        opened = cls(Path(folder), config, stages, place, places=places)
        opened.earlier = sum(cost["seconds"] for cost in opened.metrics["stages"].values())
        return opened

    def share_out(self, stage: str) -> None:
        """Gives the training what is left of the time of the run, once it is known."""
        if stage == "train":
            _ = self.dataset  # a teacher is asked in the time of the run
        if stage == "train" and self.config.limit and not self.checkpoints(stage):
            left = left_for_training(self.config, self.earlier + self.clock())
            train = self.config.train.model_copy(update={"time": left})
            self.config = self.config.model_copy(update={"train": train})

    @contextmanager
    def held(self) -> Iterator[None]:
        """Locks the run for this process, and deletes unfinished files of killed processes."""
        with hold(self.folder):
            clean(self.folder)
            yield

    def set_threshold(self, threshold: float) -> None:
        """Writes the threshold of pruning into the settings, once it is known."""
        prune = self.config.prune.model_copy(update={"threshold": threshold})
        self.config = self.config.model_copy(update={"prune": prune})
        self.write_config()

    def write_config(self) -> None:
        """Writes the settings as they are now into config.json."""
        update(self.folder, self._settings())

    def _settings(self) -> dict[str, Any]:
        """The entries of config.json, with the places of what is read besides what was typed."""
        typed, at = (teaching.files_of(of) for of in (self.config.teacher, self.teacher))
        places = {typed[name]: at[name] for name in typed} | {self.config.data.source: self.place}
        return {"place": places, **self.config.model_dump()}

    def done(self, stage: str) -> bool:
        """Whether a stage has written its result and all its figures."""
        if stage in self.metrics.get("unfinished", {}):
            return False
        if stage == "evaluate":
            return not {"test_accuracy", "held_out_images"}.isdisjoint(self.metrics)
        if stage == "prune" and self.checkpoints("tune"):
            return False  # fine-tuning has begun, and was not finished
        if stage == "export" and (self.folder / "export" / "model.onnx").exists():
            return True  # also in older runs, which have no table of what was exported
        return (self.folder / WRITTEN[stage]).exists()

    def checkpoints(self, loop: str) -> list[Path]:
        """The checkpoints of a loop, oldest first."""
        return sorted((self.folder / "checkpoint").glob(f"{loop}-*"))

    def drop_checkpoints(self, loop: str) -> None:
        """Deletes the checkpoints of a loop that has ended, or begins anew with other settings."""
        for path in self.checkpoints(loop):
            path.unlink()

    def typed(self, command: str) -> str:
        """A command on this run, as a person types it, with the modules that were named for it."""
        names = (self.config.space["name"], self.config.method["name"], *self.config.export.formats)
        return typed(command, self.folder, discover.trusted(names))

    def stages_left(self) -> list[str]:
        """The stages of this run that are not done."""
        return [stage for stage in self.stages if not self.done(stage)]

    @property
    def teacher(self) -> TeacherConfig:
        """The settings of the teacher, with its files where they are, wherever we are."""
        at = {
            name: self.places.get(path) or os.path.abspath(os.path.expanduser(path))
            for name, path in teaching.files_of(self.config.teacher).items()
        }
        return self.config.teacher.model_copy(update=at)

    @functools.cached_property
    def dataset(self) -> data.Dataset:
        """The images with what a teacher says of them, and with unlabelled ones, if there are any.

        The teacher is asked when this is first needed, unless its answers are found.
        """
        return self._taught(teaching.with_unlabelled(self.images, self.config.data, self.teacher))

    @functools.cached_property
    def answered(self) -> data.Dataset:
        """The labelled images alone, with what the teacher says of them, if there is one."""
        return self._taught(replace(self.images, unlabelled=None))

    def _taught(self, images: data.Dataset) -> data.Dataset:
        """These images with the teacher's answers."""
        runtime = Runtime(seed=self.config.seed, report=self._report)
        again = self._larger if data.of_pictures(self.place) else None
        return teaching.taught(images, self.teacher, self.place, self.folder, runtime, again)

    def _larger(self, size: int, channels: int) -> data.Dataset:
        """All images again, as large and in such colours as a teacher takes."""
        images = self._images(size=size, channels=channels)
        return teaching.with_unlabelled(images, self.config.data, self.teacher)

    @functools.cached_property
    def images(self) -> data.Dataset:
        """The labelled images; an ArdorError unless the run was made for their size and classes."""
        images = self._images()
        check_images(self.config, images)
        return images

    def _images(self, **changes: int) -> data.Dataset:
        """The images from where they were before; if there are none, from the source as typed."""
        settings = {**self.config.data.model_dump(), **changes}
        before = self.place or settings["source"]
        if os.path.exists(before):
            settings["source"] = before
        try:
            return data.load(seed=self.config.seed, **settings)
        except data.Missing as error:
            raise ArdorError(
                f"{error}; the images of '{self.folder}' were in '{before}'",
                f"say where they are now: {self.typed('resume')} --data PLACE, "
                "or any other command that needs them",
            ) from error

    def runtime(self) -> Runtime:
        """The machine, seeded afresh: a stage does not depend on what ran before it."""
        return Runtime.start(self.config.device, self.config.seed, self._report)

    def _report(self, progress: Progress) -> None:
        """Passes a report on, with the time left of the whole run where that is limited."""
        if self.config.limit:
            left = max(0.0, self.config.limit - self.earlier - self.clock())
            progress = replace(progress, run_seconds_left=left)
        self.on_progress(progress)

    @property
    def architecture(self) -> Architecture:
        """The architecture that the search found."""
        if not self.done("search"):
            raise ArdorError(
                f"'{self.folder}' has no architecture yet",
                f"first: {self.typed('resume')}",
            )
        return read_architecture(self.folder, self.config)

    def space(self) -> spaces.Space:
        """The space that is searched."""
        return searched_space(self.config)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices of its space; empty if the space is a module that may not be imported."""
        try:
            return self.space().choices
        except ArdorError:
            return ()

    @property
    def network(self) -> Architecture:
        """The found architecture at the size of the final network."""
        return final_space(self.config).architecture(dict(self.architecture.kept))

    @property
    def members(self) -> list[Architecture]:
        """The others to predict with it, at that size; none where networks begin anew."""
        if self.config.train.start == "scratch":
            return []
        space, others = final_space(self.config), read_members(self.folder, self.config)
        return [space.architecture(dict(other.kept)) for other in others]

    def learned(self, architecture: Architecture) -> dict[str, Tensor] | None:
        """What the search has learned for a network to begin with; None if all are new."""
        return None if self.config.train.start == "scratch" else self.searched(architecture)

    def searched(self, architecture: Architecture) -> dict[str, Tensor]:
        """The weights that a search has left to an architecture."""
        path = self.folder / SEARCHED
        if not path.exists():
            raise ArdorError(
                f"'{self.folder}' has kept no weights of a search, as train.start = 'search' needs",
                "train from scratch: --set train.start=scratch; or search again into a new folder",
            )
        weights = load_tensors(path)[0]
        return own(architecture, weights) if self.config.search.ensemble > 1 else weights

    def trained(self) -> Model:
        """The trained network, with its variances."""
        if not self.done("train"):
            raise ArdorError(
                f"'{self.folder}' has no trained network yet",
                f"first: {self.typed('train')}",
            )
        return Model.load(self.folder / "trained")

    def model(self) -> Model:
        """The network to use: the pruned one, or the trained one if nothing was pruned yet."""
        folder = self.folder / "model"
        return Model.load(folder) if folder.exists() else self.trained()

    def plain(self) -> Model:
        """The network to use, with plain weights in place of Gaussian ones."""
        model = self.model()
        return prune(model, float("inf")) if model.variational else model

    @property
    def record(self) -> Record:
        """The figures of this run, to be added to."""
        return Record(self.folder / "metrics.json", self.typed("evaluate"))

    @property
    def metrics(self) -> dict[str, Any]:
        """All figures measured so far."""
        return self.record.read()
