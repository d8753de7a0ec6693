"""Finding a method, space or data reader by the name of its module: adding one is adding a file."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeGuard, TypeVar

from ardor.errors import ArdorError, unknown

T = TypeVar("T")
BUILD = "build"  # the function of a module that is a space
# Dotted modules that a person has named: whatever a file says, no other one is imported.
_trusted: set[str] = set()


def trust(modules: Iterable[str]) -> None:
    """Lets these modules be imported: a person has named them, which no file can do."""
    for module in [modules] if isinstance(modules, str) else modules:
        if not is_dotted(module):
            raise ArdorError(
                f"trust = {module!r} must be the dotted name of a module",
                "name it as the run does that was made with it, for example lab.mine",
            )
        _trusted.add(module)


def trusted(names: Iterable[str]) -> list[str]:
    """Those of the names that are modules which a person has named, each once."""
    return sorted(_trusted.intersection(names))


def is_dotted(name: Any) -> TypeGuard[str]:
    """Whether it names a module of a person's own, such as lab.mine."""
    return _is_name(name) and "." in name


def module_of(typed: str) -> str:
    """The module that a person has typed: lab.mine, or lab.mine:build, its function `build`."""
    module, colon, function = typed.partition(":")
    if colon and function != BUILD:
        raise ArdorError(
            f"the function '{function}' of '{typed}' must be '{BUILD}'",
            f"files know a space by its module: call it 'def {BUILD}(image, classes, ...)', "
            f"and type {module}:{BUILD}",
        )
    if colon and not is_dotted(module):
        raise ArdorError(
            f"the module '{module}' must be in a folder, so that its name has a dot",
            "put it into one, such as lab/nets.py, and type lab.nets",
        )
    return module


def check_name(kind: str, name: Any) -> None:
    """An ArdorError unless it can be the name of a method or space, before it is looked up."""
    if not _is_name(name):
        raise ArdorError(
            f"{kind}.name = {name!r} must be the name of a {kind}",
            f"'ardor list {kind}s' shows them; a dotted name is a module of your own",
        )


def _is_name(name: Any) -> TypeGuard[str]:
    return isinstance(name, str) and all(map(str.isidentifier, name.split(".")))


def names(package: ModuleType) -> list[str]:
    """The public modules of a package, which are the things it offers."""
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name for name in found if not name.startswith("_"))


def find(
    package: ModuleType,
    name: str,
    base: type[T],
    *,
    otherwise: Callable[[ModuleType], list[type[T]]] = lambda module: [],
) -> type[T]:
    """The one subclass of `base` in the module `name`; a dotted name is a user's own module.

    A module of one's own without any may say it in another way, as `otherwise` finds.
    """
    kind = base.__name__.lower()
    check_name(kind, name)
    if not is_dotted(name) and name not in names(package):
        raise unknown(kind, name, names(package))
    if is_dotted(name):
        module = _own(name, kind)
    else:
        module = importlib.import_module(f"{package.__name__}.{name}")
    found = [
        thing
        for thing in vars(module).values()
        if isinstance(thing, type)
        and issubclass(thing, base)
        and thing.__module__ == module.__name__
    ]
    found = found or otherwise(module)
    if len(found) != 1:
        raise ArdorError(
            f"module '{name}' has {len(found)} classes of kind {kind}; it must have one",
            f"a {kind} is a file with one subclass of ardor's {base.__name__}",
        )
    return found[0]


def _own(name: str, kind: str) -> ModuleType:
    """A module of a person's own: importing runs what is in it, so that they must have named it."""
    if name not in _trusted:
        raise ArdorError(
            f"the {kind} '{name}' is a module that is imported only where you name it yourself",
            f"if you know what it does: --trust {name}, or trust=('{name}',) in Python",
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _not_imported(name, error) from error
        raise ArdorError(
            f"no module '{name}' for the {kind}", "a dotted name must be importable: set PYTHONPATH"
        ) from error
    except Exception as error:
        raise _not_imported(name, error) from error


def _not_imported(name: str, error: Exception) -> ArdorError:
    words = " ".join(str(error).split())
    return ArdorError(
        f"module '{name}' cannot be imported: {type(error).__name__}: {words:.200}",
        f"try it yourself: python -c 'import {name}'",
    )


def name_of(cls: type) -> str:
    """The name by which `find` finds the class again."""
    module = cls.__module__
    return module.rsplit(".", 1)[1] if module.startswith("ardor.") else module
