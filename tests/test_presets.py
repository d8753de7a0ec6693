"""Presets: what they say, and what the papers print."""

import math
from dataclasses import fields

import pytest

from ardor import spaces
from ardor.config import Config, preset, presets, resolve
from ardor.plan import final_space, unnamed

# Cells, states and share of the images of the search, its epochs; cells of the final network, the
# factor of its channels, its epochs. VINNAS, section V; the first version differs in -v1.
PRINTED = {
    "vinnas-mnist": ("R", 2, 0.25, 20, "R", 1.0, 100),
    "vinnas-mnist-v1": ("R", 2, 0.25, 20, "R", 1.0, 100),
    "vinnas-fashion": ("NNRNNRNN", 3, 0.5, 50, "NNRNNRNN", 6.4, 400),
    "vinnas-fashion-v1": ("NRRN", 3, 0.5, 50, "NRRN", 4.0, 200),
    "vinnas-cifar10": ("NNRNNRNN", 4, 0.5, 100, "NNNNNNRNNNNNNRNNNNNN", 3.0, 600),
    "vinnas-cifar10-v1": ("NNRNNRNN", 4, 0.5, 100, "NNNNNNRNNNNNNRNNNNNN", 2.5, 300),
}


def config_of(name: str) -> Config:
    return resolve(preset(name))


@pytest.mark.parametrize("name", presets())
def test_a_preset_is_a_whole_set_of_settings_with_a_line_about_it(name: str) -> None:
    config = config_of(name)
    assert final_space(config).choices
    assert len(presets()[name]) > 20
    known = {field.name for field in fields(spaces.find(config.space["name"]))}
    assert set(config.space) - {"name"} <= known
    assert set(config.network) <= known


@pytest.mark.parametrize("name", PRINTED)
def test_vinnas_is_set_as_printed(name: str) -> None:
    cells, states, share, epochs, final_cells, factor, final_epochs = PRINTED[name]
    config = config_of(name)
    space, final = spaces.make("cells", unnamed(config.space)), final_space(config)
    assert (space.cells, space.states, space.ops, space.inputs) == (cells, states, "vinnas", 2)
    assert (config.search.fraction, config.search.held_out) == (share, 0.5)
    assert (config.search.epochs, config.search.batch) == (epochs, 256)
    assert (final.cells, final.channels / space.channels) == (final_cells, factor)
    assert config.train.epochs == final_epochs
    augmented = () if "mnist" in name else ("crop", "flip", "erase")
    assert config.search.augment == config.train.augment == augmented


@pytest.mark.parametrize("name", PRINTED)
def test_the_versions_of_vinnas_differ_in_threshold_and_regularisation(name: str) -> None:
    config, first = config_of(name), name.endswith("-v1")
    assert math.exp(config.prune.threshold) == pytest.approx(3 if first else math.exp(3))
    helped = not first and "mnist" not in name
    assert final_space(config).auxiliary == (config.train.drop_path > 0) == helped
