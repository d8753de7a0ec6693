"""Held-out images: how the supernet does on them, and which draw does best."""

from ardor.bayes import Gates
from ardor.data import Images, Normalise
from ardor.methods import Method
from ardor.models.scores import logits_of, scores
from ardor.searching.result import Candidate
from ardor.spaces import Net
from ardor.training.loop import ResumableLoop

CURVE = 1024  # images that a point of a curve is of, where nothing else hangs on it


class HeldOut:
    """What a search sees of the images that it holds out, as far as there is time to look."""

    def __init__(
        self,
        net: Net,
        images: Images,
        normalise: Normalise,
        stage: ResumableLoop,
        *,
        whole: bool,  # all images after every epoch
        least: int,
    ) -> None:
        self.net, self.images, self.normalise = net, images, normalise
        self.stage, self.least = stage, least
        self.share = 1.0 if whole else min(1.0, CURVE / len(images))

    def after_epoch(self, gates: Gates) -> dict[str, float]:
        """How the supernet does under the gates of an epoch."""
        return self.measure(gates, self.share)

    def measure(self, gates: Gates, share: float = 1.0) -> dict[str, float]:
        """How the supernet does on a share of the images under these gates."""
        images, runtime = self.images, self.stage.runtime
        share = min(share, self.stage.timetable.share)
        if share < 1:
            count = max(self.least, round(share * len(images)))
            images = images[runtime.shuffled(len(images), 0, 3)[:count]]
        logits = logits_of(self.net, images, self.normalise, runtime, gates)
        return scores(logits, images.labels)

    def rank(self, method: Method, count: int) -> tuple[Candidate, ...]:
        """Up to so many draws of a posterior, the best first; one at least, whatever the time."""
        candidates: list[Candidate] = []
        with self.stage.runtime.streams("gates"):
            drawn = dict.fromkeys(method.draw(count))
        for architecture in drawn:
            if candidates and not self.stage.in_time:
                break
            seen = self.measure(method.space.masks(architecture))
            candidates.append(Candidate(architecture, seen["accuracy"], seen["nll"]))
        return tuple(sorted(candidates, key=lambda c: (-c.accuracy, c.nll)))
