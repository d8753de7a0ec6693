"""What was found on other images: one file for each space, a line for each network trained."""

import csv
from collections.abc import Collection
from importlib.resources import files

from ardor.architecture import Options

Known = list[tuple[Options, float]]  # what was kept, and how it scored: all on the same images


def known(space: str, without: Collection[str] = ()) -> list[Known]:
    """The scores in the file of a space, by sets of images; none where there is no file."""
    path = files(__name__) / f"{space}.csv"
    if "." in space or not path.is_file():
        return []
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    groups: dict[str, Known] = {}
    for row in csv.DictReader(lines):
        images, score = row.pop("images"), float(row.pop("score"))
        if images not in without:
            kept = {choice: (option,) for choice, option in row.items() if option}
            groups.setdefault(images, []).append((kept, score))
    return list(groups.values())
