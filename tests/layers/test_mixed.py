"""States: candidates added up under their gates, natively or layer by layer."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ardor.layers.blocks import Block, Chain
from ardor.layers.convolutions import FactorizedReduce
from ardor.layers.mixed import DropPath, Mixed, Terms, add_up, output, shut
from ardor.layers.operations import OPS, halve, squeeze
from ardor.layers.style import DARTS, Style
from ardor.layers.variational import VariationalConv2d
from ardor.native import kernels

native = pytest.mark.skipif(kernels.library() is None, reason="no compiler here")


class Alone(nn.Module):
    """A chain by itself, natively."""

    def __init__(self, chain: Chain) -> None:
        super().__init__()
        self.chain = chain

    def forward(self, x: Tensor) -> Tensor:
        return output(self.chain, x)


def added(mixed: Mixed, x: Tensor, gates: Tensor | None = None) -> Tensor | None:
    return add_up([mixed(x, gates)])


def test_drop_path_keeps_the_mean_and_is_off_in_evaluation() -> None:
    layer, x = DropPath(), torch.ones(20_000, 1, 1, 1)
    layer.rate = 0.3
    gate = layer(x)
    assert gate.shape == (20_000, 1)
    assert gate.mean().item() == pytest.approx(1.0, abs=0.02)
    assert (gate == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)
    assert layer.eval()(x) is None


def test_paths_are_dropped_image_by_image_but_never_the_identity() -> None:
    mixed = Mixed(("same", "mean"), {"same": nn.Identity(), "mean": nn.AvgPool2d(1)})
    mixed.drop_path.rate = 0.5
    found = added(mixed, torch.ones(400, 1, 1, 1))
    assert set(found.flatten().tolist()) == {1.0, 3.0}  # dropped, or kept and doubled


def test_mixed_adds_candidates_under_their_gates_by_name() -> None:
    double = nn.Conv2d(1, 1, 1, bias=False)
    nn.init.constant_(double.weight, 2.0)
    mixed = Mixed(("none", "twice", "same"), {"same": nn.Identity(), "twice": double})
    x = torch.ones(2, 1, 1, 1)
    gates = torch.tensor([[9.0, 1.0, 0.5], [9.0, 0.0, 3.0]])  # one row for each image
    assert added(mixed, x, gates).flatten().tolist() == [2.5, 3.0]
    assert added(mixed, x).flatten().tolist() == [3.0, 3.0]
    assert added(mixed, x, torch.zeros(1, 3)) is None


def test_a_shut_gate_costs_nothing_and_one_that_learns_is_computed() -> None:
    class Counted(nn.Hardtanh):
        calls = 0

        def forward(self, input: Tensor) -> Tensor:
            Counted.calls += 1
            return input

    mixed, x = Mixed(("a", "b"), {"a": Counted(), "b": nn.Identity()}), torch.ones(1, 1, 1, 1)
    added(mixed, x, torch.tensor([[0.0, 1.0]]))
    assert Counted.calls == 0
    gates = torch.tensor([[0.0, 1.0]], requires_grad=True)
    assert shut(gates) == set()
    (slope,) = torch.autograd.grad(added(mixed, x, gates).sum(), gates)
    assert Counted.calls == 1
    assert slope.tolist() == [[1.0, 1.0]]
    mixed.hard = True
    (slope,) = torch.autograd.grad(added(mixed, x, gates).sum(), gates)
    assert Counted.calls == 1
    assert slope.tolist() == [[0.0, 1.0]]


def test_an_edge_gate_scales_all_that_its_edge_brings() -> None:
    x, y = torch.ones(2, 1, 1, 1), torch.full((2, 1, 1, 1), 10.0)
    first = Terms([(x, None), (x, None)], torch.tensor([[1.0, 2.0]])).under(torch.tensor([[3.0]]))
    second = Terms([(y, None)]).under(torch.tensor([[0.5], [0.25]]))
    assert add_up([first, Terms([]), second]).flatten().tolist() == [14.0, 11.5]


@native
@pytest.mark.parametrize("relu_last", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("searching", [False, True])
@pytest.mark.parametrize("channels", [8, 6, 10])
def test_a_state_takes_the_native_way_and_gives_the_same(
    relu_last: bool, stride: int, searching: bool, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    style = Style(order="conv-bn-relu" if relu_last else DARTS, searching=searching)
    operations = {name: build(channels, stride, style) for name, build in OPS.items()}
    edge, x = Mixed((*OPS, "none"), operations), torch.randn(4, channels, 9, 9).requires_grad_()
    for norm in (module for module in edge.modules() if isinstance(module, nn.BatchNorm2d)):
        if norm.affine:
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
    before = {name: value.clone() for name, value in edge.state_dict().items()}
    gates = torch.rand(1, len(OPS) + 1).requires_grad_()
    found = []
    for native in (True, False):
        torch.manual_seed(1)  # the same noise both times
        edge.load_state_dict(before)
        if not native:
            monkeypatch.setattr(kernels, "ready", lambda *_: False)
        other = Mixed(("a",), {"a": nn.Identity()}) if stride == 1 else None
        terms = [edge(x, gates), *([other(x.detach())] if other else [])]
        calls = sum(chain is not None and chain.native(x) for x, chain in terms[0].parts)
        assert (calls > 0) == native
        total = add_up(terms)
        wanted = [x, gates, *edge.parameters()]
        slopes = torch.autograd.grad(total.square().sum(), wanted)
        found.append([total, *slopes, *(b.double() for b in edge.buffers())])
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).norm() <= 1e-4 * theirs.norm() + 1e-5


def test_statistics_of_the_data_set_are_used_where_the_net_is_only_evaluated() -> None:
    chain = OPS["sep_conv_3x3"](8, 1, Style(searching=False))
    assert isinstance(chain, Chain)
    assert all(isinstance(block, Block) and block.native() for block in chain.blocks())
    assert not any(block.native() for block in chain.eval().blocks())


@pytest.mark.parametrize(("side", "half"), [(8, 4), (7, 4), (1, 1)])
def test_halving_gives_the_size_of_any_strided_operation(side: int, half: int) -> None:
    chain = halve(3, 5, Style(searching=False)).eval()
    assert chain(torch.randn(2, 3, side, side)).shape == (2, 5, half, half)


def test_halving_sees_even_and_odd_pixels() -> None:
    (block,) = halve(1, 2, Style()).blocks()
    assert isinstance(block, FactorizedReduce)
    nn.init.ones_(block.even.weight)
    nn.init.ones_(block.odd.weight)
    block.norm = nn.Identity()
    even, odd = block(torch.arange(1.0, 17.0).reshape(1, 1, 4, 4))[0]
    assert even.tolist() == [[1, 3], [9, 11]]
    assert odd.tolist() == [[6, 8], [14, 16]]


@native
@pytest.mark.parametrize("make", [halve, squeeze])
@pytest.mark.parametrize("side", [8, 7])
@pytest.mark.parametrize(("inputs", "outputs"), [(32, 16), (24, 16), (16, 48), (10, 6), (3, 8)])
def test_pointwise_blocks_are_the_plain_ones(
    make: Callable[..., Chain], side: int, inputs: int, outputs: int
) -> None:
    chain, x = make(inputs, outputs, Style()), torch.randn(3, inputs, side, side).requires_grad_()
    assert chain.native(x)
    ours, theirs = output(chain, x), chain(x)
    upstream = torch.randn_like(theirs)
    wanted = [x, *chain.parameters()]
    for mine, other in zip(
        [ours, *torch.autograd.grad(ours, wanted, upstream)],
        [theirs, *torch.autograd.grad(theirs, wanted, upstream)],
        strict=True,
    ):
        assert (mine - other).norm() <= 1e-4 * other.norm() + 1e-5


@native
@pytest.mark.parametrize("make", [halve, squeeze])
@pytest.mark.parametrize(("inputs", "outputs"), [(8, 16), (6, 10)])
def test_drawn_pointwise_blocks_have_the_gradients_of_differences(
    make: Callable[..., Chain], inputs: int, outputs: int
) -> None:
    chain = make(inputs, outputs, Style(VariationalConv2d)).double()
    for conv in (module for module in chain.modules() if isinstance(module, VariationalConv2d)):
        nn.init.constant_(conv.log_var, -1.0)
    x = torch.randn(2, inputs, 4, 5, dtype=torch.float64).requires_grad_()
    names = [name for name, _ in chain.named_parameters()]

    def function(x: Tensor, *weights: Tensor) -> Tensor:
        torch.manual_seed(1)  # the same noise each time
        given = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(
            Alone(chain), {f"chain.{n}": w for n, w in given.items()}, x
        )

    weights = [parameter.detach().clone().requires_grad_() for parameter in chain.parameters()]
    assert torch.autograd.gradcheck(function, (x, *weights), atol=1e-4, rtol=1e-3, fast_mode=True)
