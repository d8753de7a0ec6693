"""A training that ends with a sparse network: how many zeros, which ones, and that they stay."""

from pathlib import Path

import pytest
import torch
from conftest import stopping_at
from torch import Tensor, nn

from ardor import methods
from ardor.architecture import Architecture
from ardor.data import Images
from ardor.errors import Interrupted
from ardor.models.model import Model
from ardor.models.sizes import nonzero_parameters, parameters
from ardor.pruning.threshold import noise
from ardor.runtime.device import Runtime
from ardor.settings.sections import TrainConfig
from ardor.spaces.cells import Cells
from ardor.training.sparse import BEGIN, END, Sparse, share_at
from ardor.training.train import train

SPACE = Cells(image=(1, 8, 8), classes=2, layout="NR", states=2, channels=8)
FEW = 300
SMALL = TrainConfig(
    epochs=6, batch=16, variational=False, max_weights=FEW, average=0.9, validation=0.25
)


@pytest.fixture
def architecture() -> Architecture:
    return methods.make("random", SPACE, {}).draw(1)[0]


def run(architecture: Architecture, images: Images, folder: Path, **changes: object) -> Model:
    config, runtime = SMALL.model_copy(update=changes), Runtime.start("cpu", 0)
    return train(architecture, images, ("a", "b"), config, run=folder, runtime=runtime)


def zeros(net: nn.Module) -> tuple[int, int]:
    """How many of the weights that may be pruned are zero, and how many there are."""
    weights: dict[str, Tensor] = dict(net.named_parameters())
    found = [weights[name] for name in noise(net)]
    return sum(int((w == 0).sum()) for w in found), sum(w.numel() for w in found)


def test_the_share_of_zeros_grows_along_a_cubic_curve() -> None:
    assert share_at(BEGIN, 0.8) == 0.0
    assert share_at((BEGIN + END) / 2, 0.8) == pytest.approx(0.8 * (1 - 0.5**3))
    assert share_at(END, 0.8) == share_at(1.0, 0.8) == 0.8


def test_the_smallest_of_their_layers_go_first() -> None:
    net = nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 4))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
        net[1].weight.copy_(torch.tensor([[400.0], [300.0], [200.0], [100.0]]))
    Sparse(net, 4).choose(1.0)
    assert net[0].weight.tolist() == [[0.0, 0.0, 3.0, 4.0]]
    assert net[1].weight.flatten().tolist() == [400.0, 300.0, 0.0, 0.0]


def test_the_trained_network_has_no_more_weights_and_the_mean_weights_the_same(
    architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    model = run(architecture, bright, tmp_path)
    none, every = zeros(model.net)
    assert every > 1.5 * FEW
    assert every - none == pytest.approx(FEW, abs=2)
    assert nonzero_parameters(model.net) < parameters(model.net) - none + 2
    for most in (0, every):
        plain = run(architecture, bright, tmp_path / f"plain{most}", max_weights=most)
        assert zeros(plain.net)[0] < 0.1 * every


def test_what_is_zero_stays_zero_whatever_its_momentum() -> None:
    net = nn.Sequential(nn.Linear(8, 8))
    optimiser = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    sparse = Sparse(net, 32)
    for progress in (0.0, 0.4, 0.8, 1.0):
        before = net[0].weight == 0
        sparse.choose(progress)
        assert not net[0].weight[before].any()
        for _ in range(3):
            optimiser.zero_grad()
            net(torch.randn(4, 8)).square().sum().backward()
            optimiser.step()
            sparse.hold()
    assert int((net[0].weight == 0).sum()) == 32


@pytest.mark.parametrize("step", [4, 11, 15])
def test_stopped_and_resumed_it_is_the_same(
    step: int, architecture: Architecture, bright: Images, tmp_path: Path
) -> None:
    whole = run(architecture, bright, tmp_path / "whole").state_dict()
    broken = tmp_path / "broken"
    with pytest.raises(Interrupted):
        train(architecture, bright, ("a", "b"), SMALL, run=broken, runtime=stopping_at(step))
    resumed = run(architecture, bright, broken).state_dict()
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)
