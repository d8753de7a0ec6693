"""How long a stage will take, and how many epochs fit into a given time."""

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass
from math import ceil, floor
from statistics import fmean, median_low
from typing import Any

from ardor.schedules import round_at

MEASURED = 4  # steps from which on their median is trusted; the first of them is slow
RECENT = 200  # steps that tell how fast the machine is now
OFTEN = 0.01  # of the time: between two changes of a schedule
AIM = 0.97  # of the time: machines are noisy, and the stage must end in time
LEAST = 0.93  # of the time: a stage that would end sooner is made longer
WAITING = 0.1  # of the time: after it, fewer measured steps are enough
LOOKING = 0.2  # of the time: to score held-out images, after an epoch and at the end
SHORTEST = 0.25  # of an epoch: a shorter one at the end is not worth its validation


@dataclass(frozen=True)
class Length:
    """The length of a stage in epochs, not always an integer, and the progress at any point.

    When the length changes, progress goes on from its last value, and still ends at one.
    """

    epochs: float
    since: float = 0.0  # the point at which the length was changed last, in epochs
    then: float = 0.0  # the progress there

    def progress(self, at: float) -> float:
        """The share of the way that is done at a point, in epochs from the beginning."""
        share = (at - self.since) / ((self.epochs - self.since) or 1.0)
        return min(1.0, self.then + (1 - self.then) * share)

    def changed(self, at: float, epochs: float) -> "Length":
        """Another length from here on."""
        return Length(epochs, at, self.progress(at))


class StepTimes:
    """Seconds of a step, before and after steps get slower, and seconds between two epochs.

    Times that are not measured yet are guessed: a late step takes `slower` times an early one, the
    time between epochs is that of `between` steps. Each of several rounds begins with early steps.
    """

    def __init__(
        self,
        *,
        slower_from: float = 0.0,
        slower: float = 1.0,
        rounds: int = 1,
        between: float = 0.0,
        looks: int = 0,
    ) -> None:
        self.slower_from, self.slower, self.rounds = slower_from, slower, rounds
        self.looks = looks  # how often held-out images are scored after the last epoch
        self.guess = between
        self._steps = tuple(deque[float](maxlen=RECENT) for _ in range(2))
        self._between = deque[float](maxlen=RECENT)

    def add_step(self, progress: float, seconds: float) -> None:
        """A step that began at that progress."""
        self._steps[self.late(progress)].append(seconds)

    def late(self, progress: float) -> bool:
        """Whether steps that begin there have become slower."""
        return round_at(progress, self.rounds)[1] >= self.slower_from

    def cheap(self, progress: float) -> float:
        """The share of all steps that come before that progress and are early ones."""
        number, share = round_at(progress, self.rounds)
        return (number * self.slower_from + min(share, self.slower_from)) / self.rounds

    def add_between(self, seconds: float) -> None:
        """Validation, curvature and checkpoint after an epoch."""
        self._between.append(seconds)

    @property
    def seen(self) -> int:
        """How many steps were seen, of those that tell the most."""
        return max(map(len, self._steps))

    def step(self, *, late: bool) -> float:
        """A step before, or after, steps get slower."""
        early, after = self._steps
        if not late or (len(after) < MEASURED and early):
            return (self.slower if late else 1.0) * typical(early)
        return typical(after)

    def between(self) -> float:
        """Seconds between two epochs: the latest, as later ones may be slower."""
        if self._between:
            return self._between[-1]
        return self.guess * (self.step(late=False) or self.step(late=True) / self.slower)

    def look(self) -> float:
        """Seconds to score the held-out images once: the least between two epochs."""
        return min(self._between, default=self.between())

    def left(self, length: Length, at: float, epoch: int, steps: int) -> float:
        """Seconds to the end of a length, from a point in an epoch of `steps` steps."""
        progress, rest = length.progress(at), max(0.0, length.epochs - at)
        cheap = self.cheap(1.0) - self.cheap(progress)
        early = rest * cheap / (1 - progress) if progress < 1 else 0.0
        seconds = steps * (early * self.step(late=False) + (rest - early) * self.step(late=True))
        return seconds + (ceil(length.epochs) - epoch) * self.between() + self.looks * self.look()


def typical(seconds: Collection[float]) -> float:
    """The time of a step: the mean, as steps to come take it too; of few, whatever most took."""
    if len(seconds) < RECENT:
        return median_low(seconds) if seconds else 0.0
    return fmean(seconds)


class Timetable:
    """The steps of a stage, epoch by epoch, and the time that it may take."""

    def __init__(
        self, epochs: int, steps: int, *, time: float = 0.0, step_times: StepTimes | None = None
    ) -> None:
        self.most, self.steps, self.time = epochs, steps, time  # seconds; 0: no limit
        self.step_times = step_times or StepTimes()
        self.length = Length(float(epochs))
        self.fitted = not time  # whether it is known how many epochs there will be
        self._looked = 0.0  # seconds of the stage when it was last seen whether they still fit
        self.share = 1.0  # of the held-out images that are scored

    @property
    def epochs(self) -> int:
        """How many there will be; the last of them may be a short one."""
        return ceil(self.length.epochs)

    def ends_with(self, epoch: int) -> bool:
        """Whether that epoch is the last."""
        return epoch + 1 >= self.epochs

    def steps_of(self, epoch: int) -> int:
        """Steps of that epoch."""
        return min(self.steps, round((self.length.epochs - epoch) * self.steps))

    def progress(self, epoch: int, step: int) -> float:
        """The share of all steps that is done."""
        return self.length.progress(epoch + step / self.steps)

    def left(self, epoch: int, step: int, spent: float) -> float:
        """Seconds to the end; before anything is measured, all of the remaining time."""
        if not self.fitted:
            return max(0.0, self.time - spent)
        return self.step_times.left(self.length, epoch + step / self.steps, epoch, self.steps)

    def fit(self, epoch: int, step: int, spent: float) -> bool:
        """Changes the length if the stage would end too late or too early; whether it is new."""
        enough = self.step_times.seen >= (MEASURED if spent < WAITING * self.time else 2)
        if not self.time or not enough or step == self.steps_of(epoch):
            return False
        first = not self.fitted
        if first:
            self._look()
        elif spent < self._looked + OFTEN * self.time:
            return False
        self.fitted, self._looked = True, spent
        end = spent + self.left(epoch, step, spent)
        if first or not LEAST * self.time <= end <= self.time:
            self._fit(epoch, epoch + step / self.steps, AIM * self.time - spent)
        return first

    def _look(self) -> None:
        """Has fewer held-out images looked at, where that would take too much of the time."""
        seconds = self.step_times.between() + self.step_times.looks * self.step_times.look()
        self.share = min(1.0, LOOKING * self.time / max(seconds, 1e-9))
        self.step_times.guess *= self.share

    def _fit(self, epoch: int, at: float, seconds: float) -> None:
        """The longest schedule from here that ends in so many seconds, and of one step at least."""
        now, done = self.length, round(at * self.steps)
        lengths = range(done + 1, max(done + 1, self.most * self.steps) + 1)
        fits = bisect_right(
            lengths,
            seconds,
            key=lambda n: self.step_times.left(
                now.changed(at, n / self.steps), at, epoch, self.steps
            ),
        )
        length = lengths[max(fits - 1, 0)] / self.steps
        if length - floor(length) < SHORTEST and floor(length) > at:
            length = float(floor(length))
        if length != now.epochs:
            self.length = now.changed(at, length)

    def facts(self, spent: float) -> dict[str, Any]:
        """The facts from which a checkpoint goes on; none where the time has no limit."""
        if not self.time:
            return {}
        schedule = astuple(self.length) if self.fitted else None
        return {"spent": spent, "share": self.share, "schedule": schedule}

    def restore(self, facts: Mapping[str, Any]) -> float:
        """Goes on as it was fitted before; gives the seconds that were spent."""
        if facts.get("schedule"):
            self.length, self.fitted = Length(*facts["schedule"]), True
            self.share = facts["share"]
            self.step_times.guess *= self.share
        return float(facts.get("spent", 0.0))
