"""Who competes: each fits some images in so many CPU seconds, and says how it does on others."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import nn

from ardor.bench.rivals.nets import cnn, residual
from ardor.bench.rivals.recipes import Recipe, cropped, fit, shifted
from ardor.bench.rivals.sets import accuracy_on
from ardor.data import Dataset, Images
from ardor.models.exporters.onnx import Onnx, exported
from ardor.models.sizes import multiply_adds, nonzero_parameters, parameters
from ardor.pipeline.verbs import run

SIDE = 16  # pixels, as an SVM sees images
MOST = 6000  # images that an SVM can learn from: its time grows with their square


# Shares of the time that a run of Ardor is given; what is left is for pruning, export and report.
SEARCH, TRAIN = 0.3, 0.55


@dataclass(frozen=True)
class Task:
    """What a contender is given."""

    path: Path  # of the file with the images
    images: Dataset
    mirrored: bool  # whether an image keeps its class in a mirror
    seconds: float  # of the CPU, for all it does
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What came of it; sizes only of networks."""

    accuracy: float  # on the test images
    cpu_seconds: float
    params: int | None = None
    nonzero_params: int | None = None
    macs: int | None = None
    latency_ms: float | None = None

    def to_json(self) -> dict[str, float]:
        """For a file: what is known."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def thirty_lines(task: Task) -> Outcome:
    """The CNN that a person writes in thirty lines."""
    recipe = Recipe(shifted(0.1, mirrored=task.mirrored), smoothing=0.05)
    return trained(task, cnn, recipe)


def small_residual(task: Task) -> Outcome:
    """A small residual network, with what helps where images are few."""
    recipe = Recipe(cropped(0.4, mirrored=task.mirrored), smoothing=0.05, mixup=0.2, averaged=True)
    return trained(task, residual, recipe)


def trained(task: Task, build: Callable[..., nn.Module], recipe: Recipe) -> Outcome:
    """A network of a person's own, trained until its time is over."""
    begin = time.process_time()
    torch.manual_seed(task.seed)
    images = task.images
    net = build(images.shape, len(images.classes))
    model = fit(net, images.train, recipe, task.seconds, task.seed)
    spent = time.process_time() - begin
    exporter = Onnx()
    files = {exporter.file: exported(model, images.shape).SerializeToString()}
    return Outcome(
        accuracy=accuracy_on(model, images.test),
        cpu_seconds=round(spent, 2),
        params=parameters(model),
        nonzero_params=nonzero_parameters(model),
        macs=multiply_adds(model, images.shape),
        latency_ms=exporter.latencies([files], images.shape)[0],
    )


def svm(task: Task) -> Outcome:
    """A support vector machine with Gaussian kernels on 16x16 pixels."""
    begin = time.process_time()
    train = task.images.train
    few = torch.randperm(len(train), generator=torch.Generator().manual_seed(task.seed))[:MOST]
    machine = make_pipeline(StandardScaler(), SVC(C=10.0))
    machine.fit(pixels(train[few]), train.labels[few].numpy())
    spent = time.process_time() - begin
    right = machine.predict(pixels(task.images.test)) == task.images.test.labels.numpy()
    return Outcome(accuracy=float(right.mean()), cpu_seconds=round(spent, 2))


def pixels(images: Images) -> object:
    """Small images, flat."""
    small = F.interpolate(images.pixels.float(), SIDE, mode="area")
    return small.flatten(1).numpy()


def ardor_default(task: Task) -> Outcome:
    """Ardor as a person runs it, with nothing set but times."""
    times = {
        "search": {"time": SEARCH * task.seconds},
        "train": {"time": TRAIN * task.seconds},
    }
    return of_run(task, times)


def ardor_random(task: Task) -> Outcome:
    """An architecture at random from the same space, trained as Ardor's is, for all the time."""
    settings = {
        "method": {"name": "random"},
        "train": {"time": (SEARCH + TRAIN) * task.seconds},
    }
    return of_run(task, settings)


def of_run(task: Task, settings: Mapping[str, Any]) -> Outcome:
    """What a run of Ardor ends with: the pruned network."""
    begin = time.process_time()
    with TemporaryDirectory() as place:
        done = run(task.path, settings, {"seed": task.seed}, folder=Path(place) / "run")
        found = done.metrics
    return Outcome(
        accuracy=found["test_accuracy"],
        cpu_seconds=round(time.process_time() - begin, 2),
        params=found["params"],
        nonzero_params=found["nonzero_params"],
        macs=found["macs"],
        latency_ms=found["latency_ms"],
    )


CONTENDERS: Mapping[str, Callable[[Task], Outcome]] = {
    "ardor": ardor_default,
    "random": ardor_random,
    "cnn": thirty_lines,
    "residual": small_residual,
    "svm": svm,
}
