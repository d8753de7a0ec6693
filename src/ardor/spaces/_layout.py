"""The texts that describe cells, read and checked: a layout ("6N R 6N") and sets of operations."""

import re
from collections.abc import Sequence

from ardor.errors import ArdorError, unknown
from ardor.layers.operations import OPS, SETS, ZERO
from ardor.spaces._edges import BY_EDGE, STATES

LARGEST = 100  # cells of a layout: more must be a typing error
LAYOUT = re.compile(r"(\d*)([NR])")


def letters(layout: str) -> str:
    """A layout written out: one letter for each cell."""
    return "".join(kind * int(count or 1) for count, kind in LAYOUT.findall(layout))


def operations_named(ops: str) -> tuple[str, ...]:
    """The operations of a set, or of names separated by commas."""
    if ops in SETS:
        return SETS[ops]
    if ops in BY_EDGE:
        return tuple(dict.fromkeys(op for own in BY_EDGE[ops].values() for op in own))
    listed = tuple(name.strip() for name in ops.split(","))
    for name in listed:
        if name not in {*OPS, ZERO}:
            known = [*OPS, ZERO] if "," in ops else [*SETS, *BY_EDGE, *OPS]
            raise unknown("operation", name, known)
    return listed


def check_layout(layout: str) -> None:
    """An ArdorError unless the text is a layout of at least one cell, and of at most `LARGEST`."""
    # Counted before it is written out: "999999999N" would fill the memory.
    cells = sum(int(count or 1) for count, _ in LAYOUT.findall(layout))
    if cells > LARGEST:
        raise ArdorError(
            f"space.layout '{layout}' has {cells} cells; must be at most {LARGEST}",
            "use fewer cells: DARTS trains 20",
        )
    if LAYOUT.sub("", layout).strip() or not cells:
        raise ArdorError(
            f"space.layout '{layout}' must be cells N and R, with counts if you like",
            'for example "R", "NNRNNRNN" or "6N R 6N R 6N"',
        )


def check_halvings(layout: str, halvings: int, channels: int, side: int) -> None:
    """An ArdorError where images, or their channels, cannot be halved as often as they would be."""
    cells = letters(layout)
    if side < 2 ** (halvings + cells.count("R")):
        stem = f" after space.halvings = {halvings}" if halvings else ""
        raise ArdorError(
            f"space.layout '{layout}'{stem} halves {side} pixels more often than they allow",
            f"use fewer {'halvings or ' if stem else ''}reduction cells, or larger images",
        )
    if halvings and channels == 1 and cells[0] == "N":
        raise ArdorError(
            f"space.channels = 1 must be at least 2 with space.halvings = {halvings}",
            "what halves an image parts its channels in two: use --set space.channels=2",
        )


def check_operations(ops: str, operations: Sequence[str], states: int) -> None:
    """An ArdorError unless there are two operations, and as many states as a set by edges has."""
    if len(set(operations)) < 2:
        raise ArdorError(
            f"space.ops '{ops}' must be at least two operations",
            f"separate them by commas, or name a set: {', '.join([*SETS, *BY_EDGE])}",
        )
    if ops in BY_EDGE and states != STATES:
        raise ArdorError(
            f"space.states {states} must be {STATES} with space.ops '{ops}', "
            "which names the candidates of each edge",
            f"use --set space.states={STATES}, or another set: {', '.join(SETS)}",
        )
