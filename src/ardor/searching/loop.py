"""The search: one loop for every method, from a space and images to an architecture."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ardor.architecture import Architecture, certainty
from ardor.data import Images, Normalise, augment, stratified
from ardor.methods import Epochs, Method
from ardor.runtime.device import Runtime
from ardor.searching.held_out import HeldOut
from ardor.searching.learner import Learner
from ardor.searching.likely import probabilities, strengths, widths
from ardor.searching.monitor import CollapseMonitor, monitored_batch
from ardor.searching.outcome import outcome
from ardor.searching.ranking import Ranking
from ardor.searching.result import SearchResult
from ardor.searching.selection import Selection
from ardor.searching.shrink import (
    in_a_row,
    leaving,
    left_in,
    still_there,
    take_out_,
    with_removed,
)
from ardor.settings.sections import SearchConfig
from ardor.spaces import Space
from ardor.training import mirror
from ardor.training.accumulate import micro_batches_of
from ardor.training.loop import ResumableLoop
from ardor.training.objective import Batch, Loss
from ardor.training.optimise import rate_at
from ardor.training.timetable import StepTimes, Timetable

CURVATURE_BATCHES = 4
SCORED = 256  # held-out images that an architecture is scored on after an epoch


def search(
    space: Space,
    method: Method,
    images: Images,
    config: SearchConfig,
    *,
    run: Path,
    runtime: Runtime,
) -> SearchResult:
    """Learns the gates of the supernet, and draws an architecture from the posterior.

    Continues from the newest checkpoint in `run`, if there is one. The held-out images train the
    gates of a bi-level method, and rank the candidates of every method.
    """
    loop = SearchLoop(space, method, halves(images, config, runtime.seed), config, run, runtime)
    with runtime.signals():
        loop.run()
        return loop.found()


def halves(images: Images, config: SearchConfig, seed: int) -> tuple[Images, Images]:
    """Images for weights, and held-out ones: together `fraction` of all images."""
    shares = [config.fraction * (1 - config.held_out), config.fraction * config.held_out]
    train, held_out = stratified(images.labels, shares, seed=seed)
    return images[train], images[held_out]


class SearchLoop:
    """The net, the method and their optimisers, stepping through the images."""

    def __init__(
        self,
        space: Space,
        method: Method,
        halves: tuple[Images, Images],
        config: SearchConfig,
        run: Path,
        runtime: Runtime,
    ) -> None:
        self.space, self.config, self.runtime = space, config, runtime
        self.halves = self.train, self.held_out = halves
        self.normalise = Normalise.of(self.train).to(runtime.device)
        self.net = runtime.place(space.build(conv=method.conv))
        self.net.hard_gates_(method.hard)
        self.method = method.to(runtime.device)
        facts: dict[str, Any] = {"gate_steps": 0} if [*method.parameters()] else {}
        self.selection = Selection(self.method, config, facts)
        # An epoch is one pass over the images of the weights, whichever half is larger.
        self.size = min(config.batch, len(self.train), len(self.held_out))
        self.micro_batches = micro_batches_of(config.accumulate, self.size)
        micro_batches, streams = self.micro_batches, runtime.streams
        self.learner = Learner(
            self.net, self.method, config, micro_batches=micro_batches, streams=streams
        )
        self.stage = ResumableLoop(
            "search",
            run,
            runtime,
            modules={"net": self.net, **self.selection.modules},
            optimisers=self.learner.optimisers,
            timetable=Timetable(
                config.epochs,
                len(self.train) // self.size,
                time=config.time,
                step_times=self.step_times(),
            ),
            reshape=lambda facts: self.take_out(facts.get("gone", {})),
            facts=facts,
        )
        # All images, if they decide which epoch is best, or must be timed for the time limit.
        every_image = self.selection.compares_epochs or bool(config.time)
        self.validation = HeldOut(
            self.net,
            self.held_out,
            self.normalise,
            self.stage,
            every_image=every_image,
            least=self.size,
        )
        seen = monitored_batch(
            self.held_out, self.normalise, runtime, most=self.size // self.micro_batches
        )
        self.monitor = CollapseMonitor(self.net, self.selection, seen, self.stage, config)

    def run(self) -> None:
        """Runs all remaining epochs."""
        self.stage.check_memory(self.net, self.size, self.micro_batches, self.trial)
        for epoch in self.stage.epochs_left():
            orders = [
                self.runtime.shuffled(len(half), epoch, i) for i, half in enumerate(self.halves)
            ]
            for step in self.stage.steps_left():
                self.step(
                    *(self.batch(h, o, step) for h, o in zip(self.halves, orders, strict=True))
                )
                if self.learning_gates and self.ends_cycle(step):
                    self.refit()
                    self.shrink()
            self.finish_epoch()

    @property
    def learning_gates(self) -> bool:
        """Whether the gates learn in this step: not while the weights warm up."""
        learns = bool(self.learner.gates) or self.method.learns_by_scores
        return learns and self.stage.round_begun >= self.config.warmup

    def step_times(self) -> StepTimes:
        """A guess of how much slower steps get when the gates learn too, until it is measured."""
        passes = (
            5 if self.method.unrolled else 2
        )  # times the passes through the net of a weight step
        return StepTimes(
            slower_from=self.config.warmup,
            slower=passes if self.learner.gates and self.method.bilevel else 1,
            rounds=self.config.rounds,
            between=len(self.held_out) / self.size / 3,  # forward passes alone
            looks=self.config.candidates,
        )

    def batch(self, images: Images, order: Tensor, step: int, *, augmented: bool = True) -> Batch:
        """The images of a step, starting over at the end of the order."""
        at = order[torch.arange(step * self.size, (step + 1) * self.size) % len(order)]
        pixels = self.normalise(self.runtime.images(images.pixels[at]))
        if augmented:
            with self.runtime.streams("data"):
                pixels = augment(pixels, mirror.decided(self.config.augment, mirrored=False))
        return Batch(pixels, images.labels[at].to(self.runtime.device), len(images))

    def step(self, train: Batch, held_out: Batch) -> None:
        """One step of the gates if they learn on held-out images, then one of the weights."""
        if not self.net.training:  # train() goes through all modules, which takes time
            self.net.train()
        self.begin_round()
        progress, joint = self.stage.round_progress, not self.method.bilevel
        if self.learning_gates and "gate_steps" in self.stage.facts:  # not as begun long ago
            self.stage.facts["gate_steps"] += 1
        if self.learning_gates and not joint:
            self.stage.add("gates", self.learner.gate_step(train, held_out, progress).terms)
        joint = joint and self.learning_gates and bool(self.learner.gates)
        loss = self.learner.step(train, progress, joint=joint)
        self.stage.add("train", loss.terms)

    def ends_cycle(self, step: int) -> bool:
        """Whether the method is fitted again within the epoch, after this step."""
        steps, cycles = self.stage.timetable.steps_of(self.stage.epoch), self.method.refits
        return step + 1 < steps and (step + 1) * cycles // steps > step * cycles // steps

    def refit(self) -> None:
        """Lets the method fit what it does not learn by gradients."""
        with self.learner.drawing():
            self.method.refit(self.learner.curvature(self.few_batches))

    def begin_round(self) -> None:
        """When a round begins: keeps the last posterior, and starts weights and gates anew."""
        if self.stage.round == int(self.selection.rounds.ended):
            return
        self.selection.begin_round()
        self.monitor.begin_round()
        fresh = self.runtime.place(self.space.build(conv=self.method.conv))
        take_out_(fresh, self.space.choices, self.method.removed)
        self.learner.begin_anew(fresh.state_dict())

    def trial(self, images: int) -> Loss:
        """The loss of some blank images, to measure memory."""
        self.net.train()
        blank = Batch.zeros(images, self.train.pixels, self.runtime)
        return self.learner.loss(blank, self.stage.round_progress, micro_batches=1)

    def finish_epoch(self) -> None:
        """Measures and decides what is due between two epochs, and logs it."""
        with self.learner.drawing():
            gates = self.method.sample(1, self.stage.round_progress)
        held_out = self.validation.after_epoch(gates)
        seen = {}
        if self.learning_gates:
            self.refit()
            if self.method.learns_by_scores:
                with self.learner.drawing():
                    self.method.learn_from(self.score)
            seen["watch"] = self.examine(1 - held_out["accuracy"])
            self.shrink()
        posterior = self.selection.now(learning=self.learning_gates)
        shares = probabilities(posterior)
        with self.runtime.apart(5):
            kept = posterior.draw(1)[0].options
        self.stage.finish_epoch(
            rate=rate_at(self.config, self.stage.round_progress),
            warmup=not self.learning_gates,
            held_out=held_out,
            certainty=certainty(kept, shares),
            probabilities=shares,
            strengths=strengths(posterior),
            **({"fell_with": fell} if (fell := posterior.fell_with()) else {}),
            left=left_in(self.method.removed, self.stage.epoch + 1),
            **({"widths": wide} if (wide := widths(posterior)) else {}),
            **seen,
        )

    def examine(self, error: float) -> dict[str, Any]:
        """The monitor's entry for the log, after an epoch with that error on held-out images."""
        seen = self.monitor.examine()
        self.selection.add_epoch(self.stage.epoch + 1, error, in_doubt=self.monitor.in_doubt)
        if self.monitor.ends and (note := self.selection.end_search()):
            self.stage.tell(note)
            seen["warnings"].append(note)
        return seen

    def score(self, architecture: Architecture) -> float:
        """Minus its nll on a few held-out images."""
        share = min(1.0, SCORED / len(self.held_out))
        return -self.validation.measure(self.space.masks(architecture), share)["nll"]

    def shrink(self) -> None:
        """Removes candidates that the posterior has given up for long enough."""
        if not self.config.shrink or self.monitor.in_doubt:
            return
        facts = self.stage.facts
        with self.learner.drawing():
            facts["given_up"] = in_a_row(self.method, facts.get("given_up", {}))
        left = leaving(self.method, facts["given_up"], self.config.shrink)
        if left:
            facts["gone"] = with_removed(self.method.removed, left, self.stage.epoch + 1)
            self.take_out(facts["gone"])
            there = still_there(self.method, facts["given_up"])
            self.stage.tell(f"candidates given up and taken out: {len(left)}; {there} are left")

    def take_out(self, removed: Epochs) -> None:
        """Removes candidates from net, posterior and optimiser; the others are unchanged."""
        take_out_(self.net, self.space.choices, removed)
        self.selection.remove(removed)
        self.learner.forget_removed()

    def few_batches(self) -> list[Batch]:
        """A few batches of the images that the gates learn from, not augmented."""
        images = self.held_out if self.method.bilevel else self.train
        order = self.runtime.shuffled(len(images), self.stage.epoch, 2)
        count = min(CURVATURE_BATCHES, len(images) // self.size)
        return [self.batch(images, order, step, augmented=False) for step in range(count)]

    def ranking(self, method: Method) -> Ranking:
        """The ranking of what a posterior draws."""
        return Ranking(
            self.net,
            method,
            self.validation,
            self.train,
            self.config.statistics,
            self.config.ensemble,
            self.stage,
        )

    def found(self) -> SearchResult:
        """Draws from the posterior, ranks the draws on held-out images, and takes the best."""
        return outcome(self)
