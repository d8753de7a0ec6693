"""Bayesian architecture search: from labelled images to a small, sparse, trained network."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ardor.architecture import Architecture, Choice
    from ardor.errors import ArdorError
    from ardor.methods import Method
    from ardor.models.model import Model
    from ardor.pipeline.run import Run, load
    from ardor.pipeline.stages import do, finish
    from ardor.settings.presets import preset
    from ardor.spaces import Net, Space

# Loaded when first asked for: `ardor --help` must not wait for torch.
_HOMES = {
    "Architecture": "architecture",
    "ArdorError": "errors",
    "Choice": "architecture",
    "Method": "methods",
    "Model": "models.model",
    "Net": "spaces",
    "Run": "pipeline.run",
    "Space": "spaces",
    "do": "pipeline.stages",
    "finish": "pipeline.stages",
    "load": "pipeline.run",
    "preset": "settings.presets",
}

__all__ = [
    "Architecture",
    "ArdorError",
    "Choice",
    "Method",
    "Model",
    "Net",
    "Run",
    "Space",
    "do",
    "finish",
    "load",
    "preset",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ardor' has no attribute '{name}'")
    return getattr(import_module(f"ardor.{_HOMES[name]}"), name)
