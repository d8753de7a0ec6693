"""The curvature in the gates of a supernet: against a library, natively, and in how much memory."""

import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from ardor.bayes import Gates
from ardor.layers.blocks import Chain
from ardor.native import kernels
from ardor.searching.gate_gradients import GateCurvature, frozen_statistics
from ardor.spaces import Net, Space, make
from ardor.training.objective import Batch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import curvature as bench  # noqa: E402

CELLS = {"layout": "NR", "states": 2, "channels": 3}
SPACES = {
    "darts": ("cells", {**CELLS, "ops": "darts"}),
    "vinnas": ("cells", {**CELLS, "ops": "vinnas"}),
    "nasbench201": ("nasbench201", {"channels": 3, "cells": 1}),
}
each_space = pytest.mark.parametrize("name", SPACES)


def problem(name: str) -> tuple[Space, Net, Batch, Gates]:
    """A supernet with a batch and gates, in float64."""
    kind, settings = SPACES[name]
    space = make(kind, {**settings, "image": (2, 8, 8), "classes": 3})
    gates = {c.name: 0.5 + torch.rand(c.copies, 1, len(c.options)).double() for c in space.choices}
    batch = Batch(torch.randn(5, 2, 8, 8).double(), torch.arange(5) % 3, dataset_size=5)
    return space, space.build().double(), batch, gates


class Switched(nn.Module):
    """A supernet whose gates are parameters."""

    def __init__(self, net: Net, gates: Gates) -> None:
        super().__init__()
        self.net, self.gates = net, nn.ParameterDict(gates)

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images, dict(self.gates.items()))


def gauss_newton(switched: Switched, batch: Batch) -> Tensor:
    """The whole matrix in the gates, by curvlinops."""
    data, loss = [(batch.images, batch.labels)], nn.CrossEntropyLoss(reduction="sum")
    with warnings.catch_warnings():  # what it is made of is deprecated in part
        warnings.simplefilter("ignore")
        from curvlinops import GGNLinearOperator

        matrix = GGNLinearOperator(switched, loss, [*switched.gates.values()], data)
        return matrix @ torch.eye(matrix.shape[0], dtype=torch.double)


@each_space
def test_it_is_the_diagonal_that_a_library_finds(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, net, batch, gates = problem(name)
    ours = GateCurvature(net, space.choices, lambda: [batch])(gates)
    monkeypatch.setattr(kernels, "ready", lambda *_: False)  # the library goes forwards through it
    with frozen_statistics(net, [(batch.images, gates)]):
        switched = Switched(net, gates)
        theirs = gauss_newton(switched, batch).diagonal()
    mine = torch.cat([ours[choice].flatten() for choice in switched.gates])
    assert theirs.max() > 0
    assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-12 * theirs.max().item())


@pytest.mark.skipif(kernels.library() is None, reason="no compiler here")
@each_space
@pytest.mark.parametrize("parts", [1, 2])
def test_native_code_finds_it_too(name: str, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    space, net, batch, gates = problem(name)
    found = []
    for native in (True, False):
        with monkeypatch.context() as patch:
            if native:
                patch.setattr(Chain, "forward", None)  # nothing goes layer by layer
            else:
                patch.setattr(kernels, "ready", lambda *_: False)
            asked = GateCurvature(net, space.choices, lambda: [batch], micro_batches=parts)
            found.append(asked(gates, per_image=True))
    for ours, plain in zip(*(each.values() for each in found), strict=True):
        assert torch.allclose(ours, plain, rtol=1e-7, atol=1e-12)


@each_space
def test_what_has_left_the_supernet_bends_nothing(name: str) -> None:
    space, net, batch, gates = problem(name)
    curvature = GateCurvature(net, space.choices, lambda: [batch])
    first, *_ = space.choices
    assert (curvature(gates)[first.name] > 0).any()
    for option in first.options:
        net.take_out(first, option)
    found = curvature(gates)
    assert (found[first.name] == 0).all()
    assert any((diagonal > 0).any() for diagonal in found.values())
    assert all(weight.requires_grad for weight in net.parameters())


@pytest.mark.skipif(kernels.library() is None, reason="no compiler here")
def test_it_needs_hardly_more_memory_than_a_training_step() -> None:
    step, *others = (bench.memory("nasbench201", work, batch=128) for work in bench.WORKS)
    assert len(others) == 2
    assert max(others) < 1.3 * step
