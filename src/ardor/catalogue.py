"""What there is to choose from: methods, spaces, data, presets, settings; name -> one line."""

import inspect
from collections.abc import Iterator

from pydantic import BaseModel

from ardor import config, data, methods, settings, spaces


def catalogue(what: str) -> dict[str, str]:
    """Every known thing of a kind, in a line."""
    if what == "methods":
        return {name: first_line(inspect.getmodule(methods.find(name))) for name in methods.names()}
    if what == "spaces":
        return {name: first_line(inspect.getmodule(spaces.find(name))) for name in spaces.names()}
    if what == "data":
        return data.describe()
    if what == "presets":
        return config.presets()
    return dict(all_settings())


def all_settings() -> Iterator[tuple[str, str]]:
    """Setting -> type and default; those of methods and spaces under their names."""
    for section, model in config.SECTIONS.items():
        yield from described(section, model)
    for name in spaces.names():
        yield from described(f"space.{name}", settings.of(spaces.find(name)))
    for name in methods.names():
        yield from described(f"method.{name}", settings.of(methods.find(name)))


def described(section: str, model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """The settings of one section."""
    for name, field in model.model_fields.items():
        kind = inspect.formatannotation(field.annotation).replace("typing.", "")
        yield f"{section}.{name}", f"{kind}, default {field.default!r}"


def first_line(documented: object) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(documented) or "").split("\n")[0]
