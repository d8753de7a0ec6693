"""The ranking of drawn architectures on held-out images, with the weights of the supernet.

What cannot be among the best any more is not measured to the end. By `search.statistics` a
candidate is normalised by the statistics of

- "batch": the held-out images that it is given at once, as the supernet is;
- "posterior": training images under gates that are drawn as in the search, measured once for all
  candidates, as in PGNAS (Zhou et al. 2020), whose BatchNorms are left as they were trained;
- "candidate": training images under the candidate alone.

By the last two an image is scored by itself, whatever is beside it. A candidate then is a network
of its own, and what it drops is not computed; and the images that a few candidates find hardest
come first, so that the others fall short as soon as they can.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.data import Images
from ardor.layers.norms import norms_of
from ardor.methods import Method
from ardor.models.scores import batch_count, logits_of, scores
from ardor.models.sizes import multiply_adds, parameters
from ardor.pruning.channels import take_dead_channels_out_
from ardor.searching.gate_gradients import frozen_statistics
from ardor.searching.held_out import HeldOut
from ardor.searching.result import Candidate
from ardor.settings.sections import Normalising
from ardor.spaces import Net, network_of
from ardor.training.loop import ResumableLoop
from ardor.training.start import FIRST, recalibrate_

SILENCE = 30.0  # seconds at most without a word of how the ranking goes
SEEN = 2048  # training images for statistics
WEIGHED = 8  # draws whose sizes are counted
JUDGES = 3  # candidates that tell which images are hard
AT_ONCE = 64  # images that are scored one by one: between two looks at the bound

Answers = Callable[[Images], Tensor]  # the logits of some images


@dataclass
class Ranking:
    """Scores the draws of a posterior with the weights of a supernet."""

    net: Net
    method: Method  # the posterior, whose space the net is of
    held_out: HeldOut
    train: Images  # those of the weights
    normalising: Normalising
    top: int  # so many of the best are wanted, and known exactly
    stage: ResumableLoop
    statistics: dict[str, Tensor] = field(default_factory=dict)  # of the posterior, by name
    drawn: list[Architecture] = field(default_factory=list)

    def best(self, count: int) -> tuple[Candidate, ...]:
        """Up to `count` draws, the best first; at least one, even without time.

        Those that cannot be among the `top` any more are left out. A signal stops the ranking
        between two draws; it is then continued from there.
        """
        streams = self.stage.runtime.streams
        with streams.unchanged(), streams("gates"):  # continued, the same are drawn again
            drawn = self.drawn = [*dict.fromkeys(self.method.draw(count))]
            if self.normalising == "posterior":
                self.statistics = self.measured()
        done = self.stage.facts.setdefault("ranked", [])
        images, pace = self.images(drawn), Pace(self.stage, len(done), len(drawn))
        for architecture in drawn[len(done) :]:
            if any(done) and not self.stage.in_time:
                break
            found = self.scored(architecture, images, bar=bar(done, self.top))
            done.append([] if found is None else [found["accuracy"], found["nll"]])
            pace.tell(done)
            self.stage.give_way(f"after {len(done)} of {len(drawn)} candidates")
        del self.stage.facts["ranked"]
        each = enumerate(zip(drawn, done, strict=False))
        ranked = [Candidate(a, found[0], found[1], at) for at, (a, found) in each if found]
        return tuple(sorted(ranked, key=lambda c: (-c.accuracy, c.nll)))

    @property
    def alone(self) -> bool:
        """Whether images are scored by themselves, so that their order is free."""
        return self.normalising != "batch"

    def images(self, drawn: Sequence[Architecture]) -> Images:
        """The held-out images; where their order is free, what the first draws find hard first."""
        images = self.held_out.some()
        if not self.alone or len(drawn) == 1:
            return images
        # Not the best guess: where much is dropped, no draw is like it.
        losses = sum(
            F.cross_entropy(self.answers(one)(images), images.labels, reduction="none")
            for one in drawn[1 : 1 + JUDGES]
        )
        return images[torch.as_tensor(losses).argsort(descending=True, stable=True)]

    def scored(
        self, architecture: Architecture, images: Images, *, bar: float
    ) -> dict[str, float] | None:
        """The scores of a candidate on these images; None once it must end below an accuracy.

        However many of the images not yet seen it gets right, what it got wrong stays wrong: its
        accuracy is at most 1 - wrong / images.
        """
        logits: list[Tensor] = []
        wrong, most = 0, round((1 - bar) * len(images))
        answers, count = self.answers(architecture), len(images)
        # The batches of supernets are those of `HeldOut.measure`: they normalise by them.
        batches = batch_count(count, AT_ONCE) if self.alone else batch_count(count)
        for at in torch.arange(count).tensor_split(batches):
            batch = images[at]
            logits.append(answers(batch))
            wrong += int((logits[-1].argmax(1) != batch.labels).sum())
            if wrong > most:
                return None
        return scores(torch.cat(logits), images.labels)

    def answers(self, architecture: Architecture) -> Answers:
        """A candidate as a function: a network of its own, or the supernet under its masks."""
        normalise, runtime = self.held_out.normalise, self.stage.runtime
        if self.alone:
            net = self.candidate(architecture)
            return lambda images: logits_of(net, images, normalise, runtime)
        masks = self.method.space.masks(architecture)
        return lambda images: logits_of(self.net, images, normalise, runtime, masks)

    def candidate(self, architecture: Architecture) -> Net:
        """A network of plain weights that computes what the supernet does under these masks."""
        runtime = self.stage.runtime
        net = runtime.place(self.cut_out(architecture)).eval()
        if self.normalising == "candidate":
            recalibrate_(net, self.some_train, self.held_out.normalise, runtime)
        return net

    def cut_out(self, architecture: Architecture) -> Net:
        """That network without the channels that have no effect."""
        with self.stage.runtime.apart(6):  # the weights that it begins with are not used
            net = network_of(self.method.space, architecture, as_searched=True)
        net.load_state_dict({**self.net.state_dict(), **self.statistics}, strict=False)
        if self.method.choices("width"):
            take_dead_channels_out_(net, self.method.space.image)
        return net

    def expected(self) -> dict[str, float]:
        """The mean size of a few draws, where channels are drawn and candidates are networks.

        The authors of PGNAS count parameters so, by drop probabilities, and not those of one draw.
        """
        if not self.alone or not self.method.choices("width") or len(self.drawn) == 1:
            return {}
        nets = [self.cut_out(architecture) for architecture in self.drawn[:WEIGHED]]
        image = self.method.space.image
        return {
            "expected_params": fmean(map(parameters, nets)),
            "expected_macs": fmean(multiply_adds(net, image) for net in nets),
        }

    def statistics_of(self, members: Sequence[Architecture]) -> dict[str, Tensor]:
        """Those of the posterior that these networks have a place for, and the layer before them.

        Nothing, where each is to be measured by itself.
        """
        if not self.statistics:
            return {}
        with torch.device("meta"):  # only the names are needed
            nets = [network_of(self.method.space, one, as_searched=True) for one in members]
        names = {name for net in nets for name in net.state_dict()}
        first = zip(FIRST, self.held_out.normalise.state_dict().values(), strict=True)
        return {
            **{name: value for name, value in self.statistics.items() if name in names},
            **{name: value.detach().cpu().clone() for name, value in first},
        }

    @cached_property
    def some_train(self) -> Images:
        """The training images by which BatchNorms are measured."""
        return self.train[self.stage.runtime.shuffled(len(self.train), 0, 4)[:SEEN]]

    def measured(self) -> dict[str, Tensor]:
        """What BatchNorms are given on training images as the posterior draws gates, by name."""
        runtime, normalise = self.stage.runtime, self.held_out.normalise
        pixels = self.some_train.pixels
        seen = (
            (normalise(runtime.images(some)), self.method.sample(len(some), 1.0))
            for some in pixels.tensor_split(batch_count(len(pixels), AT_ONCE))
        )
        with torch.no_grad(), frozen_statistics(self.net, seen):
            norms = set(norms_of(self.net))
            named = {name: norm for name, norm in self.net.named_modules() if norm in norms}
            return {key: value for name, norm in named.items() for key, value in kept(name, norm)}


def kept(name: str, norm: nn.Module) -> list[tuple[str, Tensor]]:
    """The statistics of a BatchNorm, as a network has them under its name."""
    found = ((kind, getattr(norm, kind)) for kind in ("running_mean", "running_var"))
    return [(f"{name}.{kind}", value.detach().cpu().clone()) for kind, value in found]


def bar(ranked: Sequence[Sequence[float]], top: int) -> float:
    """The accuracy below which a candidate is not among the best `top` of these; 0 if they are few.

    They have an accuracy and an nll each, or nothing if they were not measured to the end.
    """
    accuracies = sorted((found[0] for found in ranked if found), reverse=True)
    return accuracies[top - 1] if len(accuracies) >= top else 0.0


class Pace:
    """Tells how many candidates are ranked, and how many a second."""

    def __init__(self, stage: ResumableLoop, begun: int, count: int) -> None:
        self.stage, self.begun, self.count = stage, begun, count
        self.start = self.told = stage.runtime.clock()

    def tell(self, done: Sequence[Sequence[float]]) -> None:
        """A note now and then, and after the last candidate, if there are several."""
        now = self.stage.runtime.clock()
        if self.count > 1 and (len(done) == self.count or now > self.told + SILENCE):
            self.told = now
            pace = (len(done) - self.begun) / max(now - self.start, 1e-9)
            self.stage.tell(
                f"candidates ranked: {len(done):,} of {self.count:,}, {pace:.3g} a second; "
                f"not measured to the end: {sum(not found for found in done):,}"
            )
