"""Scores of the supernet on held-out images, and the ranking of drawn architectures by them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ardor.bayes import Gates
from ardor.data import Images, Normalise
from ardor.methods import Method
from ardor.models.scores import batch_count, logits_of, scores
from ardor.searching.result import Candidate
from ardor.spaces import Net
from ardor.training.loop import ResumableLoop

CURVE = 1024  # images for the scores of an epoch, if those are only shown and decide nothing
TOP = 10  # candidates that are known exactly; a report shows as many
SILENCE = 30.0  # seconds at most without a word of how the ranking goes


class HeldOut:
    """Scores the supernet on held-out images, on fewer of them if time is short."""

    def __init__(
        self,
        net: Net,
        images: Images,
        normalise: Normalise,
        stage: ResumableLoop,
        *,
        every_image: bool,  # after every epoch; otherwise `CURVE` of them
        least: int,  # images in any case
    ) -> None:
        self.net, self.images, self.normalise = net, images, normalise
        self.stage, self.least = stage, least
        self.share = 1.0 if every_image else min(1.0, CURVE / len(images))

    def after_epoch(self, gates: Gates) -> dict[str, float]:
        """The scores of the supernet under the gates of an epoch."""
        return self.measure(gates, self.share)

    def measure(self, gates: Gates, share: float = 1.0) -> dict[str, float]:
        """The scores of the supernet on a share of the images under these gates."""
        images = self.some(share)
        logits = logits_of(self.net, images, self.normalise, self.stage.runtime, gates)
        return scores(logits, images.labels)

    def some(self, share: float) -> Images:
        """A share of the images, or of as many as there is time for."""
        images, share = self.images, min(share, self.stage.timetable.share)
        if share == 1:
            return images
        count = max(self.least, round(share * len(images)))
        return images[self.stage.runtime.shuffled(len(images), 0, 3)[:count]]

    def rank(self, method: Method, count: int) -> tuple[Candidate, ...]:
        """Up to `count` draws of a posterior, the best first; at least one, even without time.

        Those that cannot be among the best `TOP` any more are not measured to the end, and left
        out. A signal stops the ranking between two draws; it is then continued from there.
        """
        streams = self.stage.runtime.streams
        with streams.unchanged(), streams("gates"):  # continued, the same are drawn again
            drawn = [*dict.fromkeys(method.draw(count))]
        done = self.stage.facts.setdefault("ranked", [])
        images, pace = self.some(1.0), Pace(self.stage, len(done), len(drawn))
        for architecture in drawn[len(done) :]:
            if any(done) and not self.stage.in_time:
                break
            found = self.scored(method.space.masks(architecture), images, bar=bar(done))
            done.append([] if found is None else [found["accuracy"], found["nll"]])
            pace.tell(done)
            self.stage.give_way(f"after {len(done)} of {len(drawn)} candidates")
        del self.stage.facts["ranked"]
        ranked = [Candidate(a, *found) for a, found in zip(drawn, done, strict=False) if found]
        return tuple(sorted(ranked, key=lambda c: (-c.accuracy, c.nll)))

    def scored(self, gates: Gates, images: Images, *, bar: float) -> dict[str, float] | None:
        """The scores of the supernet under these gates; None once it must end below an accuracy.

        However many of the images not yet seen it gets right, what it got wrong stays wrong: its
        accuracy is at most 1 - wrong / images.
        """
        logits: list[Tensor] = []
        wrong, most = 0, round((1 - bar) * len(images))
        # The batches are those of `measure`, by whose statistics supernets normalise.
        for at in torch.arange(len(images)).tensor_split(batch_count(len(images))):
            batch = images[at]
            logits.append(logits_of(self.net, batch, self.normalise, self.stage.runtime, gates))
            wrong += int((logits[-1].argmax(1) != batch.labels).sum())
            if wrong > most:
                return None
        return scores(torch.cat(logits), images.labels)


def bar(ranked: Sequence[Sequence[float]]) -> float:
    """The accuracy below which a candidate is not among the best `TOP` of these; 0 if they are few.

    They have an accuracy and an nll each, or nothing if they were not measured to the end.
    """
    accuracies = sorted((found[0] for found in ranked if found), reverse=True)
    return accuracies[TOP - 1] if len(accuracies) >= TOP else 0.0


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
