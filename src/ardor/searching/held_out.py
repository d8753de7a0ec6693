"""Scores of the supernet on held-out images, and the ranking of drawn architectures by them."""

from ardor.bayes import Gates
from ardor.data import Images, Normalise
from ardor.methods import Method
from ardor.models.scores import logits_of, scores
from ardor.searching.result import Candidate
from ardor.spaces import Net
from ardor.training.loop import ResumableLoop

CURVE = 1024  # images for the scores of an epoch, if those are only shown and decide nothing


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
        images, runtime = self.images, self.stage.runtime
        share = min(share, self.stage.timetable.share)
        if share < 1:
            count = max(self.least, round(share * len(images)))
            images = images[runtime.shuffled(len(images), 0, 3)[:count]]
        logits = logits_of(self.net, images, self.normalise, runtime, gates)
        return scores(logits, images.labels)

    def rank(self, method: Method, count: int) -> tuple[Candidate, ...]:
        """Up to `count` draws of a posterior, the best first; at least one, even without time."""
        candidates: list[Candidate] = []
        with self.stage.runtime.streams("gates"):
            drawn = dict.fromkeys(method.draw(count))
        for architecture in drawn:
            if candidates and not self.stage.in_time:
                break
            seen = self.measure(method.space.masks(architecture))
            candidates.append(Candidate(architecture, seen["accuracy"], seen["nll"]))
        return tuple(sorted(candidates, key=lambda c: (-c.accuracy, c.nll)))
