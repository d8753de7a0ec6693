"""Makes the prior of the method `thompson` over the space `blocks`: what scored how on some images.

    python benchmarks/prior.py DATA --only cifar10,fashion-mnist
    python benchmarks/prior.py DATA --only sign-digits,mnist --seconds 10

One network that a person might write, and each that differs from it in one choice, are trained on
each set of images for the same CPU seconds on one thread, by the recipe of the preset `photos`; the
score is minus the nll on held-out images of the training part. Test images are
never looked at. A line is added for each network: what was stopped goes on.
"""

import argparse
import csv
import functools
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import ardor.methods._priors as shipped
from ardor import data
from ardor.architecture import Architecture, Options
from ardor.data import Images, stratified
from ardor.methods._priors import known
from ardor.models.scores import logits_of, scores
from ardor.runtime.device import Runtime
from ardor.settings.merge import resolve
from ardor.settings.presets import preset
from ardor.spaces import make
from ardor.training.train import train

FILE = Path(shipped.__file__).parent / "blocks.csv"
IMAGES = 2000  # to learn from: as many passes over them as a run of minutes has over thousands
HELD_OUT = 2000
# Found by hand, on images of the training part of CIFAR-10: with as many weights as the CNN of
# thirty lines, and fewer multiply-adds.
FIRST = {
    "stage1-half": ("stride-3x3",),
    "stage1-block1": ("pair",),
    "stage2-half": ("pool-3x3",),
    "stage2-block1": ("added-3x3",),
    "stage3-half": ("pool-sep-3x3",),
    "stage3-block1": ("sep-3x3",),
}
SETS = {"cifar10": 0, "fashion-mnist": 32, "mnist": 32, "sign-digits": 32}  # side


def main() -> None:
    """Adds lines to the file until there are as many as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", default=",".join(SETS))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for number in range(len(networks())):
        for name in asked.only.split(","):
            if len(lines_of(name)) <= number:
                add(name, asked.data, asked.seconds, number)


def lines_of(name: str) -> list[tuple[object, float]]:
    """What is known of a set of images."""
    groups = known("blocks", without=[other for other in SETS if other != name])
    return groups[0] if groups else []


def add(name: str, root: Path, seconds: float, number: int) -> None:
    """Trains a network on a set of images, and writes down how it scored."""
    learned, held_out, classes = halves(name, root, IMAGES)
    space = make("blocks", {"image": tuple(learned.pixels.shape[1:]), "classes": len(classes)})
    kept = networks()[number]
    options = {choice.name: kept[choice.name] for choice in space.choices}
    nll = scored(space.architecture(options), learned, held_out, classes, seconds, number)["nll"]
    write(name, kept, -nll)


@functools.cache
def networks() -> list[dict[str, tuple[str, ...]]]:
    """What is kept of each choice: by the one to begin with, and by all its neighbours."""
    choices = make("blocks", {}).choices
    whole = {choice.name: choice.options for choice in choices if choice.kind == "width"}
    found = [whole | FIRST]
    for choice in (choice for choice in choices if choice.kind != "width"):
        others = (option for option in choice.options if (option,) != FIRST[choice.name])
        found += [whole | FIRST | {choice.name: (option,)} for option in others]
    return found


@functools.cache
def halves(name: str, root: Path, count: int) -> tuple[Images, Images, tuple[str, ...]]:
    """So many images to learn from and held-out ones, all from the training part of a set."""
    source = name if name == "digits" else str(root / name)
    found = data.load(source, size=SETS[name])
    images = found.train
    shares = [min(0.7, count / len(images)), min(0.3, HELD_OUT / len(images))]
    first, second = stratified(images.labels, shares, seed=0)
    return images[first], images[second], found.classes


def scored(
    architecture: Architecture,
    learned: Images,
    held_out: Images,
    classes: tuple[str, ...],
    seconds: float,
    seed: int,
    **changes: Any,
) -> dict[str, float]:
    """Scores on held-out images after so many CPU seconds of training as the preset `photos` says.

    `changes` are settings of the training that differ.
    """
    changes = {"start": "scratch", "time": seconds, "validation": 0.0, **changes}
    config = resolve(preset("photos"), {"train": changes}).train
    begin = time.process_time()
    runtime = Runtime.start("cpu", seed)
    runtime.clock = lambda: time.process_time() - begin
    with tempfile.TemporaryDirectory() as folder:
        model = train(
            architecture, learned, classes, config, run=Path(folder), runtime=runtime
        ).eval()
    return scores(logits_of(model.net, held_out, model.normalise, runtime), held_out.labels)


def write(name: str, kept: Options, score: float) -> None:
    """Adds a line to the file."""
    choices = [choice.name for choice in make("blocks", {}).choices if choice.kind != "width"]
    new = not FILE.exists()
    with FILE.open("a", newline="") as file:
        if new:
            file.write("# What scored how on other images: see benchmarks/prior.py\n")
            csv.writer(file).writerow(["images", "score", *choices])
        csv.writer(file).writerow([name, f"{score:.4f}", *(kept[choice][0] for choice in choices)])


if __name__ == "__main__":
    main()
