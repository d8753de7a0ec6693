"""What a person sees while a command works: progress with the time left, and words."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from ardor.errors import printable

if TYPE_CHECKING:
    from ardor.runtime.progress import Progress

PLAIN_LINE_EVERY = 30.0  # seconds, where there is no terminal to redraw
WORDS = 90  # columns that the words beside a bar take


class Lines(Console):
    """Shows text as it is: names of classes and folders may look like markup, or like commands."""

    def __init__(self, **options: Any) -> None:
        plain: dict[str, Any] = {"soft_wrap": True, "highlight": False, "emoji": False}
        super().__init__(markup=False, **plain, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Every text that is printed, in a table or not, comes through here."""
        return super().render_str(printable(text), **options)


class Screen:
    """Progress and words on stderr; the result, as a table or as JSON, on stdout."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.out = Lines()
        self.err = Lines(stderr=True, quiet=quiet)
        self.as_json = as_json
        self._bars: Bars | None = None
        self._told = ("", 0, 0.0)
        self._then = ""  # what follows the stage that is shown

    def say(self, line: str) -> None:
        """A line of what happens."""
        self.err.print(line)

    def result(self, content: Any, table: Table | Group | str | None = None) -> None:
        """The result of a command: JSON where asked for, otherwise for reading."""
        self.out.print(json.dumps(content) if self.as_json or table is None else table)

    @contextmanager
    def watching(self, stage: str, then: str = "") -> Iterator[None]:
        """Shows the progress of a stage, and what is to be done after it.

        A bar on a terminal, plain lines elsewhere.
        """
        self._then, self._told = then, ("", 0, 0.0)
        if not self.err.is_terminal or self.err.quiet:
            yield
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=max(4, min(40, self.err.width - WORDS))),
            TextColumn("{task.fields[words]}"),
        )
        with Bars(*columns, console=self.err, transient=True) as self._bars:
            self._bars.add_task(f"{stage:<8}", total=1.0, words="")
            yield
        self._bars = None

    def progress(self, progress: "Progress") -> None:
        """Told at every step of a search or a training."""
        if progress.note:
            when = f"epoch {progress.epoch}, " if progress.epoch else ""
            self.say(f"{progress.stage}: {when}{progress.note}")
            return
        words = describe(progress, self._then)
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[0], completed=progress.done, words=words)
            return
        stage, epoch, at = self._told
        now = time.monotonic()
        new = (progress.stage, progress.epoch) != (stage, epoch)
        if (new and now - at > 1.0) or now - at > PLAIN_LINE_EVERY:
            self._told = (progress.stage, progress.epoch, now)
            self.say(f"{progress.stage}: {words}")


def describe(progress: "Progress", then: str = "") -> str:
    """Epoch, accuracy and time left in words; `then` is what follows the stage."""
    epochs = f"/{progress.epochs}" if progress.epochs else ""
    at = f"epoch {progress.epoch}{epochs}" if progress.epoch else "it looks at the images"
    said = [at, *_accuracy(progress)]
    if progress.run_seconds_left is None:
        said.append(f"{duration(progress.seconds_left)} left")
    else:
        said.append(f"{duration(progress.run_seconds_left)} left of all")
    return ", ".join([*said, f"then {then}"] if then else said)


def _accuracy(progress: "Progress") -> Iterator[str]:
    """The accuracy on images that are not learned from; before it is known, on those that are."""
    held_out, training = progress.held_out_accuracy, progress.terms.get("accuracy")
    if held_out is not None:
        yield f"held-out accuracy {100 * held_out:.1f} %"
    elif training is not None:
        yield f"training accuracy {100 * training:.1f} %"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
