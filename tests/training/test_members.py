"""Networks as their search has left them: what a training without any epochs gives."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from ardor.data import Images
from ardor.errors import ArdorError
from ardor.runtime.device import Runtime
from ardor.searching.handover import cut_out
from ardor.settings.sections import TrainConfig
from ardor.spaces.cells import Cells
from ardor.training.members import as_found
from ardor.training.train import train

SPACE = Cells(image=(1, 8, 8), classes=2, layout="NR", states=2, channels=4, ops="darts")
CLASSES = ("dark", "bright")


@pytest.mark.parametrize("variational", [False, True])
@pytest.mark.parametrize("validation", [0.0, 0.25])
def test_it_is_the_network_of_a_training_without_epochs(
    variational: bool, validation: float, bright: Images, tmp_path: Path
) -> None:
    found = SPACE.strongest({c.name: torch.rand(1, 1, len(c.options)) for c in SPACE.choices})
    weights = cut_out(SPACE.build(), SPACE, found, nn.Conv2d)
    config = TrainConfig(
        start="search", epochs=0, variational=variational, validation=validation, augment=("crop",)
    )
    trained = train(
        found, bright, CLASSES, config,
        run=tmp_path, runtime=Runtime.start("cpu", 0), searched=weights,
    )  # fmt: skip
    taken = as_found(
        found, bright, CLASSES, config.model_copy(update={"epochs": 9}), weights,
        run=tmp_path, runtime=Runtime.start("cpu", 0),
    )  # fmt: skip
    assert (taken.architecture, taken.classes) == (trained.architecture, trained.classes)
    expected, state = trained.state_dict(), taken.state_dict()
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in expected.items())


def test_weights_that_were_not_kept_are_named(bright: Images, tmp_path: Path) -> None:
    kept, other = (
        SPACE.subset({c.name: torch.full((1, 1, len(c.options)), share) for c in SPACE.choices})
        for share in (0.0, 1.0)
    )
    weights = cut_out(SPACE.build(), SPACE, kept, nn.Conv2d)
    config = TrainConfig(start="search")
    with pytest.raises(ArdorError, match="is absent; must be"):
        as_found(
            other, bright, CLASSES, config, weights, run=tmp_path, runtime=Runtime.start("cpu", 0)
        )
    larger = replace(SPACE, channels=6)
    weights = cut_out(larger.build(), larger, larger.adopted(kept), nn.Conv2d)
    with pytest.raises(ArdorError, match="do not fit"):
        as_found(
            kept, bright, CLASSES, config, weights, run=tmp_path, runtime=Runtime.start("cpu", 0)
        )
