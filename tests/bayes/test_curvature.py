"""How sharply the held-out loss bends in the gates: products, eigenvalues, and those of nets."""

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from standins.switches import Switches
from standins.toy import Toy
from standins.watched import BASE, SMALL, make, standing
from torch import Tensor, nn

from ardor.bayes import Gates
from ardor.bayes.curvature import hessian_product, largest_eigenvalue, shifted
from ardor.data import Images
from ardor.methods.darts import Darts
from ardor.native import kernels
from ardor.searching.monitor import CollapseMonitor
from ardor.searching.selection import Selection
from ardor.training.objective import Batch


@pytest.mark.parametrize("shift", [-30.0, 0.0, 30.0])  # most negative, mixed, positive
def test_the_largest_eigenvalue_and_not_that_of_largest_magnitude(shift: float) -> None:
    half = torch.randn(12, 12, dtype=torch.double)
    matrix = half + half.T + shift * torch.eye(12, dtype=torch.double)
    expected = torch.linalg.eigvalsh(matrix)[-1].item()
    start = torch.randn(12, dtype=torch.double)
    value, vector = largest_eigenvalue(lambda v: matrix @ v, start, 12)
    assert value == pytest.approx(expected, rel=1e-9)
    assert torch.allclose(matrix @ vector, value * vector, atol=1e-6)
    assert largest_eigenvalue(lambda v: matrix @ v, vector, 3)[0] == pytest.approx(expected)


def test_few_products_at_a_time_come_to_the_largest_eigenvalue() -> None:
    matrix = torch.diag(torch.linspace(-3, 2, 40, dtype=torch.double))
    vector, values = torch.ones(40, dtype=torch.double), []
    for _ in range(60):
        power = matrix @ vector / (matrix @ vector).norm()
        value, vector = largest_eigenvalue(lambda v: matrix @ v, vector, 2)
        values.append(value)
        assert value >= (power @ matrix @ power).item() - 1e-12
    assert values == sorted(values)
    assert values[-1] == pytest.approx(2.0, rel=0.01)


def test_where_a_product_is_not_finite_there_is_no_eigenvalue() -> None:
    start = torch.ones(3, dtype=torch.double)
    value, vector = largest_eigenvalue(lambda v: v * math.nan, start, 3)
    assert math.isnan(value)
    assert torch.equal(vector, start)
    assert largest_eigenvalue(torch.zeros_like, start, 3)[0] == 0


def test_products_with_the_hessian_of_a_known_function() -> None:
    def loss(x: Tensor) -> Tensor:
        return (x[0] * x[1].exp() + x.sin().prod() + x.square().sum().square()).sum()

    def gradient(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(loss(x), x)[0]

    hessian = torch.autograd.functional.hessian(loss, torch.zeros(3, dtype=torch.double))
    v = torch.randn(3, dtype=torch.double)
    assert torch.allclose(hessian_product(gradient, 1e-4)(v), hessian @ v, atol=1e-6)


class Smooth(Toy):
    """The choices of the toy space, two copies and an edge among them, without kinks or noise."""

    def build(self, *args: object, **kwargs: object) -> "SmoothNet":
        return SmoothNet()


class SmoothNet(nn.Module):
    """Logits that are a smooth function of all gates."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.2 * torch.randn(2, 8))

    def forward(self, images: Tensor, gates: Gates) -> Tensor:
        flat = torch.cat([gate.flatten() for gate in gates.values()])
        return images.mean((1, 2, 3))[:, None] * (self.weight @ flat).tanh() * 3


def exact(net: nn.Module, batch: Batch, gates: Gates) -> float:
    """The eigenvalue the plain way: second derivatives, in float64."""
    net = net.double().eval()
    gates = {name: gate.detach().double() for name, gate in gates.items()}

    def loss(by: Tensor) -> Tensor:
        return F.cross_entropy(net(batch.images.double(), shifted(gates, by)), batch.labels)

    size = sum(gate.numel() for gate in gates.values())
    hessian = torch.autograd.functional.hessian(loss, torch.zeros(size, dtype=torch.double))
    return torch.linalg.eigvalsh(hessian)[-1].item()


def test_the_curvature_in_gates_of_copies_and_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ardor.searching.monitor.STEP", 0.01)
    net, method = SmoothNet(), Switches(Smooth())
    batch = Batch(torch.rand(6, 1, 8, 8), torch.arange(6) % 2, 6)
    monitor = CollapseMonitor(net, Selection(method, BASE, {}), batch, standing(), BASE)
    seen = monitor.look()["curvature"]
    gates = method.sample(1, 1.0)
    assert [gate.shape[0] for gate in gates.values()] == [2, 1]
    assert seen == pytest.approx(exact(net, batch, gates), rel=0.01)


def test_the_curvature_of_a_supernet_is_that_in_the_alphas_of_darts(
    bright: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ardor.searching.monitor.STEP", 0.02)
    loop = make(bright, tmp_path, Darts, space=SMALL)
    names = list(loop.method.logits)
    for name in names:
        loop.method.logits[name].data.normal_()
    seen = loop.monitor.look()["curvature"]
    net, batch = loop.net.double().eval(), loop.monitor.batch
    monkeypatch.setattr(kernels, "ready", lambda *_: False)  # native code has no second derivatives

    def loss(alphas: Tensor) -> Tensor:
        rows = alphas.view(len(names), 1, 1, -1).softmax(-1)
        logits = net(batch.images.double(), dict(zip(names, rows, strict=True)))
        return F.cross_entropy(logits, batch.labels)

    at = torch.cat([loop.method.logits[name].detach().double().flatten() for name in names])
    hessian = torch.autograd.functional.hessian(loss, at)
    expected = torch.linalg.eigvalsh(hessian)[-1].item()
    assert seen == pytest.approx(expected, rel=0.01)


def test_gates_that_left_stay_out_and_strengths_are_shifted_as_they_are() -> None:
    gates = {"a": torch.tensor([[[0.0, 0.25, 0.75]]]), "b": torch.tensor([[[-1.0, 2.0]]])}
    moved = shifted(gates, torch.tensor([5.0, math.log(3.0), 0.0, 0.5, 0.5]))
    assert torch.allclose(moved["a"], torch.tensor([[[0.0, 0.5, 0.5]]]))
    assert torch.allclose(moved["b"], torch.tensor([[[-0.5, 2.5]]]))
