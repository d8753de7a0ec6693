"""Checking settings against types and ranges, with one line for what is wrong."""

import inspect
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from ardor.errors import ArdorError, unknown

# Upper bounds are far above what anyone needs: a larger value is a typing error that would take
# days, or a number that torch cannot compute with.
Count = Annotated[int, Field(ge=1, le=10_000)]
Share = Annotated[float, Field(ge=0, lt=1)]
Whole = Annotated[int, Field(ge=0, le=10**12)]
Amount = Annotated[float, Field(ge=0, le=1e9)]
Rate = Annotated[float, Field(gt=0, le=1e30)]

NUMBER = r"(\d+(?:\.\d+)?)"
TIME = re.compile(rf"(?:{NUMBER}h)?\s*(?:{NUMBER}m(?:in)?)?\s*(?:{NUMBER}s)?")
SIZE = re.compile(rf"{NUMBER}\s*([kMGT])i?B", re.IGNORECASE)


def seconds(value: Any) -> Any:
    """Seconds of "20m", "90s" or "1h30m"; any value but text is returned unchanged."""
    if not isinstance(value, str) or re.fullmatch(NUMBER, value.strip()):
        return value
    found = TIME.fullmatch(value.strip())
    if not found or not any(found.groups()):
        raise PydanticCustomError("time", "a time such as 20m, 90s or 1h30m; a number is seconds")
    return sum(float(n or 0) * unit for n, unit in zip(found.groups(), (3600, 60, 1), strict=True))


def byte_count(value: Any) -> Any:
    """Bytes of "500MB" or "2GB"; any value but text is returned unchanged."""
    if not isinstance(value, str) or re.fullmatch(NUMBER, value.strip()):
        return value
    found = SIZE.fullmatch(value.strip())
    if not found:
        raise PydanticCustomError("size", "a size such as 500MB or 2GB; a number is bytes")
    return int(min(float(found[1]) * 1024 ** ("kmgt".index(found[2].lower()) + 1), 2.0**60))


Time = Annotated[float, Field(ge=0, le=1e9), BeforeValidator(seconds)]
Size = Annotated[int, Field(ge=0, lt=2**60), BeforeValidator(byte_count)]

M = TypeVar("M", bound=BaseModel)

# Error types of pydantic, in words that need no Python.
WORDS = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "settings by name",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_type": "a whole number",
    "missing": "given",
    "string_type": "text",
    "too_long": "a shorter list",
    "tuple_type": 'a list, such as ["crop", "flip"]',
}


class Settings(BaseModel):
    """A section of the configuration: unknown names and values out of range are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _flags_are_no_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        kind = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and kind in (int, float):
            raise PydanticKnownError("int_type" if kind is int else "float_type")
        return value


def checked(section: str, model: type[M], given: Mapping[str, Any]) -> M:
    """The model made of `given`, or an ArdorError that names the first setting that is wrong."""
    try:
        return model(**given)
    except ValidationError as error:
        first = error.errors()[0]
        prefix = f"{section}." if section else ""
        # Below its name stand places in a list; words there are of the types that a value may have.
        name, *below = first["loc"]
        full = prefix + ".".join([str(name), *(str(at) for at in below if isinstance(at, int))])
        if first["type"] == "extra_forbidden":
            raise unknown(
                "setting", full, [prefix + known for known in model.model_fields]
            ) from None
        reason = WORDS.get(first["type"], first["msg"].removeprefix("Input should be "))
        raise ArdorError(
            f"{full} = {first['input']!r} must be {reason}",
            "'ardor list settings' shows every setting with its default",
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
