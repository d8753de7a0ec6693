"""Opening a network by what a person has of it: the folder of a run, or of a model alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import overload

from torch import nn

from ardor import discover, spaces
from ardor.errors import ArdorError
from ardor.models.ensemble import Ensemble, check_count
from ardor.models.ensemble import load as load_ensemble
from ardor.models.model import Model
from ardor.pipeline.run import Run
from ardor.runtime.files import read_json

WEIGHTS = "model.safetensors"
# Entries by which a config.json is that of a run, whatever else may be wrong with it.
OF_A_RUN = frozenset({"stages", "data", "space", "method"})


@overload
def load(
    folder: Path | str, trust: Sequence[str] = (), *, module: nn.Module | None = None
) -> Model: ...
@overload
def load(
    folder: Path | str,
    trust: Sequence[str] = (),
    *,
    ensemble: int,
    module: nn.Module | None = None,
) -> Ensemble: ...
def load(
    folder: Path | str,
    trust: Sequence[str] = (),
    *,
    ensemble: int | None = None,
    module: nn.Module | None = None,
) -> Model | Ensemble:
    """The network of a run, or of a model's folder, ready to predict.

    With `ensemble` so many networks of its search, which predict the mean of their probabilities.
    `trust` names the modules of your own that may be imported for it. A network that was a module
    of a script is built from such a module again: `module`, of any weights.
    """
    if module is not None:
        give(module, Path(folder))
    found = networks_in(folder, 1 if ensemble is None else ensemble, trust)[0]
    return found.models[0] if ensemble is None else found


def give(module: nn.Module, folder: Path) -> None:
    """Has the network in a folder be built from a module; an ArdorError if it was another one."""
    name = discover.name_of(spaces.of_module(module))
    content = read_json(folder / "config.json") if is_model(folder) else Run.open(folder).config
    made = content["architecture"] if isinstance(content, dict) else content.space
    found = made.get("space" if isinstance(content, dict) else "name")
    if found != name:
        raise ArdorError(
            f"the network in '{folder}' was made of another module: {found}, and not {name}",
            "give one of the class and sizes that it had, or begin in a new folder",
        )


def networks_in(
    folder: Path | str, count: int = 1, trust: Sequence[str] = ()
) -> tuple[Ensemble, str]:
    """So many networks, and which of a run they are: "pruned" or "trained"; "" if alone."""
    discover.trust(trust)
    folder = Path(folder)
    if is_model(folder):
        return load_ensemble(folder, count), ""
    run = Run.open(folder)
    if (folder / "model").exists():
        return load_ensemble(folder / "model", count), "pruned"
    trained = run.trained()
    check_count(folder, count, 1, f"the others are written when it is pruned: {run.typed('prune')}")
    return Ensemble((trained,)), "trained"


def is_model(folder: Path) -> bool:
    """Whether it is the folder of a model, and not of a run; an ArdorError if it is neither."""
    config = folder / "config.json"
    if not config.exists():
        raise neither(folder, "it has no config.json")
    content = read_json(config)
    if not isinstance(content, dict) or OF_A_RUN & content.keys():
        return False
    if "architecture" not in content:
        raise neither(folder, "its config.json is of something else")
    if not (folder / WEIGHTS).exists():
        raise neither(folder, f"it has the config.json of a model, and no {WEIGHTS}")
    return True


def neither(folder: Path, why: str) -> ArdorError:
    """The error for a folder without a network to open."""
    return ArdorError(
        f"'{folder}' is the folder of no model and of no run: {why}",
        f"name a model's folder, which has {WEIGHTS} and config.json, "
        "or a run's, which 'ardor run' makes",
    )
