"""Layers become one configuration: which goes over which, and which error is told first."""

from typing import Any

import pytest

from ardor import data
from ardor.errors import ArdorError
from ardor.methods.gdas import Gdas
from ardor.methods.vinnas import Vinnas
from ardor.pipeline.resolve import layered, resolved
from ardor.settings import merge
from ardor.settings.sections import LONGEST


def test_a_methods_own_settings_are_below_what_is_given_and_above_the_defaults() -> None:
    name, value = next(iter(Gdas.search.items()))
    assert getattr(layered(({"method": {"name": "gdas"}},)).search, name) == value
    for given in (value, merge.resolve().search.model_dump()[name]):
        layers = ({"search": {name: given}}, {"method": {"name": "gdas"}})
        assert getattr(layered(layers).search, name) == given


def test_a_later_layer_goes_over_an_earlier_one() -> None:
    batch = [{"search": {"batch": size}} for size in (8, 16)]
    assert layered(tuple(batch)).search.batch == 16
    assert layered(tuple(reversed(batch))).search.batch == 8


def test_a_time_leaves_the_epochs_open_even_where_the_method_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Vinnas, "search", {**Vinnas.search, "epochs": 7})
    assert layered(()).search.epochs == 7
    assert layered(({"search": {"time": "1m"}},)).search.epochs == LONGEST
    monkeypatch.setattr(Vinnas, "search", {"time": "2m"})
    assert (layered(()).search.time, layered(()).search.epochs) == (120.0, LONGEST)
    assert layered(({"search": {"epochs": 3}},)).search.epochs == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"search": {"batch": 0}}, {"method": {"name": "nothing"}}),
        ({"method": {"name": "nothing"}}, {"space": {"name": "cells", "image": 3}}),
        ({"space": {"image": 3}}, {"data": {"source": "nowhere"}}),
        ({"method": {"nothing": 3}}, {"data": {"source": "nowhere"}}),
        ({"data": {"source": "nowhere"}}, {"network": {"nothing": 3}}),
    ],
)
def test_of_two_errors_the_one_that_comes_first_is_told(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    def told(*layers: dict[str, Any]) -> str:
        with pytest.raises(ArdorError) as error:
            resolved(layers)
        return str(error.value)

    assert told(first, second) == told(second, first) == told(first)


def test_settings_are_resolved_once_for_a_new_run(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    resolve, load = merge.resolve, data.load

    def counted(*layers: Any) -> Any:
        called.append("settings")
        return resolve(*layers)

    def loaded(*given: Any, **named: Any) -> Any:
        called.append("images")
        return load(*given, **named)

    monkeypatch.setattr("ardor.pipeline.resolve.resolve", counted)
    monkeypatch.setattr("ardor.data.load", loaded)
    resolved(())
    assert called == ["settings", "images"]
