"""Training the chosen network, with weights that can be pruned or with plain ones."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ardor import spaces
from ardor.architecture import Architecture
from ardor.data import Images, augment, joined, mixed, mixing, stratified
from ardor.errors import ArdorError
from ardor.layers.variational import VariationalConv2d
from ardor.models.model import Model
from ardor.models.scores import logits_of, scores
from ardor.runtime.device import Runtime
from ardor.schedules import ramp
from ardor.settings.sections import TrainConfig
from ardor.spaces import Net, network
from ardor.training import mirror
from ardor.training.accumulate import micro_batches_of
from ardor.training.average import Average
from ardor.training.loop import ResumableLoop
from ardor.training.objective import Batch, Loss, likelihood, objective, targets_of
from ardor.training.optimise import rate_at, set_gradients_, set_rate_, weight_optimiser
from ardor.training.sparse import Sparse
from ardor.training.start import has_statistics, normalise_of, recalibrate_, take_
from ardor.training.timetable import StepTimes, Timetable


def train(
    architecture: Architecture,
    images: Images,
    classes: tuple[str, ...],
    config: TrainConfig,
    *,
    run: Path,
    runtime: Runtime,
    searched: Mapping[str, Tensor] | None = None,
    unlabelled: Images | None = None,
) -> Model:
    """The trained network; continues from the newest checkpoint in `run`, if there is one.

    `searched` are the weights that a search found, which `config.start` may ask for. Of unlabelled
    images it learns what a teacher says.
    """
    if config.start == "search" and searched is None:
        raise ArdorError("train.start = 'search' needs weights of a search", "give its weights")
    parts = split_validation(images, config, runtime.seed, unlabelled)
    loop = TrainLoop(architecture, parts, config, run, runtime, searched=searched)
    with runtime.signals():
        loop.run()
    return Model(loop.net, loop.normalise, architecture, classes)


def tune(
    model: Model,
    images: Images,
    config: TrainConfig,
    *,
    run: Path,
    runtime: Runtime,
    unlabelled: Images | None = None,
    name: str = "tune",
) -> Model:
    """A pruned network after some more epochs: zeros stay zero. Resumable as `train` is."""
    parts = split_validation(images, config, runtime.seed, unlabelled)
    net = copy.deepcopy(model.net)
    loop = TrainLoop(model.architecture, parts, config, run, runtime, learned=net, name=name)
    loop.unpruned = [weight.detach() != 0 for weight in loop.weights]
    loop.normalise = copy.deepcopy(model.normalise).to(runtime.device)
    with runtime.signals():
        loop.run()
    return Model(net.cpu(), model.normalise, model.architecture, model.classes).eval()


def split_validation(
    images: Images, config: TrainConfig, seed: int, unlabelled: Images | None = None
) -> list[Images]:
    """Images to learn from, unlabelled ones after the others, and labelled images to watch by."""
    shares = [1 - config.validation, config.validation]
    learn, watch = (images[part] for part in stratified(images.labels, shares, seed=seed))
    return [learn if unlabelled is None else joined([learn, unlabelled]), watch]


def new_network(architecture: Architecture, config: TrainConfig) -> Net:
    """A network with new weights; in the supernet's form where it is to take those of a search."""
    conv = VariationalConv2d if config.variational else nn.Conv2d
    return network(architecture, conv=conv, as_searched=config.start == "search")


class TrainLoop:
    """The network and its optimiser, stepping through the images."""

    def __init__(
        self,
        architecture: Architecture,
        parts: list[Images],
        config: TrainConfig,
        run: Path,
        runtime: Runtime,
        *,
        searched: Mapping[str, Tensor] | None = None,  # what a search has learned
        learned: Net | None = None,  # a network to go on with, in place of a new one
        name: str = "train",
        beside: Mapping[str, nn.Module] | None = None,  # what else checkpoints hold
    ) -> None:
        self.config, self.runtime = config, runtime
        self.images, self.validation = parts
        self.net = runtime.place(learned or new_network(architecture, config))
        self.searched = None if learned or config.start == "scratch" else searched
        self.normalise = normalise_of(self.images, self.searched).to(runtime.device)
        if self.searched is not None:
            take_(self.net, architecture, self.searched, run)
        self.drawing = True  # variational weights, and not their means
        self.classes = spaces.of(architecture).classes
        self.weights = list(self.net.parameters())
        self.unpruned: list[Tensor] = []  # which weights may learn; all, if it says of none
        self.optimiser = weight_optimiser(self.net, config)
        self.average = Average(self.net, config.average) if config.average else None
        thinned = config.max_weights and not config.variational and learned is None
        sparse = Sparse(self.net, config.max_weights) if thinned else None
        self.sparse = sparse if sparse and sparse.final else None  # no masks for a small network
        self.size = min(config.batch, len(self.images))
        self.micro_batches = micro_batches_of(config.accumulate, self.size)
        self.stage = ResumableLoop(
            name,
            run,
            runtime,
            modules={
                "net": self.net,
                **({"average": self.average} if self.average else {}),
                **(beside or {}),
            },
            optimisers={"weights": self.optimiser},
            timetable=Timetable(
                config.epochs,
                len(self.images) // self.size,
                time=config.time,
                step_times=StepTimes(
                    slower_from=config.kl_start,
                    slower=2 if config.variational else 1,
                    between=len(self.validation) / self.size / 3,
                    looks=int(self.average is not None and len(self.validation) > 0),
                ),
            ),
        )

    def run(self) -> None:
        """All epochs that are left."""
        self.stage.check_memory(self.net, self.size, self.micro_batches, self.trial)
        begins = self.searched is not None and not self.stage.progress
        if begins and not has_statistics(self.searched or {}):
            recalibrate_(self.net, self.images, self.normalise, self.runtime)
        for epoch in self.stage.epochs_left():
            order = self.runtime.shuffled(len(self.images), epoch)
            self.begin_epoch(self.stage.timetable.progress(epoch, 0))
            for step in self.stage.steps_left():
                self.step(self.images[order[step * self.size : (step + 1) * self.size]])
            self.finish_epoch()
        if self.average and self.stage.facts.get("averaged"):
            self.net.load_state_dict(self.average.net.state_dict())

    def begin_epoch(self, progress: float) -> None:
        """Drops as many paths and weights as belong to the progress at the epoch's beginning."""
        self.net.drop_path_(self.config.drop_path * progress)
        if self.sparse:
            self.sparse.choose(progress, *([self.average.net] if self.average else []))

    def finish_epoch(self) -> None:
        """Scores the held-out images, decides what hangs on them, and logs it."""
        ending, facts = self.stage.timetable.ends_with(self.stage.epoch), self.stage.facts
        seen = self.watched(ending=ending) if len(self.validation) else {}
        if self.average:
            facts["averaged"] = seen.setdefault("averaged", True)
        asks = "mirror" in self.config.augment and "mirrored" not in facts and not ending
        if asks and len(self.validation) and self.stage.progress >= mirror.BEGIN:
            seen["mirror"] = self.try_mirrored(seen["held_out"]["accuracy"])
        self.stage.finish_epoch(rate=rate_at(self.config, self.stage.progress), **seen)

    def watched(self, *, ending: bool) -> dict[str, Any]:
        """Scores on the held-out images, of the mean weights where there are any."""
        if self.average is None:
            return {"held_out": self.score(self.net)}
        if ending:  # only now is one of them chosen, and each look takes time
            return self.average.compared(self.net, self.score)
        return {"held_out": self.score(self.average.net), "averaged": True}

    def try_mirrored(self, accuracy: float) -> dict[str, Any]:
        """Decides whether images are mirrored from here on; what was seen, for the log."""
        net = self.average.net if self.average else self.net
        mirrored = self.score(net, mirrored=True)["accuracy"]
        on = mirror.survives(accuracy, mirrored, mirror.chance(self.validation.labels))
        self.stage.facts["mirrored"] = on
        self.stage.tell(mirror.in_words(accuracy, mirrored, on=on))
        return {"accuracy": accuracy, "mirrored_accuracy": mirrored, "on": on}

    def score(self, net: Net, *, mirrored: bool = False) -> dict[str, float]:
        """Scores of a network on the held-out images, as they are or mirrored left to right."""
        pixels, labels = self.validation.pixels, self.validation.labels
        images = Images(pixels.flip(3), labels) if mirrored else self.validation
        return scores(logits_of(net, images, self.normalise, self.runtime), labels)

    def step(self, images: Images) -> None:
        """One step of the weights: likelihood, and the KL as far as it has grown."""
        self.net.train()
        pixels = self.runtime.images(images.pixels)
        with self.runtime.streams("data"):
            prepared = augment(self.normalise(pixels), self.augmentations)
            labels = targets_of(images).to(self.runtime.device)
            if strength := self.mixup:
                prepared, labels = mixed(prepared, labels, self.classes, strength)
        temperature = images.taught.temperature if images.taught else 1.0
        batch = Batch(prepared, labels, len(self.images), temperature)
        loss = self.loss(batch, self.micro_batches, self.grown())
        set_gradients_(self.weights, loss.total)
        for weight, unpruned in zip(self.weights, self.unpruned, strict=False):
            weight.grad = torch.where(unpruned, weight.grad, 0.0)  # type: ignore[arg-type]
        nn.utils.clip_grad_norm_(self.weights, self.config.clip)
        set_rate_(self.optimiser, rate_at(self.config, self.stage.progress))
        self.optimiser.step()
        self.hold()
        if self.average:
            self.average.add(self.stage.timetable.steps * self.stage.epoch + self.stage.step)
        self.stage.add("train", loss.terms)

    def hold(self) -> None:
        """Sets to zero again what the step has moved away from it."""
        if self.sparse:
            self.sparse.hold()

    @property
    def augmentations(self) -> tuple[str, ...]:
        """Those that are done now, as far as it is decided."""
        mirrored = self.stage.facts.get("mirrored", False)
        return mirror.decided(self.config.augment, mirrored=mirrored)

    @property
    def mixup(self) -> float:
        """How strongly images are mixed now."""
        if self.config.mixup == "auto":
            return mixing(self.stage.timetable.length.epochs, len(self.images))
        return self.config.mixup

    def loss(self, batch: Batch, micro_batches: int, kl_counts: float) -> Loss:
        """The objective on a batch, computed in parts."""
        fit = likelihood(
            self.net,
            batch,
            {},
            smoothing=self.config.smoothing,
            auxiliary_weight=self.config.auxiliary_weight,
            micro_batches=micro_batches,
        )
        kl = {"kl_weights": kl_counts * self.net.kl()} if kl_counts else {}
        return objective(fit, kl, dataset_size=batch.dataset_size)

    def grown(self) -> float:
        """The present weight of the KL; while it is zero, weights are not drawn.

        Without the KL their variances would only shrink, and drawing takes twice the time.
        """
        if not self.config.variational:
            return 0.0
        grown = self.kl_counts()
        if self.drawing != (grown > 0):
            self.drawing = grown > 0
            self.net.sample_weights_(self.drawing)
        return grown

    def kl_counts(self) -> float:
        """The weight of the KL at this progress."""
        return self.config.kl * ramp(self.stage.progress, start=self.config.kl_start)

    def trial(self, images: int) -> Loss:
        """The loss of some blank images, to measure the memory that it takes."""
        self.net.train()
        kl_counts = self.config.kl if self.config.variational else 0.0
        return self.loss(Batch.zeros(images, self.images.pixels, self.runtime), 1, kl_counts)
