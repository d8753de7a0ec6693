"""What was found on other images: one file for each space, a line for each network trained."""

import csv
from collections.abc import Collection, Mapping
from importlib.resources import files

from ardor.architecture import Options

Known = list[tuple[Options, float]]  # what was kept, and how it scored: all on the same images


def known(space: str, without: Collection[str] = ()) -> list[Known]:
    """The scores in the file of a space, by sets of images; none where there is no file."""
    groups: dict[str, Known] = {}
    for row in rows(space):
        if row["images"] not in without:
            groups.setdefault(row["images"], []).append((kept(row), float(row["score"])))
    return list(groups.values())


def believed(space: str) -> Options:
    """What the first line of the file keeps, from which the others were made; {} without a file."""
    return next(map(kept, rows(space)), {})


def kept(row: Mapping[str, str]) -> Options:
    """What a line keeps of each choice."""
    found = ((name, cell) for name, cell in row.items() if name not in ("images", "score"))
    return {name: (cell,) for name, cell in found}


def rows(space: str) -> list[dict[str, str]]:
    """The lines of the file of a space: images, score, and an option of each choice."""
    path = files(__name__) / f"{space}.csv"
    if "." in space or not path.is_file():
        return []
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))
