"""The folder of a run on disk: its name, its files, and config.json written and read."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ardor import spaces
from ardor.architecture import Architecture, not_one
from ardor.errors import ArdorError
from ardor.models.card import GIVEN, card
from ardor.models.model import Model
from ardor.pipeline.resolve import searched_space
from ardor.reporting.evaluation import FILE as EVALUATION
from ardor.runtime.files import check_links, new_folder, read_json, read_object, write_json
from ardor.runtime.origin import FORMAT, about
from ardor.settings.merge import reopened
from ardor.settings.sections import Config

STAGES = ("search", "train", "prune", "export", "evaluate", "report")
COMPRESSING = ("train", "compress", "export", "evaluate", "report")  # of a network one has
# Stage -> the file that it writes; that of evaluate is for the report, its figures are metrics.
WRITTEN = {
    "search": "architecture.json",
    "train": "trained/model.safetensors",
    "prune": "model/model.safetensors",
    "compress": "model/model.safetensors",
    "export": "export/exports.json",
    "evaluate": EVALUATION,
    "report": "report.html",
}
SEARCHED = "searched/weights.safetensors"  # the found architecture's, learned in the supernet
# Entries of config.json that are not settings.
ABOUT = frozenset({"format", "command", "commit", "versions", "machine", "stages", "place"})


class Taken(ArdorError):
    """A file or folder exists where a new run was to be made."""


def free_folder(config: Config) -> Path:
    """The first of runs/DATA-METHOD-1, -2, ... that is free; of a network, runs/DATA-NETWORK-1."""
    name, number = os.path.basename(os.path.abspath(config.data.source)), 1
    how = config.method if searched_space(config).choices else config.space
    while (folder := Path("runs") / f"{name}-{how['name']}-{number}").exists():
        number += 1
    return folder


def check_free(folder: Path) -> None:
    """An ArdorError unless a new run can be made there."""
    if folder.exists():
        resumable = (folder / "config.json").exists()
        more = f", or continue it: {typed('resume', folder)}" if resumable else ""
        raise Taken(
            f"'{folder}' exists already, and is left as it is",
            f"choose another folder with --run{more}",
        )
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ArdorError(
            f"{ascii(str(folder))} must be a name in UTF-8", "choose another folder with --run"
        ) from None


def make(
    folder: Path,
    command: str,
    settings: Mapping[str, Any],
    architecture: Mapping[str, Any] | None,
    trained: Model | None = None,
) -> None:
    """A new folder with config.json, and with an architecture and a network where one is given."""
    try:
        with new_folder(folder) as filling:
            if trained:
                trained.save(filling / "trained", card=card("trained", trained, origin=GIVEN))
            if architecture:
                write_json(filling / "architecture.json", architecture)
            write_json(filling / "config.json", {**about(command), **settings})
    except ArdorError:
        check_free(folder)  # someone else may have made it meanwhile
        raise


def update(folder: Path, settings: Mapping[str, Any]) -> None:
    """Writes changed settings into config.json."""
    path = folder / "config.json"
    write_json(path, {**read_json(path), **settings})


def read(folder: Path) -> tuple[Config, tuple[str, ...], dict[str, str]]:
    """From config.json the settings, the stages, and where what was typed is, as far as known."""
    path = folder / "config.json"
    if not path.exists():
        raise ArdorError(
            f"'{folder}' is not the folder of a run: it has no config.json",
            "a run folder is what 'ardor run' or 'ardor search' makes",
        )
    check_links(folder)
    content = read_object(path, FORMAT)
    stages = checked_stages(content.get("stages", []), path)
    config = reopened({key: value for key, value in content.items() if key not in ABOUT})
    # Older files have no place; and if the source was edited by hand, the place is of another one.
    places = content.get("place")
    known = places.items() if isinstance(places, dict) else ()
    return config, stages, {typed: place for typed, place in known if isinstance(place, str)}


def checked_stages(stages: Any, path: Path) -> tuple[str, ...]:
    """The stages in a config file; an ArdorError where one is unknown, or there are none."""
    strange = [s for s in stages if s not in WRITTEN] if isinstance(stages, list) else [stages]
    if strange or not stages:
        held = repr(strange[0]) if strange else "none"
        raise ArdorError(
            f"stages in '{path}' hold {held}; must be of {', '.join(WRITTEN)}",
            "put back what Ardor wrote there",
        )
    return tuple(stages)


def read_architecture(folder: Path, config: Config) -> Architecture:
    """The architecture in a folder; an ArdorError if it is not of the space in its settings."""
    return adopted(read_json(folder / "architecture.json"), config)


def read_members(folder: Path, config: Config) -> tuple[Architecture, ...]:
    """The other architectures that predict together with it; none in most runs."""
    content = read_json(folder / "architecture.json")
    others = content.get("members", []) if isinstance(content, dict) else []
    if not isinstance(others, list):
        raise not_one("'members' must be a list of what each keeps")
    others = others[: config.search.ensemble - 1]
    return tuple(adopted({**content, "kept": kept}, config) for kept in others)


def adopted(content: Any, config: Config) -> Architecture:
    """An architecture of a file in the space of these settings; an ArdorError if it is of none."""
    found = Architecture.from_json(content)
    space = searched_space(config)
    own = space.adopted(found)
    # Settings that an older file does not have are the defaults.
    if found.space != config.space["name"] or spaces.of(found) != space:
        raise spaces.foreign("its space or settings are not those in config.json")
    return own


def typed(command: str, folder: Path, trust: Sequence[str] = ()) -> str:
    """A command on a run, as a person types it."""
    words = ["ardor", command, str(folder)]
    return shlex.join([*words, *(word for module in trust for word in ("--trust", module))])
