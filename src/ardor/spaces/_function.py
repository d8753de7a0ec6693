"""From a function `build(image, classes, **settings)` to the space of what it builds."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import field, fields, make_dataclass
from types import ModuleType
from typing import Any

from pydantic.errors import PydanticUserError

from ardor.discover import BUILD
from ardor.errors import ArdorError
from ardor.settings.fields import of as fields_of
from ardor.spaces._base import Space
from ardor.spaces._module import ModuleSpace

PLAIN = (bool, int, float, str)
OWN = {one.name for one in fields(Space)} - {"auxiliary"}  # of every space


def built_in(module: ModuleType) -> list[type[Space]]:
    """The space of a module's own function `build`; an ArdorError where it has none."""
    function = vars(module).get(BUILD)
    if not inspect.isfunction(function) or function.__module__ != module.__name__:
        raise ArdorError(
            f"module '{module.__name__}' has no function 'build' of its own, nor a class of spaces",
            "a space is def build(image, classes, ...) -> nn.Module, or one subclass of Space",
        )
    return [of_function(function)]


@functools.cache
def of_function(function: Callable[..., Any]) -> type[ModuleSpace]:
    """The space of what a function builds, with its settings for fields."""
    if getattr(function, "__name__", "") != BUILD:
        raise ArdorError(
            f"the function {getattr(function, '__name__', function)!r} must be called '{BUILD}'",
            "files know a space by its module: it is found again as the 'build' in there",
        )
    name = function.__module__
    settings = settings_of(function, name)
    made = make_dataclass(
        "Build",
        [(key, kind, field(default=default)) for key, (kind, default) in settings.items()],
        bases=(ModuleSpace,),
        namespace={
            "__module__": name,
            "__doc__": inspect.getdoc(function) or "",
            "function": staticmethod(function),
            "passed": tuple(settings),
            "name": name,
        },
        frozen=True,
        kw_only=True,
    )
    try:
        fields_of(made)
    except PydanticUserError as error:
        raise wrong(name, "has a setting of a type that cannot be checked") from error
    return made


def settings_of(function: Callable[..., Any], name: str) -> dict[str, tuple[Any, Any]]:
    """Setting -> type and default, from what a function takes beside image and classes."""
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except NameError as error:
        raise wrong(name, f"has a type that is not known: {error}") from error
    if [parameter.name for parameter in parameters[:2]] != ["image", "classes"]:
        raise wrong(name, "must take image and classes first")
    return {parameter.name: setting(parameter, name) for parameter in parameters[2:]}


def setting(parameter: inspect.Parameter, name: str) -> tuple[Any, Any]:
    """Type and default of a setting; an ArdorError unless a file can hold it."""
    key, default = parameter.name, parameter.default
    if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
        raise wrong(name, f"takes '{parameter}': every setting must have a name")
    if default is parameter.empty:
        raise wrong(name, f"has a setting '{key}' without a default")
    if key in OWN or (key != "auxiliary" and hasattr(ModuleSpace, key)) or key == "name":
        raise wrong(name, f"has a setting '{key}', a name that every space uses itself")
    entries = default if isinstance(default, tuple) else (default,)
    if not all(entry is None or isinstance(entry, PLAIN) for entry in entries):
        raise wrong(name, f"has a setting {key} = {default!r:.60}, which is no plain value")
    return (type(default) if parameter.annotation is parameter.empty else parameter.annotation), (
        default
    )


def wrong(name: str, what: str) -> ArdorError:
    """The error for a function that is no space."""
    return ArdorError(
        f"build of '{name}' {what}",
        "write it as def build(image, classes, *, channels: int = 16) -> nn.Module; settings are "
        "numbers, texts, true or false, or tuples of them",
    )
