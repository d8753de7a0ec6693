"""Grids of runs: rows that differ in a few settings, each with several seeds."""

import json
import os
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import resources
from pathlib import Path
from typing import Any

from ardor.errors import ArdorError, unknown
from ardor.pipeline.resolve import flat
from ardor.settings.merge import merge
from ardor.settings.presets import preset, presets, titles

FOLDER, TABLES = "bench/grids", "bench/published"
CHANCE = "random"  # the row whose number of runs --random says
OPTIONS = {"method.name": "--method", "space.name": "--space"}  # settings with a short option
SMALL = "-small"  # ends the names of presets that are a paper's, made smaller

Layer = Mapping[str, Any]


@dataclass(frozen=True)
class Grid:
    """The rows of a bench, the settings and seeds of each, and the figures a paper publishes."""

    name: str
    place: str  # the folder of its runs, below that of all benches
    rows: Mapping[str, tuple[Layer, ...]]
    counts: Mapping[str, int]  # row -> runs, with the seeds 0, 1, ...
    searched_by: Mapping[str, str]  # row -> the row whose searches it selects from
    printed: Mapping[str, Any]
    measure: str = "networks"  # what is measured of its runs
    preset: str = ""  # below all rows
    note: str = ""  # a remark below its table

    def cells(self) -> Iterator[tuple[str, int]]:
        """Row and seed, seed after seed, so that a stopped bench leaves rows to compare."""
        for seed in range(max(self.counts.values())):
            yield from ((row, seed) for row, count in self.counts.items() if seed < count)

    def layers(self, row: str, seed: int) -> tuple[Layer, ...]:
        """The settings of a run, each layer over those before it."""
        return (*self.rows[row], {"seed": seed})

    def command(self, row: str, verb: str) -> str:
        """The command that makes the first run of a row by itself."""
        _, *changes = self.rows[row]
        given = flat(reduce(merge, changes, {}))
        (source,) = named(given.pop("data.source"))
        return typed(verb, source, given, self.preset, seed=0)


def typed(verb: str, source: str, given: Layer, preset: str, *, seed: int) -> str:
    """The command that makes a run with settings, by their full names, over a preset."""
    words = ["ardor", verb, source]
    words += ["--preset", preset] if preset else []
    for name, option in OPTIONS.items():
        words += [option, given[name]] if name in given else []
    for name, value in given.items():
        if name not in OPTIONS:
            word = value if isinstance(value, str) else json.dumps(value)
            words += ["--set", f"{name}={word}"]
    return shlex.join([*words, "--seed", str(seed)])


def names() -> dict[str, str]:
    """The grids that come with Ardor, each in a line."""
    tables = titles(TABLES)
    by_preset = {
        name: f"{tables[family]}: {words}"
        for name, words in presets().items()
        if (family := family_of(name)) in tables
    }
    return {**titles(FOLDER), **by_preset}


def family_of(name: str) -> str:
    """The paper that a preset is from, with which its name begins."""
    return name.partition("-")[0] if "-" in name else ""


def read(
    name: str,
    *,
    source: str | None = None,
    seeds: int | None = None,
    chance: int | None = None,
    methods: Sequence[str] = (),
    time: str | None = None,
) -> Grid:
    """The grid of that name, on other images, with other rows, numbers of runs and search time.

    `methods` are rows of the grid, or methods that it has no row for: set like the others.
    """
    found = file_of(name)
    base = preset(found["preset"]) if "preset" in found else {}
    settings = found.get("settings", {})
    check_images(name, source, settings)
    given = [{} if source is None else {"data": {"source": source}}, *timed(time)]
    changes = {row: change_of(row, found["methods"]) for row in methods or found["methods"]}
    own = found.get("runs", {})
    counts = {row: own.get(row, found["seeds"]) if seeds is None else seeds for row in changes}
    if chance is not None and CHANCE not in counts:
        raise ArdorError(f"--random {chance} is not for the bench '{name}'", "leave it out")
    counts |= {} if chance is None else {CHANCE: chance}
    searched_by = found.get("searched_by", {}).items()
    return Grid(
        name=name,
        place="-".join([name, *named(source), *([time] if time else [])]),
        rows={row: (base, settings, of, *given) for row, of in changes.items()},
        counts={row: count for row, count in counts.items() if count},
        searched_by={row: first for row, first in searched_by if {row, first} <= changes.keys()},
        printed=printed(name, found.get("printed", {})),
        measure=found.get("measure", "networks"),
        preset=found.get("preset", ""),
        note=found.get("note", ""),
    )


def change_of(row: str, known: Layer) -> Layer:
    """The settings of a row that differ from those of the others."""
    change: Layer = known.get(row, {"method": {"name": row}})
    return change


def timed(time: str | None) -> list[Layer]:
    """The settings of a search that ends within a time."""
    return [] if time is None else [{"search": {"time": time}}]


def named(source: str | None) -> list[str]:
    """The name of a data set, for the name of a folder."""
    return [] if source is None else [Path(os.path.abspath(source)).name]


def file_of(name: str) -> dict[str, Any]:
    """The content of a bench's file, or of the file of the paper that its preset is from."""
    if name not in names():
        raise unknown("bench", name, names())
    own = name in titles(FOLDER)
    path = f"{FOLDER}/{name}.toml" if own else f"{TABLES}/{family_of(name)}.toml"
    found = tomllib.loads((resources.files("ardor") / path).read_text())
    return found if own else {"preset": name, **found}


def check_images(name: str, source: str | None, settings: Layer) -> None:
    """An ArdorError where a bench has no images."""
    if source is None and "source" not in settings.get("data", {}):
        raise ArdorError(
            f"the bench '{name}' has no images of its own",
            f"name the folder or file that has them: ardor bench {name} --data FOLDER",
        )


def printed(name: str, figures: Layer) -> dict[str, Any]:
    """The figures that a paper publishes for a bench, and where; empty if there are none."""
    full = name.removesuffix(SMALL)
    if full not in figures:
        return {}
    version = "-v1" if full.endswith("-v1") else ""
    words = [figures.get(f"note{version}", "")]
    words += [f"Printed for the full sizes of '{full}', not for these."] if full != name else []
    columns = ("test_accuracy_percent", "nonzero_params_millions", "search_gpu_days")
    return {
        "where": figures[f"where{version}"],
        "note": " ".join(filter(None, words)),
        "table": [
            {"method": row, **dict(zip(columns, cells, strict=True))}
            for row, cells in figures[full].items()
        ],
    }
