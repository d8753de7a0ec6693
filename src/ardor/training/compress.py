"""Making a trained network smaller: it learns on, under a prior, while groups of weights leave.

One loop for every prior. The network learns in cycles; after each, the prior is fitted again, and
the least relevant groups leave. How many is said in one of two ways: so small in the end, by
factors that come ever closer to one; or as small as an accuracy allows, by trial.
"""

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from ardor.bayes.curvature import mean_diagonal
from ardor.data import Images
from ardor.errors import ArdorError
from ardor.layers.conversion import plain_, with_weights_of_
from ardor.layers.variational import VariationalConv2d
from ardor.models.model import Model
from ardor.models.sizes import Sizes
from ardor.pruning import priors
from ardor.pruning.channels import compact
from ardor.pruning.groups import groups_in
from ardor.pruning.thinning import Thinning
from ardor.runtime.device import Runtime
from ardor.settings.sections import CompressConfig, TrainConfig
from ardor.training import mirror, sizing
from ardor.training.optimise import rate_at
from ardor.training.sizing import Points
from ardor.training.train import TrainLoop, split_validation

BEGIN = 0.05  # of the progress: when the first groups leave
FULL = 0.3  # of the progress: when the KL has reached its weight
END = 0.95  # of the progress: when the last groups leave
TRIAL = 0.7  # while an accuracy is to be kept, a network loses so much of its parameters at once
CURVED = 5000  # images that the curvature is of


@dataclass(frozen=True)
class Compressed:
    """A network of plain weights, zero where they have left."""

    model: Model
    points: Points  # the networks on the way to it
    said: tuple[str, ...]  # what a person should know of it


def compress(
    model: Model,
    images: Images,
    config: TrainConfig,
    asked: CompressConfig,
    *,
    run: Path,
    runtime: Runtime,
    unlabelled: Images | None = None,
) -> Compressed:
    """A smaller network; the given one stays as it is.

    Continues from the newest checkpoint in `run`, if there is one.
    """
    parts = split_validation(images, config, runtime.seed, unlabelled)
    loop = CompressLoop(model, parts, config, asked, run, runtime)
    with runtime.signals():
        loop.run()
    net = copy.deepcopy(loop.net).cpu()
    plain_(net)
    net.forget_shapes_()
    loop.thinning.hold(net)
    small = Model(net, model.normalise, model.architecture, model.classes).eval()
    return Compressed(small, loop.points, tuple(loop.stage.facts["said"]))


class CompressLoop(TrainLoop):
    """The training of a network that gets smaller."""

    def __init__(
        self,
        model: Model,
        parts: list[Images],
        config: TrainConfig,
        asked: CompressConfig,
        run: Path,
        runtime: Runtime,
    ) -> None:
        self.asked, self.shape = asked, model.shape
        kind = priors.find(asked.prior)
        net = copy.deepcopy(model.net)
        plain_(net)
        self.whole = Sizes.of(compact(net, model.shape, asked.multiple), model.shape)
        self.end = sizing.asked_size(asked, self.whole)
        groups = groups_in(net, model.shape, asked.groups)
        if kind.variational:
            with_weights_of_(net, VariationalConv2d)
        net.forget_shapes_()  # those of the layers before
        net = runtime.place(net)
        prior = kind(net, [each.to(runtime.device) for each in groups], asked.strength)
        by_time, multiple = asked.max_macs > 0, asked.multiple
        self.thinning = Thinning(net, model.shape, prior, by_time=by_time, multiple=multiple)
        self.thinning.to(runtime.device)
        self.good = copy.deepcopy(net)  # the smallest network so far that is accurate enough
        super().__init__(
            model.architecture,
            parts,
            config.model_copy(update={"variational": kind.variational}),
            run,
            runtime,
            learned=net,
            name="compress",
            beside={"thinning": self.thinning, "good": self.good},
        )
        self.normalise = copy.deepcopy(model.normalise).to(runtime.device)
        if not self.stage.facts.keys() >= {"cycle", "points", "said", "size", "good", "least"}:
            self.begin()

    def begin(self) -> None:
        """What is remembered from the first step on."""
        whole = [self.whole.params, self.whole.macs]
        facts = self.stage.facts
        facts |= {"cycle": -1, "points": [], "said": [], "size": whole, "good": whole}
        facts |= {"least": self.asked.keep_accuracy, "trial": TRIAL}
        if len(self.validation):
            self.look(self.score(self.net)["accuracy"])

    def look(self, accuracy: float) -> None:
        """Judges the given network by its accuracy on the held-out images."""
        least = self.asked.keep_accuracy
        if not (least or self.asked.sized):
            self.stage.facts["least"] = accuracy - self.asked.within
        if accuracy <= self.chance:
            self.say(sizing.at_chance(accuracy))
        elif accuracy < least and not self.asked.sized:
            self.say(sizing.below(accuracy, least))

    def look_back(self) -> None:
        """Says so where as little is left as was asked for, and it is of no use."""
        if self.asked.sized and self.points and self.points[-1]["accuracy"] <= self.chance:
            self.say(sizing.left_at_chance(self.points[-1]["accuracy"]))

    @property
    def chance(self) -> float:
        """The accuracy of whoever always gives the same answer."""
        return mirror.chance(self.validation.labels)

    def say(self, line: str) -> None:
        """Tells what a person should know of the result, now and at the end."""
        self.stage.facts["said"].append(line)
        self.stage.tell(line)

    @property
    def points(self) -> Points:
        """The networks that cycles have left, with their scores on held-out images."""
        return self.stage.facts["points"]  # type: ignore[no-any-return]

    @property
    def now(self) -> Sizes:
        """The size of the network as it is."""
        return Sizes(*self.stage.facts["size"])

    def cycle_at(self, progress: float) -> int:
        """How many cycles have begun: none until `BEGIN`, all at `END`."""
        share = (progress - BEGIN) / (END - BEGIN)
        return 0 if share < 0 else min(self.asked.cycles, 1 + int(share * (self.asked.cycles - 1)))

    def finish_epoch(self) -> None:
        if self.stage.timetable.ends_with(self.stage.epoch):
            self.go_on_to(self.asked.cycles)  # where steps are few, it was not reached
            self.judge()
            self.look_back()
        super().finish_epoch()

    def step(self, images: Images) -> None:
        self.go_on_to(self.cycle_at(self.stage.progress))
        super().step(images)

    def go_on_to(self, due: int) -> None:
        """Begins the cycle that is due, if it has not begun."""
        if due > self.stage.facts["cycle"]:
            self.stage.facts["cycle"] = due
            self.begin_cycle(due)

    def begin_cycle(self, number: int) -> None:
        """Judges what the last cycle has left, fits the prior, and lets groups leave."""
        if number:
            self.judge()
        self.thinning.prior.refit(self.curvature)
        if number:
            self.thin(number)

    def judge(self) -> None:
        """Scores what the last cycle has left, and goes back where it is not accurate enough."""
        if not len(self.validation):
            return
        found = self.score(self.average.net if self.average else self.net)
        self.check_finite(torch.tensor(found["nll"]))
        self.points.append({**asdict(self.now), **{n: found[n] for n in ("accuracy", "nll")}})
        self.stage.tell(sizing.last_of(self.points))
        if self.asked.sized:
            return
        if self.now == self.whole or found["accuracy"] >= self.stage.facts["least"]:
            self.good.load_state_dict(self.net.state_dict())
            self.stage.facts["good"] = self.stage.facts["size"]
        else:
            self.go_back()

    def go_back(self) -> None:
        """Returns to the last network that was accurate enough; the next trial is a milder one."""
        facts = self.stage.facts
        facts["size"], facts["trial"] = facts["good"], facts["trial"] ** 0.5
        for net in (self.net, *([self.average.net] if self.average else [])):
            net.load_state_dict(self.good.state_dict())
        self.thinning.read_masks_()

    def thin(self, number: int) -> None:
        """Lets the least relevant groups leave."""
        most = self.wanted(number)
        small = self.thinning.thin_(lambda net: Sizes.of(net, self.shape).fits(most))
        now = Sizes.of(small, self.shape)
        self.stage.facts["size"] = [now.params, now.macs]
        if self.average:
            self.thinning.hold(self.average.net)
        if number == self.asked.cycles and self.asked.sized and not now.fits(self.end):
            self.say(sizing.out_of_reach(self.end, now, self.asked))

    def wanted(self, number: int) -> Sizes:
        """How large the network may be in a cycle."""
        if self.asked.sized:
            return sizing.size_in_cycle(self.whole, self.end, number / self.asked.cycles)
        return Sizes(round(self.stage.facts["trial"] * self.now.params), self.whole.macs)

    def hold(self) -> None:
        self.thinning.prior.after_step(rate_at(self.config, self.stage.progress))
        self.thinning.hold()

    def kl_counts(self) -> float:
        return self.config.kl * min(1.0, self.stage.progress / FULL)

    def check_finite(self, values: Tensor) -> None:
        """An ArdorError where the weights have grown without bound."""
        if not values.isfinite().all():
            raise ArdorError(
                f"compress diverged in epoch {self.stage.epoch + 1}: its answers are not finite",
                "begin a new run with a lower compress.rate",
            )

    def curvature(self) -> Mapping[str, Tensor]:
        """The curvature of an image's nll in each weight, on some training images."""
        picked = self.images.pixels[self.runtime.shuffled(len(self.images), CURVED)[:CURVED]]
        weights = self.thinning.prior.weights
        self.net.eval()
        logits = (self.answers(pixels) for pixels in torch.split(picked, self.size))
        return dict(zip(weights, mean_diagonal(logits, list(weights.values())), strict=True))

    def answers(self, pixels: Tensor) -> Tensor:
        """The logits of some images."""
        logits: Tensor = self.net(self.normalise(self.runtime.images(pixels)))
        self.check_finite(logits)
        return logits
