"""Opening a network by what a person has of it: the folder of a run, or of a model alone."""

from collections.abc import Sequence
from pathlib import Path

from ardor import discover
from ardor.errors import ArdorError
from ardor.models.model import Model
from ardor.pipeline.run import Run
from ardor.runtime.files import read_json

WEIGHTS = "model.safetensors"
# Entries by which a config.json is that of a run, whatever else may be wrong with it.
OF_A_RUN = frozenset({"stages", "data", "space", "method"})


def load(folder: Path | str, trust: Sequence[str] = ()) -> Model:
    """The network of a run, or of a model's folder, ready to predict.

    `trust` names the modules of your own that may be imported for it.
    """
    return network_in(folder, trust)[0]


def network_in(folder: Path | str, trust: Sequence[str] = ()) -> tuple[Model, str]:
    """A network, and which one of a run it is: "pruned" or "trained"; "" where it is alone."""
    discover.trust(trust)
    folder = Path(folder)
    if is_model(folder):
        return Model.load(folder), ""
    run = Run.open(folder)
    return run.model(), "pruned" if (folder / "model").exists() else "trained"


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
