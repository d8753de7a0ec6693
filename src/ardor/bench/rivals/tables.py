"""The result of the bench of rivals as small tables: one for each set of images and time."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

Row = Mapping[str, Any]

REFERENCE = "cnn"  # what the means of the others are held against


@dataclass(frozen=True)
class Small:
    """A table with its title."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def small_tables(table: Sequence[Row]) -> Iterator[Small]:
    """The means over sets where there are several; then each set and time."""
    if any(len(row["sets"]) > 1 for row in means(table)):
        yield mean_table(table)
    columns = ("contender", "test accuracy", "parameters", "not zero", "M mult-adds", "ms", "CPU s")
    for (images, minutes), rows in grouped(table).items():
        seeds = sorted({row["seeds"] for row in rows})
        words = " or ".join(map(str, seeds)) + (" seed" if seeds == [1] else " seeds")
        title = f"{images}, {minutes:g} min, {words}"
        yield Small(title, columns, [cells(row) for row in rows])


def grouped(table: Sequence[Row]) -> dict[tuple[str, float], list[Row]]:
    """The rows of each set of images and time, the sets as they come and short times first."""
    groups: dict[tuple[str, float], list[Row]] = {}
    for row in table:
        groups.setdefault((row["images"], row["minutes"]), []).append(row)
    sets = list(dict.fromkeys(images for images, _ in groups))
    return dict(sorted(groups.items(), key=lambda group: (sets.index(group[0][0]), group[0][1])))


def cells(row: Row) -> tuple[str, ...]:
    """One contender: accuracy with half of its 95 % interval, sizes, and time."""
    sizes = [f"{row[name]:,.0f}" if name in row else "-" for name in ("params", "nonzero_params")]
    return (
        str(row["contender"]),
        f"{row['accuracy']:.1%} ± {row['interval']:.1%}",
        *sizes,
        f"{row['macs'] / 1e6:.2f}" if "macs" in row else "-",
        f"{row['latency_ms']:.2f}" if "latency_ms" in row else "-",
        f"{row['cpu_seconds']:.0f}",
    )


def means(table: Sequence[Row]) -> list[dict[str, Any]]:
    """For each time and contender its mean accuracy over the sets that all contenders have."""
    found = []
    for minutes in sorted({row["minutes"] for row in table}):
        at = {(row["images"], row["contender"]): row for row in table if row["minutes"] == minutes}
        contenders = list(dict.fromkeys(contender for _, contender in at))
        sets = [s for s in dict.fromkeys(s for s, _ in at) if all((s, c) in at for c in contenders)]
        for contender in contenders if sets else ():
            own = [at[images, contender] for images in sets]
            mean = {"minutes": minutes, "sets": sets, "contender": contender}
            mean["accuracy"] = fmean(row["accuracy"] for row in own)
            # Each set has test images of its own: their chances are independent.
            mean["interval"] = math.hypot(*(row["interval"] for row in own)) / len(own)
            found.append(mean)
    return found


def mean_table(table: Sequence[Row]) -> Small:
    """The means over sets, each beside that of the hand-written network at the same time."""
    found = means(table)
    reference = {row["minutes"]: row["accuracy"] for row in found if row["contender"] == REFERENCE}
    rows = []
    for row in found:
        against = reference.get(row["minutes"])
        apart = "-" if against is None else f"{100 * (row['accuracy'] - against):+.1f}"
        accuracy = f"{row['accuracy']:.1%} ± {row['interval']:.1%}"
        sets, contender = str(len(row["sets"])), str(row["contender"])
        rows.append((contender, f"{row['minutes']:g}", sets, accuracy, apart))
    columns = ("contender", "min", "sets", "mean accuracy", f"points over {REFERENCE}")
    return Small("mean over the sets that all contenders have", columns, rows)
