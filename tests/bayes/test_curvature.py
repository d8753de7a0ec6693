"""How sharply the held-out loss bends in the gates: products, eigenvalues, and those of nets."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from standins.switches import Switches
from standins.toy import Toy
from standins.watched import BASE, SMALL, make, standing
from torch import Tensor, nn

from ardor.bayes import Gates
from ardor.bayes.curvature import (
    gauss_newton_diagonal,
    hessian_product,
    largest_eigenvalue,
    shifted,
)
from ardor.data import Images
from ardor.methods import Method
from ardor.methods.darts import Darts
from ardor.native import kernels
from ardor.searching.gate_gradients import GateCurvature
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
    seen = monitor.examine()["curvature"]
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
    seen = loop.monitor.examine()["curvature"]
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


def small_problem(batch: int = 5, classes: int = 4) -> tuple[Callable[[Gates], Tensor], Gates]:
    """Logits that bend with the gates of two copies and of one, and gates for each image."""
    x = torch.randn(batch, 6, dtype=torch.double)
    copies, one = (torch.randn(n, k, 6, classes, dtype=torch.double) for n, k in ((2, 3), (1, 2)))

    def logits_at(gates: Gates) -> Tensor:
        parts = [(gates["a"].square(), copies), (gates["b"], one)]
        return 3 * sum(torch.einsum("cbk,ckfo,bf->bo", g, mix, x) for g, mix in parts).tanh()

    gates = {"a": torch.rand(2, 1, 3), "b": torch.rand(1, 1, 2)}
    return logits_at, {name: gate.double().expand(-1, batch, -1) for name, gate in gates.items()}


def brute_force(logits_at: Callable[[Gates], Tensor], gates: Gates, name: str) -> Tensor:
    """J^T (diag p - p p^T) J of every image by itself, diagonal in the gates of one name."""
    p = logits_at(gates).softmax(-1)
    middle = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    jacobian = torch.autograd.functional.jacobian(
        lambda gate: logits_at({**gates, name: gate}), gates[name].contiguous()
    )
    own = torch.stack([jacobian[n, :, :, n] for n in range(len(p))])  # (batch, classes, copies, k)
    return torch.einsum("biak,bij,bjak->abk", own, middle, own)


def test_the_diagonal_of_each_image_is_its_own_and_all_sum_to_that_of_the_data() -> None:
    logits_at, gates = small_problem()
    each = gauss_newton_diagonal(logits_at, gates, per_image=True)
    total = gauss_newton_diagonal(logits_at, gates)
    for name, gate in gates.items():
        assert each[name].shape == gate.shape
        expected = brute_force(logits_at, gates, name)
        assert torch.allclose(each[name], expected, rtol=1e-9, atol=1e-12)
        assert torch.allclose(total[name], expected.sum(1, keepdim=True), rtol=1e-9)


def test_a_class_that_has_no_share_of_a_prediction_does_no_harm() -> None:
    def logits_at(gates: Gates) -> Tensor:
        return gates["a"].mean(0) * torch.tensor([-3e4, 1.0, 2.0])

    found = gauss_newton_diagonal(logits_at, {"a": torch.ones(1, 1, 3)}, per_image=True)["a"]
    p = torch.tensor([1.0, 2.0]).softmax(0)
    expected = p[0] * p[1] * torch.tensor([0.0, 1.0, 4.0])
    assert torch.allclose(found.flatten(), expected)


def test_drawn_labels_estimate_the_diagonal_without_bias() -> None:
    logits_at, gates = small_problem()
    exact = gauss_newton_diagonal(logits_at, gates, per_image=True)
    runs = [gauss_newton_diagonal(logits_at, gates, per_image=True, samples=2) for _ in range(2000)]
    for name, expected in exact.items():
        draws = torch.stack([run[name] for run in runs])
        assert draws.std(0).min() > 0
        error = draws.std(0) / len(runs) ** 0.5
        assert ((draws.mean(0) - expected).abs() < 4.5 * error).all()  # all 40: one in 3,000 not


@pytest.mark.parametrize(("samples", "passes"), [(0, 4), (1, 1), (3, 3)])
def test_no_more_passes_than_asked(
    samples: int, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits_at, gates = small_problem(classes=4)
    backward, seen = torch.autograd.grad, []

    def counted(*arguments: object, **settings: object) -> tuple[Tensor, ...]:
        seen.append(1)
        return backward(*arguments, **settings)

    monkeypatch.setattr("torch.autograd.grad", counted)
    gauss_newton_diagonal(logits_at, gates, samples=samples)
    assert len(seen) == passes


def test_a_search_gathers_images_for_the_curvature_only_when_it_is_asked(
    bright: Images, tmp_path: Path
) -> None:
    loop = make(bright, tmp_path, Switches, space=Toy(), augment=("cutout",))
    curvature = loop.learner.curvature(loop.few_batches)
    assert curvature.gather.cache_info().misses == 0
    gates = dict(loop.method.switch.items())
    first, _ = curvature(gates), curvature(gates, per_image=True)
    assert curvature.gather.cache_info().misses == 1
    batches = curvature.gather()
    assert sum(len(batch.labels) for batch in batches) == 32
    assert not torch.cat([b.images for b in batches]).flatten(1).eq(0).any()  # nothing cut out
    torch.manual_seed(0)
    each = curvature(gates, per_image=True)
    torch.manual_seed(0)
    total = curvature(gates)
    for name, diagonal in total.items():
        copies, _, options = gates[name].shape
        assert each[name].shape == (copies, 32, options)
        assert torch.allclose(each[name].sum(1, keepdim=True), diagonal)
        assert first[name].shape == diagonal.shape
    sampled = curvature(gates, samples=2)
    assert all((sampled[name] >= 0).all() for name in gates)
    assert any(not torch.allclose(sampled[name], total[name]) for name in gates)


@pytest.mark.parametrize(("method", "asked"), [(Darts, 0), (Switches, 2)])
def test_a_method_that_asks_for_no_curvature_pays_for_none(
    method: type[Method],
    asked: int,
    bright: Images,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    build = GateCurvature.pieces

    def counted(self: GateCurvature, batch: Batch, gates: Gates) -> object:
        seen.append(len(batch.labels))
        return build(self, batch, gates)

    monkeypatch.setattr(GateCurvature, "pieces", counted)
    make(bright, tmp_path, method, space=Toy(), epochs=1).run()
    assert seen == [16] * asked
