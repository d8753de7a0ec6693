"""A run folder: its settings, what was found and measured, and which stages are done."""

import functools
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ardor import data, discover, spaces
from ardor.architecture import Architecture, Choice, choices_to_json
from ardor.errors import ArdorError
from ardor.models.model import Model
from ardor.models.smaller import prune
from ardor.pipeline.resolve import (
    check_epochs,
    check_formats,
    check_scratch,
    check_start,
    final_space,
    resolved,
    sizes,
    unnamed,
)
from ardor.runtime.device import Runtime, find_device
from ardor.runtime.files import check_links, clean, new_folder, read_json, read_object, write_json
from ardor.runtime.lock import hold
from ardor.runtime.origin import FORMAT, about
from ardor.runtime.progress import Progress, unwatched
from ardor.runtime.tensors import load as load_tensors
from ardor.settings.merge import merge, resolve
from ardor.settings.sections import Config

STAGES = ("search", "train", "prune", "export", "evaluate", "report")
# ResumableLoop -> the file that it ends with; evaluate adds to metrics.json.
WRITTEN = {
    "search": "architecture.json",
    "train": "trained/model.safetensors",
    "prune": "model/model.safetensors",
    "export": "export/exports.json",
    "report": "report.html",
}
SEARCHED = "searched/weights.safetensors"  # what the found architecture learned in the supernet
# ResumableLoop -> what may still change when it begins: the search has been made with the rest.
CHANGEABLE = {
    "train": ("train", "network", "device"),
    "prune": ("prune",),
    "export": ("export",),
}
# Entries of config.json that are no settings.
ABOUT = frozenset({"format", "command", "commit", "versions", "machine", "stages", "place"})
NO_COST = {"seconds": 0.0, "core_seconds": 0.0, "peak_memory_mb": 0.0}
LATER = {"core_seconds"}  # costs that older runs do not have


@dataclass
class Run:
    """A folder, the settings it was made with, and the stages that were asked for."""

    folder: Path
    config: Config
    stages: tuple[str, ...]
    place: str = ""  # where the images are, whatever folder a command is given in
    on_progress: Callable[[Progress], None] = unwatched

    @classmethod
    def create(
        cls,
        folder: Path | str | None,
        *layers: Mapping[str, Any],
        command: str = "python",
        stages: tuple[str, ...] = STAGES,
        given: Architecture | None = None,
        trust: Sequence[str] = (),
    ) -> "Run":
        """A new folder with every setting resolved and checked; never one that exists.

        Without a name it is the first free one of runs/DATA-METHOD-N. An architecture that is
        given, found on whatever images, takes the place of a search. A method or space that is a
        module of your own is imported if `trust` names it.
        """
        discover.trust(trust)
        if folder is not None:
            check_free(Path(folder))
        config, images = resolved(layers)
        check_epochs(config, stages)
        if given:
            check_scratch(config)
        while True:
            place = free_folder(config) if folder is None else Path(folder)
            run = cls(place, config, stages, data.place_of(config.data.source))
            run.dataset = images
            try:
                run._make(command, given)
            except Taken:
                if folder is not None:
                    raise  # otherwise someone else was quicker, and the next one is free
            else:
                return run

    def _make(self, command: str, given: Architecture | None) -> None:
        """The folder, with the settings and what is given in it."""
        own = self.space().adopted(given) if given else None
        try:
            with new_folder(self.folder) as filling:
                if own:
                    choices = choices_to_json(self.space().choices)
                    content = {**own.to_json(), "choices": choices}
                    write_json(filling / "architecture.json", content)
                content = {**about(command), "stages": self.stages, **self._settings()}
                write_json(filling / "config.json", content)
        except ArdorError:
            check_free(self.folder)  # someone else may have made it meanwhile
            raise

    @classmethod
    def open(cls, folder: Path | str, trust: Sequence[str] = ()) -> "Run":
        """The run in a folder; `trust` names the modules that it may have imported."""
        discover.trust(trust)
        folder = Path(folder)
        path = folder / "config.json"
        if not path.exists():
            raise ArdorError(
                f"'{folder}' is not the folder of a run: it has no config.json",
                "a run folder is what 'ardor run' or 'ardor search' makes",
            )
        check_links(folder)
        content = read_object(path, FORMAT)
        stages = content.get("stages", [])
        strange = [s for s in stages if s not in STAGES] if isinstance(stages, list) else [stages]
        if strange or not stages:
            held = repr(strange[0]) if strange else "none"
            raise ArdorError(
                f"stages in '{path}' hold {held}; must be of {', '.join(STAGES)}",
                "put back what Ardor wrote there",
            )
        config = resolve({key: value for key, value in content.items() if key not in ABOUT})
        # An older file has none; and it is that of other images where a hand has changed them.
        places = content.get("place")
        place = places.get(config.data.source) if isinstance(places, dict) else None
        return cls(folder, config, tuple(stages), place if isinstance(place, str) else "")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Has the run to oneself; what a killed process has left unfinished in it goes."""
        with hold(self.folder):
            clean(self.folder)
            yield

    def moved(self, place: Path | None) -> "Run":
        """This run with its images in another place, if they are such as it was made for."""
        if place is not None:
            if not place.exists():
                raise data.Missing(f"no such file or folder: '{place}'", "name where they are now")
            with self.held():
                self.place = os.path.abspath(place)
                _ = self.dataset
                self.write_config()
        return self

    def changed(self, stage: str, *layers: Mapping[str, Any]) -> "Run":
        """This run with other settings, to do `stage` with; what was trained is never lost."""
        if stage == "train" and self.done("train"):
            raise ArdorError(
                f"'{self.folder}' is trained already, and is left as it is",
                "search again into a new folder to train otherwise",
            )
        if not layers:
            check_epochs(self.config, (stage,))
            return self
        run = replace(self, config=resolve(self.config.model_dump(), *layers))
        self.check_changeable(stage, layers)
        run.check_able(stage)
        if stage == "prune":
            run.drop_checkpoints("tune")
        return run

    def set_threshold(self, threshold: float) -> None:
        """Has the settings say where the network is pruned, once that is known."""
        self.config = resolve(self.config.model_dump(), {"prune": {"threshold": threshold}})
        self.write_config()

    def write_config(self) -> None:
        """Has config.json say what the settings are by now."""
        content = {**read_json(self.folder / "config.json"), **self._settings()}
        write_json(self.folder / "config.json", content)

    def _settings(self) -> dict[str, Any]:
        """What config.json has of this run; the place of the images beside what was typed."""
        return {"place": {self.config.data.source: self.place}, **self.config.model_dump()}

    def check_changeable(self, stage: str, layers: tuple[Mapping[str, Any], ...]) -> None:
        """An ArdorError where a change comes too late for what was already done."""
        late = [key for layer in layers for key in layer if key not in CHANGEABLE[stage]]
        if late:
            raise ArdorError(
                f"'{late[0]}' cannot change any more: '{self.folder}' was made with it",
                f"'ardor {stage}' takes settings of {', '.join(CHANGEABLE[stage])}",
            )
        if self.checkpoints(stage):
            raise ArdorError(
                f"the {stage} stage of '{self.folder}' has begun with other settings",
                f"continue it as it is: {self.typed('resume')}",
            )

    def check_able(self, stage: str) -> None:
        """An ArdorError unless what the stage begins with is there and fits."""
        find_device(self.config.device)
        if stage == "train":
            check_start(self.config)
            check_epochs(self.config, (stage,))
            spaces.of(self.network).build(self.network)
            self.learned()
        elif stage == "prune":
            self.trained()
        elif stage == "export":
            check_formats(self.config)

    def done(self, stage: str) -> bool:
        """Whether a stage has written what it writes, and all that it measured is kept."""
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
        """Where a loop of that name can be taken up again."""
        return sorted((self.folder / "checkpoint").glob(f"{loop}-*"))

    def drop_checkpoints(self, loop: str) -> None:
        """Forgets a loop that is at its end, or begins anew with other settings."""
        for path in self.checkpoints(loop):
            path.unlink()

    def typed(self, command: str) -> str:
        """A command on this run, as a person types it, with the modules that were named for it."""
        names = (self.config.space["name"], self.config.method["name"], *self.config.export.formats)
        return typed(command, self.folder, discover.trusted(names))

    def stages_left(self) -> list[str]:
        """The stages asked for that are not done."""
        return [stage for stage in self.stages if not self.done(stage)]

    @functools.cached_property
    def dataset(self) -> data.Dataset:
        """The images, which must still be such as the run was made for."""
        found = self._images()
        expected = {name: getattr(self.space(), name) for name in sizes(found)}
        for name, value in sizes(found).items():
            if value != expected[name]:
                raise ArdorError(
                    f"{name} of '{self.config.data.source}' is {value}; "
                    f"this run was made for {expected[name]}",
                    "put the images back as they were, or begin a new run with them",
                )
        return found

    def _images(self) -> data.Dataset:
        """The images where they were; or where what was typed leads, should all have moved."""
        settings = self.config.data.model_dump()
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
        return Runtime.start(self.config.device, self.config.seed, self.on_progress)

    @property
    def architecture(self) -> Architecture:
        """What the search found."""
        if not self.done("search"):
            raise ArdorError(
                f"'{self.folder}' has no architecture yet",
                f"first: {self.typed('resume')}",
            )
        found = Architecture.from_json(read_json(self.folder / "architecture.json"))
        space = self.space()
        own = space.adopted(found)
        # Settings that an older file does not have are the defaults.
        if found.space != self.config.space["name"] or spaces.of(found) != space:
            raise spaces.foreign("its space or settings are not those in config.json")
        return own

    def space(self) -> spaces.Space:
        """The space that is searched."""
        return spaces.make(self.config.space["name"], unnamed(self.config.space))

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices of its space; none where that cannot be had, such as a stranger's."""
        try:
            return self.space().choices
        except ArdorError:
            return ()

    @property
    def network(self) -> Architecture:
        """The found architecture at the size of the final network."""
        return final_space(self.config).architecture(dict(self.architecture.kept))

    def learned(self) -> dict[str, Tensor] | None:
        """The weights of the search that the training begins with; None where it has new ones."""
        if self.config.train.start == "scratch":
            return None
        path = self.folder / SEARCHED
        if not path.exists():
            raise ArdorError(
                f"'{self.folder}' has kept no weights of a search, as train.start = 'search' needs",
                "train from scratch: --set train.start=scratch; or search again into a new folder",
            )
        return load_tensors(path)[0]

    def trained(self) -> Model:
        """The trained network, with its variances."""
        if not self.done("train"):
            raise ArdorError(
                f"'{self.folder}' has no trained network yet",
                f"first: {self.typed('train')}",
            )
        return Model.load(self.folder / "trained")

    def model(self) -> Model:
        """The network to use: the pruned one, or the trained one where nothing was pruned yet."""
        folder = self.folder / "model"
        return Model.load(folder) if folder.exists() else self.trained()

    def plain(self) -> Model:
        """The network with plain weights, pruned or not."""
        model = self.model()
        return prune(model, float("inf")) if model.variational else model

    @property
    def metrics(self) -> dict[str, Any]:
        """What was measured so far."""
        path = self.folder / "metrics.json"
        if not path.exists():
            return {"format": FORMAT, "stages": {}}
        content = read_object(path, FORMAT)
        stages, unfinished = content.get("stages"), content.get("unfinished", {})
        costs = list(stages.values()) if isinstance(stages, dict) else [stages]
        whole = isinstance(unfinished, dict) and all_numbers(unfinished)
        whole = whole and all(
            isinstance(cost, dict) and cost.keys() >= NO_COST.keys() - LATER and all_numbers(cost)
            for cost in costs
        )
        rest = {k: value for k, value in content.items() if k not in ("stages", "unfinished")}
        if not whole or not all_numbers(rest):
            raise ArdorError(
                f"'{path}' must hold numbers, as Ardor wrote them",
                f"put it back as it was, or delete it and: {self.typed('evaluate')}",
            )
        return content

    def add_metrics(self, *finished: str, **found: Any) -> None:
        """Adds to metrics.json; the stages that are named are finished by that."""
        content = merge(self.metrics, found)
        left = {k: v for k, v in content.pop("unfinished", {}).items() if k not in finished}
        more = {"unfinished": left} if left else {}
        write_json(self.folder / "metrics.json", {**content, **more})

    def drop_metrics(self, beginnings: tuple[str, ...]) -> None:
        """Forgets what was measured under names that begin so."""
        kept = {k: value for k, value in self.metrics.items() if not k.startswith(beginnings)}
        write_json(self.folder / "metrics.json", kept)


class Taken(ArdorError):
    """There is something where a new run was to be."""


def free_folder(config: Config) -> Path:
    """The first of runs/DATA-METHOD-1, -2, ... that is free."""
    name, number = os.path.basename(os.path.abspath(config.data.source)), 1
    while (folder := Path("runs") / f"{name}-{config.method['name']}-{number}").exists():
        number += 1
    return folder


def check_free(folder: Path) -> None:
    """An ArdorError unless a new run can be made there."""
    if folder.exists():
        resumable = (folder / "config.json").exists()
        more = f", or continue it: {typed('resume', folder)}" if resumable else ""
        raise Taken(
            f"'{folder}' exists already, and is left as it is",
            f"choose another folder with --run{more}",
        )
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ArdorError(
            f"{ascii(str(folder))} must be a name in UTF-8", "choose another folder with --run"
        ) from None


def typed(command: str, folder: Path, trust: Sequence[str] = ()) -> str:
    """A command on a run, as a person types it."""
    words = ["ardor", command, str(folder)]
    return shlex.join([*words, *(word for module in trust for word in ("--trust", module))])


def all_numbers(content: Mapping[str, Any]) -> bool:
    """Whether numbers are all there is in an object."""
    return all(type(value) in (int, float) for value in content.values())


def load(folder: Path | str, trust: Sequence[str] = ()) -> Model:
    """The network of a run folder, ready to predict; `trust` as when a run is opened."""
    return Run.open(folder, trust).model()
