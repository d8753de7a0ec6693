"""Runs in an earlier result of a bench, which need not be made again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ardor.bench.grid import Grid, named
from ardor.bench.measures import Measure, Record
from ardor.errors import ArdorError
from ardor.pipeline.resolve import difference, layered
from ardor.runtime.files import read_object
from ardor.runtime.origin import FORMAT
from ardor.settings.merge import reopened
from ardor.settings.sections import Config

ANEW = "leave --results out: the bench then makes its runs anew"


@dataclass(frozen=True)
class Known:
    """Runs of a grid by row and seed, and the settings of each row."""

    runs: Mapping[tuple[str, int], Record] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, grid: Grid, measure: Measure) -> "Known":
        """The runs in a result, which must have been made with the present settings."""
        content = read_object(path, FORMAT)
        if (made := (content.get("bench"), content.get("measure"))) != (grid.name, measure.name):
            raise ArdorError(
                f"'{path}' is a result of {made[0]!r}, not of the bench '{grid.name}'",
                f"give one that 'ardor bench {grid.name}' wrote",
            )
        try:
            known = {(run["method"], run["seed"]): run for run in content["runs"]}
            own = {at: known[at] for at in grid.cells() if at in known}
            for row in {row for row, _ in own}:
                measure.row(row, [run for at, run in own.items() if at[0] == row])
            settings = {row: dict(content["settings"][row]) for row, _ in own}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArdorError(f"'{path}' is no result as this Ardor writes them", ANEW) from error
        for row, made_with in settings.items():
            check_same(path, row, reopened(made_with), grid)
        return cls(own, settings)


def check_same(path: Path, row: str, made: Config, grid: Grid) -> None:
    """An ArdorError where a row was made with other settings than the present ones."""
    now = layered((*grid.layers(row, made.seed), {"device": made.device}))
    images = now.data.model_copy(update={"source": name_of(now.data.source)})
    if other := difference(made, now.model_copy(update={"data": images})):
        raise ArdorError(f"'{row}' in '{path}' was made with {other}", ANEW)


def portable(config: Config) -> dict[str, Any]:
    """The settings of a row for a result: without machine and seed."""
    settings = config.model_dump(exclude={"seed", "device"})
    settings["data"]["source"] = name_of(config.data.source)
    return settings


def name_of(source: str) -> str:
    """The name of a data set, without the folder it is in."""
    return "".join(named(source))
