"""Presets: named settings that come with Ardor."""

import tomllib
from importlib import resources
from typing import Any

from ardor.errors import unknown
from ardor.settings.merge import merge

PRESETS = "settings/presets"
USUAL = "photos"  # where neither a space nor a method is named


def presets() -> dict[str, str]:
    """Preset -> its first comment line."""
    return titles(PRESETS)


def titles(folder: str) -> dict[str, str]:
    """Each TOML file in a folder of the package -> its first comment line."""
    found = (resources.files("ardor") / folder).iterdir()
    files = {f.name[:-5]: f for f in found if f.name.endswith(".toml")}
    return {name: files[name].read_text().splitlines()[0].lstrip("# ") for name in sorted(files)}


def preset(name: str) -> dict[str, Any]:
    """The settings of a preset, on top of those of the one that it extends."""
    if name not in presets():
        raise unknown("preset", name, presets())
    own = tomllib.loads((resources.files("ardor") / PRESETS / f"{name}.toml").read_text())
    base = own.pop("extends", None)
    return merge(preset(base), own) if base else own
