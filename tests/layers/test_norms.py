"""BatchNorms of a supernet made whole: what they compute, and the statistics of many batches."""

import pytest
import torch
from torch import Tensor, nn

from ardor.layers.norms import add_statistics_, complete_, measured, remove_statistics_


def by_batch(channels: int, *, affine: bool = False) -> nn.BatchNorm2d:
    """One as a supernet has it."""
    return nn.BatchNorm2d(channels, affine=affine, track_running_stats=False)


@pytest.mark.parametrize("affine", [False, True])
def test_a_whole_norm_is_the_one_that_torch_builds(affine: bool) -> None:
    norm, torchs = by_batch(3, affine=affine), nn.BatchNorm2d(3)
    if affine:
        nn.init.normal_(norm.weight)
        torchs.weight.data.copy_(norm.weight)
    complete_(norm)
    states = norm.state_dict(), torchs.state_dict()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    for _ in range(3):
        x = torch.randn(4, 3, 2, 2) + 5
        assert torch.equal(norm(x), torchs(x))
    assert torch.equal(norm.eval()(x), torchs.eval()(x))


def test_after_one_batch_it_computes_what_it_did_with_it_and_then_goes_by_batches_again() -> None:
    norm, x = by_batch(3).eval(), 4 * torch.randn(2, 3, 1, 1) + 7
    expected = norm(x)
    add_statistics_(norm)
    with measured([norm]):
        assert torch.allclose(norm(x), expected, atol=1e-6)
    assert torch.allclose(norm(x[:1]), expected[:1], atol=1e-6)  # by itself
    remove_statistics_(norm)
    other = torch.randn(5, 3, 2, 2)
    assert torch.equal(norm(other), by_batch(3)(other))


@pytest.mark.parametrize("sizes", [[6], [2, 4], [1, 3, 2]])
def test_statistics_of_batches_are_those_of_all_images(sizes: list[int]) -> None:
    x = 3 * torch.randn(6, 2, 5, 5) + 100  # far from zero, where squares would cancel
    norm = nn.BatchNorm2d(2).eval()

    def normalised(part: Tensor) -> Tensor:
        centred = part - part.mean((0, 2, 3), keepdim=True)
        spread = (centred.square().mean((0, 2, 3), keepdim=True) + norm.eps).sqrt()
        return centred / spread

    with measured([norm]):
        for part in x.split(sizes):
            assert torch.allclose(norm(part), normalised(part), atol=1e-4)
    whole = x.double().transpose(0, 1).flatten(1)
    assert torch.allclose(norm.running_mean.double(), whole.mean(1), rtol=1e-5)
    assert torch.allclose(norm.running_var.double(), whole.var(1, correction=0), rtol=1e-4)


def test_a_norm_that_sees_nothing_keeps_what_it_has() -> None:
    norm = nn.BatchNorm2d(2)
    norm(torch.randn(3, 2, 2, 2))
    before = norm.running_mean.clone(), norm.running_var.clone()
    with measured([norm]):
        pass
    assert torch.equal(norm.running_mean, before[0])
    assert torch.equal(norm.running_var, before[1])
