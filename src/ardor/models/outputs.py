"""Which output of a teacher is which of our classes: by place, by name, or by a file that says."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ardor.errors import ArdorError, reason, unknown
from ardor.runtime.files import parse_json, plain, read_bytes

LARGEST = 2**22  # bytes of a file that maps outputs to classes
LEAST = 1e-7  # a probability of 0, as float32 cannot tell it from less
EXAMPLE = 'a line for each output: 281 = "cat" in TOML, or {"281": "cat"} in JSON'


@dataclass(frozen=True)
class Outputs:
    """The outputs of each of our classes, whose probabilities are added up; and why these."""

    of: tuple[tuple[int, ...], ...]
    words: str

    def log_probabilities(self, found: Tensor, *, shares: bool) -> Tensor:
        """Those of our classes, from rows that are logits or, with `shares`, probabilities."""
        logs = found.clamp_min(LEAST).log() if shares else found.log_softmax(1)
        each = [logs[:, list(places)].logsumexp(1) for places in self.of]
        return torch.stack(each, 1).log_softmax(1)


def are_probabilities(found: Tensor) -> bool:
    """Whether all rows are at least 0 and sum to one."""
    return bool((found >= 0).all() and ((found.sum(1) - 1).abs() < 1e-3).all())


def outputs_of(
    path: Path, count: int, names: Sequence[str], classes: Sequence[str], file: Path | None
) -> Outputs:
    """Which outputs of a teacher with so many are our classes; `names` are those in its file."""
    names = names if len(names) == count else ()
    if file is not None:
        return mapped(file, count, names, classes)
    if names and set(names) >= set(classes):
        return Outputs(tuple((names.index(name),) for name in classes), "by name")
    if names:
        strange = next(name for name in classes if name not in names)
        raise ArdorError(
            f"the teacher '{path}' does not know class '{strange}', but {listed(names)}",
            f"say in a file which outputs are which class: --teacher-classes FILE, {EXAMPLE}",
        )
    if count != len(classes):
        raise ArdorError(
            f"the teacher '{path}' has {count:,} outputs; must be {len(classes)}: "
            f"{listed(classes)}",
            f"say in a file which outputs are which class: --teacher-classes FILE, {EXAMPLE}",
        )
    return Outputs(tuple((at,) for at in range(count)), f"in the order {listed(classes)}")


def mapped(file: Path, count: int, names: Sequence[str], classes: Sequence[str]) -> Outputs:
    """The outputs as a file has them."""
    found: dict[str, list[int]] = {name: [] for name in classes}
    for output, name in read(file).items():
        if not isinstance(name, str):
            raise ArdorError(f"{output} in '{file}' is {name!r}; must be a class", EXAMPLE)
        if name not in found:
            raise unknown(f"class in '{file}':", name, classes)
        found[name].append(place_of(output, file, count, names))
    for name, places in found.items():
        if not places:
            raise ArdorError(
                f"no output is mapped to class '{name}' in '{file}'",
                "every class needs one: a teacher cannot tell of what it does not know",
            )
    used = sum(map(len, found.values()))
    words = f"by '{file}', {used:,} of {count:,} outputs"
    return Outputs(tuple(tuple(places) for places in found.values()), words)


def place_of(output: str, file: Path, count: int, names: Sequence[str]) -> int:
    """The place of an output, from its name or number."""
    if output in names:
        return names.index(output)
    if output.isdecimal() and output.isascii() and len(output) < 10 and int(output) < count:
        return int(output)
    known = "names in its file" if names else "numbers alone, as its file has no names"
    raise ArdorError(
        f"'{file}' names an output '{output[:80]}'; must be 0 to {count - 1}, or one of {known}",
        EXAMPLE,
    )


def read(file: Path) -> Mapping[str, Any]:
    """Output to class, from a TOML or JSON file."""
    try:
        text = read_bytes(file, LARGEST).decode()
        content = parse_json(text) if file.suffix.lower() == ".json" else plain(tomllib.loads(text))
    except (OSError, ValueError, RecursionError) as error:
        raise ArdorError(f"cannot read '{file}': {reason(error)}", EXAMPLE) from error
    if not isinstance(content, dict):
        raise ArdorError(f"'{file}' must map outputs to classes", EXAMPLE)
    return content


def listed(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
