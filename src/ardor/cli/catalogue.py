"""Lists of methods, spaces, data, ... and settings: name -> one line."""

import inspect
import json
import re
from collections.abc import Iterator

from pydantic import BaseModel

from ardor import data, methods, spaces
from ardor.models import exporters
from ardor.pruning import priors
from ardor.pruning.groups import KINDS
from ardor.settings import fields, sections
from ardor.settings.presets import presets

# A setting in the source, with the comment that ends its line.
COMMENT = re.compile(r"^ +(\w+): .*?#\s*(.+)$", re.MULTILINE)


def catalogue(what: str) -> dict[str, str]:
    """Every known thing of a kind, in a line."""
    if what == "methods":
        return {name: first_line(inspect.getmodule(methods.find(name))) for name in methods.names()}
    if what == "spaces":
        return {name: first_line(inspect.getmodule(spaces.find(name))) for name in spaces.names()}
    if what == "networks":
        each = {name: inspect.getmodule(spaces.find(name)) for name in spaces.networks()}
        return {name: first_line(module) for name, module in each.items()}
    if what == "priors":
        return {name: first_line(inspect.getmodule(priors.find(name))) for name in priors.names()}
    if what == "groups":
        return dict(KINDS)
    if what == "exporters":
        found = {name: exporters.find(name) for name in exporters.names()}
        return {name: first_line(inspect.getmodule(type(one))) for name, one in found.items()}
    if what == "data":
        return data.describe()
    if what == "presets":
        return presets()
    if what == "architectures":
        return spaces.named()
    if what == "benches":
        from ardor.bench.runs import benches  # takes a second to import, for this list alone

        return benches()
    return dict(all_settings())


def all_settings() -> Iterator[tuple[str, str]]:
    """Setting -> default and meaning; those of methods and spaces under their names."""
    yield from described("", sections.Config, sections.Config)
    for section, model in sections.SECTIONS.items():
        yield from described(f"{section}.", model, model)
    for name in (*spaces.names(), *spaces.networks()):
        yield from described(f"space ({name}).", spaces.find(name), fields.of(spaces.find(name)))
    for name in methods.names():
        yield from described(f"method ({name}).", methods.find(name), fields.of(methods.find(name)))


def described(prefix: str, cls: type, model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """The settings of one section, with the comments at the end of their lines in the source."""
    words: dict[str, str] = {}
    for ancestor in reversed(cls.__mro__[:-1]):
        if ancestor.__module__.startswith("ardor.") or ancestor is cls:
            source = vars(ancestor).get("function", ancestor)  # of a space that a function builds
            words |= dict(COMMENT.findall(inspect.getsource(getattr(source, "__func__", source))))
    for name, field in model.model_fields.items():
        if isinstance(field.default, (BaseModel, dict)):
            continue  # a section of its own
        default = json.dumps(field.default)
        yield prefix + name, f"{default}  {words.get(name, '')}".rstrip()


def first_line(documented: object) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(documented) or "").split("\n")[0]
