"""Who competes: each fits some images in so many CPU seconds, and says how it does on others."""

import time
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import nn

from ardor.bench.rivals.nets import cnn, residual
from ardor.bench.rivals.own import OWN
from ardor.bench.rivals.recipes import Recipe, cropped, fit, shifted
from ardor.bench.rivals.sets import accuracy_on
from ardor.bench.rivals.task import Outcome, Task
from ardor.data import Images
from ardor.models.exporters.onnx import Onnx, exported
from ardor.models.sizes import multiply_adds, nonzero_parameters, parameters

SIDE = 16  # pixels, as an SVM sees images
MOST = 6000  # images that an SVM can learn from: its time grows with their square


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


CONTENDERS: Mapping[str, Callable[[Task], Outcome]] = {
    "ardor": OWN["ardor"].fit,
    "random": OWN["random"].fit,
    "cnn": thirty_lines,
    "residual": small_residual,
    "svm": svm,
}
# Which part of what Ardor gained came from what; they compete only where they are asked for.
PARTS: Mapping[str, Callable[[Task], Outcome]] = {
    name: way.fit for name, way in OWN.items() if name not in CONTENDERS
}
KNOWN = {**CONTENDERS, **PARTS}
