"""A run folder and its stages: each reads what the one before wrote, and is never done twice."""

import functools
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ardor import data, methods, spaces
from ardor.architecture import Architecture
from ardor.card import card
from ardor.config import Config, merge, resolve
from ardor.errors import ArdorError
from ardor.export import export
from ardor.files import read_json, write, write_json, writing
from ardor.measure import logits_of, multiply_adds, nonzero_parameters, parameters, scores
from ardor.model import Model
from ardor.prune import prune
from ardor.report import draw, report
from ardor.runtime import Progress, Runtime, measured, unwatched
from ardor.search import Found, search
from ardor.settings import complete
from ardor.train import train

FORMAT = 1
STAGES = ("search", "train", "prune", "export", "evaluate", "report")
# Stage -> the file whose presence says that it is done; evaluate adds to metrics.json.
WRITTEN = {
    "search": "architecture.json",
    "train": "trained/model.safetensors",
    "prune": "model/model.safetensors",
    "export": "export/model.onnx",
    "report": "report.html",
}
CHECKED_IMAGES = 64


@dataclass
class Run:
    """A folder, the settings it was made with, and the stages that were asked for."""

    folder: Path
    config: Config
    stages: tuple[str, ...]
    watch: Callable[[Progress], None] = unwatched

    @classmethod
    def create(
        cls, folder: Path, *layers: Mapping[str, Any], command: str, stages: tuple[str, ...]
    ) -> "Run":
        """A new folder with every setting resolved and checked; never one that exists."""
        if folder.exists():
            raise ArdorError(
                f"'{folder}' exists already, and is left as it is",
                f"choose another folder with --run, or continue it: ardor resume {folder}",
            )
        run = cls(folder, resolved(layers), stages)
        with writing(folder):
            folder.mkdir(parents=True)
        write_json(
            folder / "config.json", {**about(command), "stages": stages, **run.config.model_dump()}
        )
        return run

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """The run in a folder."""
        if not (folder / "config.json").exists():
            raise ArdorError(
                f"'{folder}' is not the folder of a run: it has no config.json",
                "a run folder is what 'ardor run' or 'ardor search' makes",
            )
        content = read_json(folder / "config.json")
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ArdorError(f"'{folder / 'config.json'}' is not of format {FORMAT}")
        stages = tuple(content.get("stages", ()))
        settings = {key: content[key] for key in Config.model_fields if key in content}
        return cls(folder, resolve(settings), stages)

    def changed(self, stage: str, *layers: Mapping[str, Any]) -> "Run":
        """This run ready to do `stage` with other settings; what was trained is never lost."""
        if stage == "train" and self.done("train"):
            raise ArdorError(
                f"'{self.folder}' is trained already, and is left as it is",
                "search again into a new folder to train otherwise",
            )
        if layers and any((self.folder / "checkpoint").glob(f"{stage}-*")):
            raise ArdorError(
                f"the {stage} stage of '{self.folder}' has begun with other settings",
                f"continue it as it is: ardor resume {self.folder}",
            )
        if layers:
            settings = merge(self.config.model_dump(), merged(layers))
            self.config = resolve(settings)
            content = {**read_json(self.folder / "config.json"), **self.config.model_dump()}
            write_json(self.folder / "config.json", content)
        if stage == "prune":
            self.forget_after("prune")
        return self

    def forget_after(self, stage: str) -> None:
        """Removes what was derived from a stage that is about to be done anew."""
        for later in STAGES[STAGES.index(stage) + 1 :]:
            if later in WRITTEN:
                (self.folder / WRITTEN[later]).unlink(missing_ok=True)
        kept = {
            k: v for k, v in self.metrics.items() if not k.startswith(("test_", "trained_test_"))
        }
        write_json(self.folder / "metrics.json", kept)

    def done(self, stage: str) -> bool:
        """Whether a stage has written what it writes."""
        if stage == "evaluate":
            return "test_accuracy" in self.metrics
        return (self.folder / WRITTEN[stage]).exists()

    def stages_left(self) -> list[str]:
        """The stages asked for that are not done."""
        return [stage for stage in self.stages if not self.done(stage)]

    def do(self, stage: str) -> None:
        """One stage, from where it was left; its time and memory go into metrics.json."""
        steps: dict[str, Callable[[], None]] = {
            "search": self.search,
            "train": self.train,
            "prune": self.prune,
            "export": self.export,
            "evaluate": self.evaluate,
            "report": self.report,
        }
        with self.costed(stage):
            steps[stage]()

    @functools.cached_property
    def dataset(self) -> data.Dataset:
        """The images."""
        return data.load(seed=self.config.seed, **self.config.data.model_dump())

    def runtime(self) -> Runtime:
        """The machine, seeded afresh: a stage does not depend on what ran before it."""
        return Runtime.start(self.config.device, self.config.seed, self.watch)

    def search(self) -> None:
        """Finds the architecture."""
        runtime = self.runtime()
        space = self.space()
        method = methods.make(self.config.method["name"], space, unnamed(self.config.method))
        found = search(
            space, method, self.dataset.train, self.config.search, run=self.folder, runtime=runtime
        )
        write(self.folder / "architecture.svg", draw(found.architecture, found.probabilities))
        write_json(self.folder / "architecture.json", found_json(found))

    @property
    def architecture(self) -> Architecture:
        """What the search found."""
        if not self.done("search"):
            raise ArdorError(
                f"'{self.folder}' has no architecture yet", f"first: ardor resume {self.folder}"
            )
        found = Architecture.from_json(read_json(self.folder / "architecture.json"))
        expected = self.space().architecture(dict(found.kept))
        if found != expected:
            self.space().check(found)
            raise spaces.foreign("its space or settings are not those in config.json")
        return found

    def space(self, **changes: Any) -> spaces.Space:
        """The space that is searched, or one with other sizes."""
        return spaces.make(self.config.space["name"], {**unnamed(self.config.space), **changes})

    @property
    def network(self) -> Architecture:
        """The found architecture at the size of the final network."""
        return self.space(**self.config.network).architecture(dict(self.architecture.kept))

    def train(self) -> None:
        """Trains the network from scratch."""
        runtime = self.runtime()
        model = train(
            self.network,
            self.dataset.train,
            self.dataset.classes,
            self.config.train,
            run=self.folder,
            runtime=runtime,
        )
        model.cpu().save(self.folder / "trained", card=card(self.folder, model))

    def trained(self) -> Model:
        """The trained network, with its variances."""
        if not self.done("train"):
            raise ArdorError(
                f"'{self.folder}' has no trained network yet", f"first: ardor train {self.folder}"
            )
        return Model.load(self.folder / "trained")

    def model(self) -> Model:
        """The network to use: the pruned one, or the trained one where nothing was pruned yet."""
        return Model.load(self.folder / "model") if self.done("prune") else self.trained()

    def prune(self) -> None:
        """Zeroes the weights that are only noise, and makes the rest plain."""
        model = prune(self.trained(), self.config.prune.threshold)
        model.save(self.folder / "model", card=card(self.folder, model))
        self.add_metrics(
            params=parameters(model.net),
            nonzero_params=nonzero_parameters(model.net),
            macs=multiply_adds(model.net, model.shape),
        )

    def export(self) -> None:
        """Writes the ONNX file and checks it on training images."""
        difference = export(
            self.plain(),
            self.folder / "export" / "model.onnx",
            self.dataset.train.pixels[:CHECKED_IMAGES],
        )
        self.add_metrics(onnx_max_difference=difference)

    def plain(self) -> Model:
        """The network with plain weights, pruned or not."""
        model = self.model()
        return prune(model, float("inf")) if model.variational else model

    def evaluate(self) -> None:
        """The last measurement: the first time that test images are looked at."""
        results = {"test": self.tested(self.plain())}
        if self.done("prune"):
            results["trained_test"] = self.tested(prune(self.trained(), float("inf")))
        flat = {f"{which}_{name}": x for which, s in results.items() for name, x in s.items()}
        self.add_metrics(**flat)
        for folder in ("model", "trained"):
            if (self.folder / folder).exists():
                write(self.folder / folder / "README.md", card(self.folder, self.model()))

    def tested(self, model: Model) -> dict[str, float]:
        """Scores on the test images."""
        runtime = self.runtime()
        images = self.dataset.test
        logits = logits_of(
            runtime.place(model.net), images, model.normalise.to(runtime.device), runtime
        )
        return scores(logits, images.labels)

    def report(self) -> None:
        """One HTML page of the run."""
        write(self.folder / "report.html", report(self.folder))

    @property
    def metrics(self) -> dict[str, Any]:
        """What was measured so far."""
        path = self.folder / "metrics.json"
        return dict(read_json(path)) if path.exists() else {"format": FORMAT, "stages": {}}

    def add_metrics(self, **found: Any) -> None:
        """Adds to metrics.json."""
        write_json(self.folder / "metrics.json", merge(self.metrics, found))

    @contextmanager
    def costed(self, stage: str) -> Iterator[None]:
        """Adds a stage's time and peak memory to what it took before it was interrupted."""
        try:
            with measured() as cost:
                yield
        finally:
            before = self.metrics["stages"].get(stage, {"seconds": 0.0, "peak_memory_mb": 0.0})
            total = {
                "seconds": round(before["seconds"] + cost.seconds, 3),
                "peak_memory_mb": max(before["peak_memory_mb"], cost.peak_memory_mb),
            }
            self.add_metrics(stages={stage: total})


def resolved(layers: tuple[Mapping[str, Any], ...]) -> Config:
    """All settings: defaults, the method's own, the given ones; space sizes from the images."""
    method = methods.find(resolve(*layers).method["name"])
    config = resolve({"search": dict(method.search)}, *layers)
    images = data.load(seed=config.seed, **config.data.model_dump())
    sizes = {"image": images.shape, "classes": len(images.classes)}
    for name in sizes:
        if name in config.space or name in config.network:
            raise ArdorError(f"space.{name} follows from the images", "leave it out; see data.size")
    cls = spaces.find(config.space["name"])
    space = complete("space", cls, {**unnamed(config.space), **sizes})
    complete("network", cls, {**space, **config.network})
    cls(**space)
    settings = {
        "space": {"name": config.space["name"], **space},
        "method": {
            "name": config.method["name"],
            **complete("method", method, unnamed(config.method)),
        },
    }
    return config.model_copy(update=settings)


def merged(layers: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """All layers as one."""
    return functools.reduce(merge, layers, {})


def unnamed(section: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a section without the name of what they are for."""
    return {key: value for key, value in section.items() if key != "name"}


def about(command: str) -> dict[str, Any]:
    """What a result must carry to be made again: command, versions, machine."""
    packages = ("ardor", "torch", "numpy", "onnxruntime")
    return {
        "format": FORMAT,
        "command": command,
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "machine": {"system": platform.system(), "processor": platform.machine()},
    }


def found_json(found: Found) -> dict[str, Any]:
    """The content of architecture.json: the architecture, and how sure the search is of it."""
    return {
        **found.architecture.to_json(),
        "probabilities": found.probabilities,
        "candidates": [
            {
                "kept": dict(candidate.architecture.kept),
                "held_out_accuracy": candidate.accuracy,
                "held_out_nll": candidate.nll,
            }
            for candidate in found.candidates
        ],
    }


def load(folder: Path | str) -> Model:
    """The network of a run folder, ready to predict."""
    return Run.open(Path(folder)).model()
