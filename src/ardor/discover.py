"""Finding a method, space or data reader by the name of its module: adding one is adding a file."""

import importlib
import importlib.util
import pkgutil
from types import ModuleType
from typing import TypeVar

from ardor.errors import ArdorError, unknown

T = TypeVar("T")


def names(package: ModuleType) -> list[str]:
    """The public modules of a package, which are the things it offers."""
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name for name in found if not name.startswith("_"))


def find(package: ModuleType, name: str, base: type[T]) -> type[T]:
    """The one subclass of `base` in the module `name`; a dotted name is a user's own module."""
    kind = base.__name__.lower()
    if "." not in name and name not in names(package):
        raise unknown(kind, name, names(package))
    module = _import(name if "." in name else f"{package.__name__}.{name}", kind)
    found = [
        thing
        for thing in vars(module).values()
        if isinstance(thing, type)
        and issubclass(thing, base)
        and thing.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise ArdorError(
            f"module '{name}' has {len(found)} classes of kind {kind}; it must have one",
            f"a {kind} is a file with one subclass of ardor's {base.__name__}",
        )
    return found[0]


def _import(name: str, kind: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        raise ArdorError(
            f"no module '{name}' for the {kind}", "a dotted name must be importable: set PYTHONPATH"
        ) from error


def name_of(cls: type) -> str:
    """The name by which `find` finds the class again."""
    module = cls.__module__
    return module.rsplit(".", 1)[1] if module.startswith("ardor.") else module
