"""metrics.json, the record of a run: what was measured, what stages cost, which is unfinished."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ardor.errors import ArdorError, Interrupted
from ardor.runtime.cost import measured
from ardor.runtime.files import read_object, write_json
from ardor.runtime.origin import FORMAT
from ardor.settings.merge import merge

NO_COST = {"seconds": 0.0, "core_seconds": 0.0, "peak_memory_mb": 0.0}
LATER = {"core_seconds"}  # costs that older runs do not have


class Record:
    """The figures of a run, kept in its metrics.json."""

    def __init__(self, path: Path, remake: str) -> None:
        self.path = path
        self.remake = remake  # the command that measures anew

    def read(self) -> dict[str, Any]:
        """All figures so far; an ArdorError if the file holds anything but numbers."""
        if not self.path.exists():
            return {"format": FORMAT, "stages": {}}
        content = read_object(self.path, FORMAT)
        stages, unfinished = content.get("stages"), content.get("unfinished", {})
        costs = list(stages.values()) if isinstance(stages, dict) else [stages]
        figures = {k: value for k, value in content.items() if k not in ("stages", "unfinished")}
        sound = isinstance(unfinished, dict) and all_numbers(unfinished) and all_numbers(figures)
        if not sound or not all(map(is_cost, costs)):
            raise ArdorError(
                f"'{self.path}' must hold numbers, as Ardor wrote them",
                f"put it back as it was, or delete it and: {self.remake}",
            )
        return content

    def add(self, *finished: str, **figures: Any) -> None:
        """Adds figures, and marks the stages that are named as finished."""
        content = merge(self.read(), figures)
        marked = content.pop("unfinished", {})
        unfinished = {stage: mark for stage, mark in marked.items() if stage not in finished}
        more = {"unfinished": unfinished} if unfinished else {}
        write_json(self.path, {**content, **more})

    def drop(self, beginnings: tuple[str, ...]) -> None:
        """Removes the figures whose names begin so."""
        kept = {k: value for k, value in self.read().items() if not k.startswith(beginnings)}
        write_json(self.path, kept)

    @contextmanager
    def unfinished(self, stage: str) -> Iterator[None]:
        """Marks a stage as unfinished; if it fails with an ArdorError, the record is put back.

        A stage writes its result last: one that failed has written none, so the record of before
        is still true.
        """
        before = self.read() if self.path.exists() else {}
        self.add(unfinished={stage: 1})
        try:
            yield
        except ArdorError:
            if not before:
                self.path.unlink(missing_ok=True)
            with suppress(ArdorError):  # on a full disk it stays unfinished, and is done again
                if before:
                    write_json(self.path, before)
            raise

    @contextmanager
    def costed(self, stage: str) -> Iterator[dict[str, float]]:
        """A stage's time and peak memory, with those from before it was interrupted."""
        before = self.read()["stages"].get(stage, NO_COST)
        total: dict[str, float] = {}
        stopped: Interrupted | None = None
        with measured() as cost:
            try:
                yield total
            except Interrupted as error:
                stopped = error
        total["seconds"] = round(before["seconds"] + cost.seconds, 3)
        total["peak_memory_mb"] = max(before["peak_memory_mb"], cost.peak_memory_mb)
        if "core_seconds" in before:  # older runs did not count them in their first part
            total["core_seconds"] = round(before["core_seconds"] + cost.core_seconds, 3)
        if stopped:
            self.add(stages={stage: total})
            raise stopped


def is_cost(cost: Any) -> bool:
    """Whether an entry is the cost of a stage."""
    return isinstance(cost, dict) and cost.keys() >= NO_COST.keys() - LATER and all_numbers(cost)


def all_numbers(content: Mapping[str, Any]) -> bool:
    """Whether every value of an object is a number."""
    return all(type(value) in (int, float) for value in content.values())
