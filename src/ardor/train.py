"""Training the found network from scratch, with weights that can be pruned or with plain ones."""

from pathlib import Path

from torch import nn

from ardor.architecture import Architecture
from ardor.config import TrainConfig
from ardor.data import Images, Normalise, augment, stratified
from ardor.layers import VariationalConv2d
from ardor.measure import logits_of, scores
from ardor.model import Model
from ardor.runtime import Runtime
from ardor.schedules import ramp
from ardor.spaces import of as space_of
from ardor.stage import Stage
from ardor.steps import Batch, objective, rate_at, set_gradients_, set_rate_, weight_optimiser


def train(
    architecture: Architecture,
    images: Images,
    classes: tuple[str, ...],
    config: TrainConfig,
    *,
    run: Path,
    runtime: Runtime,
) -> Model:
    """The trained network; continues from the newest checkpoint in `run`, if there is one."""
    parts = stratified(images.labels, [1 - config.validation, config.validation], seed=runtime.seed)
    loop = TrainLoop(architecture, [images[part] for part in parts], config, run, runtime)
    with runtime.signals():
        loop.run()
    return Model(loop.net, loop.normalise, architecture, classes)


class TrainLoop:
    """The network and its optimiser, stepping through the images."""

    def __init__(
        self,
        architecture: Architecture,
        parts: list[Images],
        config: TrainConfig,
        run: Path,
        runtime: Runtime,
    ) -> None:
        self.config, self.runtime = config, runtime
        self.images, self.validation = parts
        self.normalise = Normalise.of(self.images).to(runtime.device)
        conv = VariationalConv2d if config.variational else nn.Conv2d
        self.net = runtime.place(space_of(architecture).build(architecture, conv=conv))
        self.weights = list(self.net.parameters())
        self.optimiser = weight_optimiser(self.net, config)
        self.size = min(config.batch, len(self.images))
        self.stage = Stage(
            "train",
            run,
            runtime,
            modules={"net": self.net},
            optimisers={"weights": self.optimiser},
            epochs=config.epochs,
            steps=len(self.images) // self.size,
        )

    def run(self) -> None:
        """All epochs that are left."""
        for epoch in self.stage.epochs_left():
            order = self.runtime.shuffled(len(self.images), epoch)
            self.net.drop_path_(self.config.drop_path * epoch / self.config.epochs)
            for step in self.stage.steps_left():
                self.step(self.images[order[step * self.size : (step + 1) * self.size]])
            facts = {}
            if len(self.validation):
                logits = logits_of(self.net, self.validation, self.normalise, self.runtime)
                facts["held_out"] = scores(logits, self.validation.labels)
            self.stage.finish_epoch(rate=rate_at(self.config, self.stage.progress), **facts)

    def step(self, images: Images) -> None:
        """One step of the weights: likelihood, and the KL as far as it has grown."""
        self.net.train()
        pixels = self.runtime.images(images.pixels)
        prepared = augment(self.normalise(pixels), self.config.augment)
        batch = Batch(prepared, images.labels.to(self.runtime.device), len(self.images))
        grown = self.config.kl * ramp(self.stage.progress, start=self.config.kl_start)
        loss = objective(
            self.net.heads(batch.images),
            batch,
            {"kl_weights": grown * self.net.kl()} if self.config.variational else {},
            smoothing=self.config.smoothing,
            auxiliary_weight=self.config.auxiliary_weight,
        )
        set_gradients_(self.weights, loss.total)
        nn.utils.clip_grad_norm_(self.weights, self.config.clip)
        set_rate_(self.optimiser, rate_at(self.config, self.stage.progress))
        self.optimiser.step()
        self.stage.add("train", loss.terms)
