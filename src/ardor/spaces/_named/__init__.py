"""Architectures that have a name: a file each, with its space, settings, and what it keeps."""

import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any

from ardor.architecture import Architecture
from ardor.errors import unknown
from ardor.spaces._base import Space


def titles() -> dict[str, str]:
    """Name -> its first comment line."""
    found = (file for file in files(__name__).iterdir() if file.name.endswith(".toml"))
    read = {file.name.removesuffix(".toml"): file.read_text() for file in found}
    return {name: read[name].splitlines()[0].lstrip("# ") for name in sorted(read)}


def content(name: str) -> dict[str, Any]:
    """What the file of an architecture holds: its space, and what is kept by patterns of names."""
    if name not in titles():
        raise unknown("architecture", name, titles())
    return tomllib.loads((files(__name__) / f"{name}.toml").read_text())


def kept(space: Space, patterns: Mapping[str, Sequence[str]]) -> Architecture:
    """The architecture of a space that keeps of each choice what the first fitting pattern says.

    Widths of which no pattern speaks are whole.
    """
    found = {choice.name: choice.options for choice in space.choices if choice.kind == "width"}
    for choice in space.choices:
        for pattern, options in patterns.items():
            if fnmatchcase(choice.name, pattern):
                found[choice.name] = tuple(options)
                break
    return space.architecture(found)
