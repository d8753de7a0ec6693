"""Layers become one configuration: which goes over which, and which error is told first."""

import json
from pathlib import Path
from typing import Any

import pytest

from ardor import data
from ardor.errors import ArdorError
from ardor.methods.gdas import Gdas
from ardor.methods.vinnas import Vinnas
from ardor.pipeline.resolve import difference, layered, resolved, threshold_of
from ardor.settings import merge
from ardor.settings.sections import LONGEST, NOTHING, TrainConfig

AUTO = {"train": {"variational": "auto"}}
RESULTS = Path(__file__).parents[2] / "docs" / "results"


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


@pytest.mark.parametrize(
    ("prune", "gaussian"),
    [
        ({}, False),
        ({"within": 0.005}, False),
        ({"threshold": 2.0}, False),
        ({"keep_accuracy": 99}, True),
        ({"max_params": 9}, True),
        ({"max_macs": 9}, True),
    ],
)
def test_weights_are_gaussian_by_themselves_where_pruning_has_a_bound(
    prune: dict[str, Any], gaussian: bool
) -> None:
    for layers in ([{"prune": prune}, AUTO], [AUTO, {"prune": prune}]):
        train = merge.resolve(*layers).train
        assert train.variational is gaussian
        assert train.kl_start == (0.5 if gaussian else TrainConfig().kl_start)
        given = merge.resolve(*layers, {"train": {"kl_start": 0.1}}).train
        assert given.kl_start == 0.1


def test_settings_that_were_decided_are_read_as_they_are() -> None:
    made = merge.resolve(AUTO, {"prune": {"max_params": 9}})
    assert merge.reopened(made.model_dump()) == made
    assert merge.resolve().train.variational is True


def test_plain_weights_of_an_older_run_are_left_alone() -> None:
    """Before they could be pruned, their settings had the threshold of Gaussian ones."""
    made = layered(({"train": {"variational": False}},)).model_dump()
    for name in ("within", "max_macs"):
        del made["prune"][name]
    made["prune"]["threshold"] = 3.0
    assert threshold_of(merge.reopened(made)) == NOTHING
    assert difference(merge.reopened(made), layered(({"train": {"variational": False}},))) is None
    made["train"]["variational"] = True
    assert threshold_of(merge.reopened(made)) == 3.0
    assert difference(merge.reopened(made), layered(())) is None


def test_of_a_threshold_and_what_may_be_lost_the_later_counts() -> None:
    within, threshold = {"prune": {"within": 0.01}}, {"prune": {"threshold": 2.0}}
    assert merge.resolve(threshold, within).prune.picking
    assert not merge.resolve(within, threshold).prune.picking
    assert merge.resolve(within, {"prune": {"fine_tune": 3}}).prune.picking
    both = merge.resolve(threshold, within)  # as after picking
    assert merge.reopened(both.model_dump()) == both


def test_every_result_is_read_with_the_settings_that_it_was_made_with() -> None:
    for path in sorted(RESULTS.glob("*.json")):
        rows = json.loads(path.read_text()).get("settings", {})
        for made in rows.values():
            if isinstance(made, dict) and "prune" in made:
                config = merge.reopened(made)
                threshold = made["prune"]["threshold"]
                if config.train.variational and not config.prune.picking and threshold != "auto":
                    assert threshold_of(config) == threshold
                assert merge.reopened(config.model_dump()) == config
