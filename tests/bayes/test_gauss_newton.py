"""The Gauss-Newton diagonal in the gates of an edge, and in gates that weigh nothing."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ardor.bayes import Gates
from ardor.bayes.curvature import gauss_newton_diagonal
from ardor.layers.mixed import Mixed, add_up

IMAGES = 6


def edge() -> tuple[Callable[[Gates], Tensor], Gates, Tensor]:
    """Logits of an edge with two operations, gates, and what each operation adds to the logits."""
    x, classify = torch.randn(IMAGES, 3, 4, 4).double(), nn.Linear(3, 4).double()
    operations = {"skip": nn.Identity(), "conv": nn.Conv2d(3, 3, 3, padding=1).double()}
    mixed = Mixed(("skip", "conv"), operations)
    added = [operation(x).mean((2, 3)) @ classify.weight.T for operation in operations.values()]

    def logits_at(gates: Gates) -> Tensor:
        total = add_up([mixed(x, gates["edge"][0])])
        assert total is not None
        return classify(total.mean((2, 3)))

    gates = torch.tensor([[[3.0, -2.0]]]).double().expand(1, IMAGES, 2)
    return logits_at, {"edge": gates}, torch.stack(added, -1).detach()


def by_hand(logits: Tensor, added: Tensor) -> Tensor:
    """J^T (diag p - p p^T) J of each image, where the columns of J are what operations add."""
    p = logits.detach().softmax(-1)
    middle = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    return torch.einsum("nik,nij,njk->nk", added, middle, added)


def test_of_an_edge_it_is_what_a_calculation_by_hand_gives() -> None:
    logits_at, gates, added = edge()
    found = gauss_newton_diagonal(logits_at, gates, per_image=True)["edge"][0]
    assert torch.allclose(found, by_hand(logits_at(gates), added), rtol=1e-9)


def test_drawn_labels_come_to_the_calculation_by_hand() -> None:
    logits_at, gates, added = edge()
    expected = by_hand(logits_at(gates), added).sum(0)
    runs = [gauss_newton_diagonal(logits_at, gates, samples=20)["edge"] for _ in range(100)]
    drawn = torch.stack(runs).flatten(1)
    error = drawn.std(0) / len(runs) ** 0.5
    assert (error < 0.1 * expected).all()
    assert ((drawn.mean(0) - expected).abs() < 4.5 * error).all()


@pytest.mark.parametrize("samples", [0, 3])
def test_gates_of_what_has_left_bend_nothing(samples: int) -> None:
    logits_at, gates, _ = edge()
    more = {"left": torch.ones(2, IMAGES, 3).double(), **gates}

    def found(given: Gates, *, per_image: bool = False) -> Gates:
        torch.manual_seed(1)
        return gauss_newton_diagonal(logits_at, given, per_image=per_image, samples=samples)

    assert torch.equal(found(more)["left"], torch.zeros(2, 1, 3).double())
    assert torch.equal(found(more, per_image=True)["left"], torch.zeros(2, IMAGES, 3).double())
    assert torch.equal(found(more)["edge"], found(gates)["edge"])
    assert (found(more)["edge"] > 0).all()


@pytest.mark.parametrize("samples", [0, 3])
def test_where_nothing_depends_on_any_gate_all_is_zero(samples: int) -> None:
    for logits in (torch.randn(IMAGES, 4), torch.randn(IMAGES, 4).requires_grad_()):
        gates = {"a": torch.ones(1, IMAGES, 2)}
        found = gauss_newton_diagonal(lambda _, logits=logits: logits, gates, samples=samples)
        assert torch.equal(found["a"], torch.zeros(1, 1, 2))
