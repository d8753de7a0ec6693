"""Bayesian architecture search: from labelled images to a small, sparse, trained network."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ardor.runtime import waiting

if TYPE_CHECKING:
    from ardor.architecture import Architecture, Choice, Place
    from ardor.bayes import Gates
    from ardor.errors import ArdorError, Interrupted
    from ardor.layers.choices import InputChoice, LayerChoice, WidthChoice
    from ardor.methods import Curvature, Method
    from ardor.models.ensemble import Ensemble
    from ardor.models.model import Model
    from ardor.pipeline.open import load
    from ardor.pipeline.run import Run
    from ardor.pipeline.verbs import compress, resume, run, search, train
    from ardor.runtime.progress import Progress
    from ardor.settings.presets import preset
    from ardor.spaces import Net, Space

    __version__: str

waiting.ask()  # before torch is loaded

# Loaded when first asked for: `ardor --help` must not wait for torch.
_HOMES = {
    "ArdorError": "errors",
    "Architecture": "architecture",
    "Choice": "architecture",
    "Curvature": "methods",
    "Ensemble": "models.ensemble",
    "Gates": "bayes",
    "InputChoice": "layers.choices",
    "Interrupted": "errors",
    "LayerChoice": "layers.choices",
    "Method": "methods",
    "Model": "models.model",
    "Net": "spaces",
    "Place": "architecture",
    "Progress": "runtime.progress",
    "Run": "pipeline.run",
    "Space": "spaces",
    "WidthChoice": "layers.choices",
    "compress": "pipeline.verbs",
    "load": "pipeline.open",
    "preset": "settings.presets",
    "resume": "pipeline.verbs",
    "run": "pipeline.verbs",
    "search": "pipeline.verbs",
    "train": "pipeline.verbs",
}

__all__ = [
    "Architecture",
    "ArdorError",
    "Choice",
    "Curvature",
    "Ensemble",
    "Gates",
    "InputChoice",
    "Interrupted",
    "LayerChoice",
    "Method",
    "Model",
    "Net",
    "Place",
    "Progress",
    "Run",
    "Space",
    "WidthChoice",
    "__version__",
    "compress",
    "load",
    "preset",
    "resume",
    "run",
    "search",
    "train",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("ardor")
    if name not in _HOMES:
        raise AttributeError(f"module 'ardor' has no attribute '{name}'")
    return getattr(import_module(f"ardor.{_HOMES[name]}"), name)
