"""Which weights are noise: Gaussian ones by their variance, plain ones by their size."""

import math

import pytest
import torch
from torch import nn

from ardor.bayes.divergences import log_magnitude_ratio
from ardor.layers.variational import PRUNE_AT, Variational, VariationalConv2d
from ardor.pruning.threshold import noise, usual, weights
from ardor.settings.sections import NOTHING
from ardor.spaces.cells import Cells

SPACE = Cells(image=(1, 8, 8), classes=2, layout="R", states=1, channels=4, auxiliary=True)


def test_the_size_of_a_weight_is_measured_by_the_root_mean_square_of_its_layer() -> None:
    weight = torch.tensor([[1.0, -7.0], [5.0, 5.0]])  # mean square 25
    expected = [[math.log(25), math.log(25 / 49)], [0.0, 0.0]]
    assert torch.allclose(log_magnitude_ratio(weight), torch.tensor(expected), atol=1e-6)
    assert torch.allclose(log_magnitude_ratio(1e-3 * weight), torch.tensor(expected), atol=1e-6)
    assert log_magnitude_ratio(torch.zeros(2, 2)).isfinite().all()


def test_the_threshold_is_a_share_of_the_root_mean_square() -> None:
    """As in Han et al. 2015: a weight leaves below a quality parameter times the spread."""
    layer = nn.Linear(50, 40)
    spread = layer.weight.square().mean().sqrt()
    for threshold in (-1.0, 0.0, 3.0):
        kept = weights(nn.Sequential(layer), threshold)["0.weight"] != 0
        assert torch.equal(kept, layer.weight.abs() > math.exp(-threshold / 2) * spread)


@pytest.mark.parametrize("conv", [nn.Conv2d, VariationalConv2d])
def test_every_weight_that_is_deployed_is_judged(conv: type[nn.Conv2d]) -> None:
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in SPACE.choices}
    net = SPACE.build(SPACE.strongest(scores), conv=conv)
    ratios, state = noise(net), net.state_dict()
    kinds = (nn.Conv2d, nn.Linear)
    layers = [n for n, m in net.named_modules() if isinstance(m, kinds) and "auxiliary" not in n]
    assert set(ratios) == {f"{name}.weight" for name in layers}
    assert all(ratio.shape == state[name].shape for name, ratio in ratios.items())
    whole = weights(net, math.inf)
    assert all(torch.equal(tensor, state[name]) for name, tensor in whole.items())
    for name, layer in net.named_modules():
        if isinstance(layer, Variational):
            assert torch.equal(weights(net, 1.0)[f"{name}.weight"], layer.pruned(1.0))


def test_a_layer_that_stands_in_two_places_is_pruned_in_both() -> None:
    layer = nn.Linear(30, 30)
    found = weights(nn.ModuleDict({"first": layer, "second": layer}), 0.0)
    assert torch.equal(found["first.weight"], found["second.weight"])
    assert 0 < int(found["second.weight"].count_nonzero()) < 900


def test_layers_of_a_persons_own_stay_as_they_are() -> None:
    class Own(nn.Linear):
        """A linear map that may do anything with its weights."""

    assert noise(nn.Sequential(Own(2, 2))) == {}


def test_without_a_threshold_plain_weights_stay() -> None:
    assert usual(variational=True) == PRUNE_AT
    assert usual(variational=False) == NOTHING
