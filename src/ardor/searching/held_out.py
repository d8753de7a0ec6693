"""Scores of the supernet on held-out images."""

from ardor.bayes import Gates
from ardor.data import Images, Normalise
from ardor.models.scores import logits_of, scores
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
        images = self.some(share)
        logits = logits_of(self.net, images, self.normalise, self.stage.runtime, gates)
        return scores(logits, images.labels)

    def some(self, share: float = 1.0) -> Images:
        """A share of the images, or of as many as there is time for."""
        images, share = self.images, min(share, self.stage.timetable.share)
        if share == 1:
            return images
        count = max(self.least, round(share * len(images)))
        return images[self.stage.runtime.shuffled(len(images), 0, 3)[:count]]
