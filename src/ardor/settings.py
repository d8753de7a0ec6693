"""Checking settings against types and ranges, with one line for what is wrong."""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from ardor.errors import ArdorError, unknown

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Amount = Annotated[float, Field(ge=0)]
Rate = Annotated[float, Field(gt=0)]

M = TypeVar("M", bound=BaseModel)


class Settings(BaseModel):
    """A section of the configuration: unknown names and values out of range are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def checked(section: str, model: type[M], given: Mapping[str, Any]) -> M:
    """The model made of `given`, or an ArdorError that names the first setting that is wrong."""
    try:
        return model(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        full = f"{section}.{name}" if section else name
        if first["type"] == "extra_forbidden":
            prefix = f"{section}." if section else ""
            raise unknown(
                "setting", full, [prefix + known for known in model.model_fields]
            ) from None
        reason = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        raise ArdorError(
            f"{full} = {first['input']!r} must be {reason}",
            "'ardor list settings' shows every setting with its type and default",
        ) from None


def of(cls: type) -> type[Settings]:
    """The settings of a class as a model: the keyword arguments of its `__init__`."""
    fields: dict[str, Any] = {
        name: (parameter.annotation, parameter.default)
        for name, parameter in inspect.signature(cls, eval_str=True).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    return create_model(cls.__name__, __base__=Settings, **fields)


def complete(section: str, cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting of a class: the given ones, checked, and the defaults of the others."""
    return dict(checked(section, of(cls), given))
