"""The facts in a checkpoint besides its tensors, checked strictly: anyone can write a file."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor
from torch.optim import Adam, Optimizer

from ardor.settings.sections import LONGEST

Natural = Annotated[int, Field(ge=0)]
Epochs = dict[str, dict[str, Natural]]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Pair = Annotated[list[Natural], Field(min_length=2, max_length=2)]
ABSENT: Any = Field(default=None)  # a fact that a loop has not reached yet; null is no value


class Strict(BaseModel):
    """Values must have the right type: none is converted."""

    model_config = ConfigDict(strict=True)


class Watched(Strict):
    """The state of the collapse monitor."""

    since: dict[str, Natural]
    collapsed: dict[str, Natural]
    curvatures: list[float]
    growing: bool
    direction: list[float] = ABSENT
    largest_curvature: float = ABSENT


class Facts(Strict):
    """The facts that a search or a training remembers from its epochs."""

    held_out_accuracy: float = ABSENT
    gate_steps: Natural = ABSENT
    watch: Watched = ABSENT
    least_error: float = ABSENT
    kept_epoch: Natural = ABSENT
    ended: bool = ABSENT
    gone: Epochs = ABSENT
    given_up: Epochs = ABSENT
    averaged: bool = ABSENT
    mirrored: bool = ABSENT
    # Accuracy and nll of each candidate so far; nothing of one that was not measured to the end.
    ranked: list[list[Finite]] = ABSENT
    # Of a network that is made smaller: its size, and that of the last which was accurate enough.
    cycle: Annotated[int, Field(ge=-1)] = ABSENT
    points: list[dict[str, Finite]] = ABSENT
    said: list[str] = ABSENT
    size: Pair = ABSENT
    good: Pair = ABSENT
    least: Finite = ABSENT
    trial: Annotated[Finite, Field(gt=0, lt=1)] = ABSENT


class Timetable(Strict):
    """How a search was fitted into its time."""

    spent: Annotated[Finite, Field(ge=0)] = ABSENT
    share: Annotated[Finite, Field(gt=0, le=1)] = ABSENT
    schedule: Annotated[list[Annotated[Finite, Field(ge=0, le=LONGEST)]], Field(min_length=3)] | (
        None
    ) = ABSENT


class Remembered(Strict):
    """All facts of a checkpoint."""

    position: Pair
    sums: dict[str, float]
    seconds: Annotated[Finite, Field(ge=0)]
    course: Timetable = ABSENT
    random: dict[str, Any]
    facts: Facts


def check_facts(facts: Mapping[str, Any]) -> None:
    """A ValueError that names the first fact that no loop would have written."""
    try:
        found = Remembered.model_validate(facts)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise ValueError(f"{name}: {first['msg']}") from None
    for key in found.sums:
        section, slash, _ = key.partition("/")
        if key.count("/") != 1 or not found.sums.get(f"{section}{slash}count", 0) > 0:
            raise ValueError(f"sums.{key}: it is of no steps")


def check_state(optimiser: Optimizer) -> None:
    """A ValueError where what an optimiser was given does not fit its parameters."""
    for parameter, state in optimiser.state.items():
        if isinstance(optimiser, Adam) and not {"step", "exp_avg", "exp_avg_sq"} <= state.keys():
            raise ValueError("the state of an optimiser is not whole")
        for name, value in state.items():
            if isinstance(value, Tensor) and not _fits(name, value, parameter):
                raise ValueError(f"'{name}' of an optimiser is {list(value.shape)}")


def _fits(name: str, value: Tensor, parameter: Tensor) -> bool:
    if name == "step":
        return value.numel() == 1 and bool(value >= 0)
    return value.shape == parameter.shape
