"""The native blocks against the plain layers they stand for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor import kernels
from ardor.kernels import Shape, mixed, ready
from ardor.layers import Chain, Mixed, SeparableBlock, VariationalConv2d
from ardor.ops import OPS, Style

native = pytest.mark.skipif(kernels.library() is None, reason="no compiler here")
CASES = {
    "odd": (3, 8, 7, 9),
    "square": (2, 16, 8, 8),
    "many channels": (2, 48, 6, 6),
    "one image": (1, 24, 5, 5),
    "one pixel": (4, 8, 1, 1),
    "wide": (2, 32, 3, 17),
}
each_case = pytest.mark.parametrize("size", CASES.values(), ids=CASES)


def shapes(stride: int, relu_last: bool, uncertain: bool = False) -> list[list[Shape]]:
    """Every kind of chain that the operations have."""

    def one(kernel: int, step: int, dilation: int, relu: bool, last: bool) -> Shape:
        return Shape(kernel, step, dilation, relu, last, uncertain, 1e-5)

    first = not relu_last
    twice = [[one(k, stride, 1, first, False), one(k, 1, 1, True, relu_last)] for k in (3, 5, 7)]
    return [*twice, *([one(k, stride, 2, first, relu_last)] for k in (3, 5))]


def weights_of(chains: list[list[Shape]], channels: int, dtype: torch.dtype) -> list[Tensor]:
    found = []
    for shape in (shape for chain in chains for shape in chain):
        sizes = [(channels, 1, shape.kernel, shape.kernel), (channels, channels, 1, 1)]
        found += [torch.randn(size, dtype=dtype).requires_grad_() for size in sizes]
        if shape.uncertain:
            found += [(torch.rand(size, dtype=dtype) + 0.1).requires_grad_() for size in sizes]
    return found


def plain(
    x: Tensor, gates: Tensor, chains: list[list[Shape]], weights: list[Tensor], others: list[Tensor]
) -> Tensor:
    """What torch makes of the same blocks, layer by layer."""
    left = iter(weights)
    outputs = []
    for chain in chains:
        h = x
        for s in chain:
            h = F.relu(h) if s.relu else h
            padding = s.dilation * (s.kernel // 2)
            h = F.conv2d(h, next(left), None, s.stride, padding, s.dilation, groups=h.shape[1])
            h = F.batch_norm(F.conv2d(h, next(left)), None, None, training=True, eps=s.eps)
            h = F.relu(h) if s.relu_last else h
        outputs.append(h)
    terms = [*outputs, *others]
    return sum(gates[:, k, None, None, None] * term for k, term in enumerate(terms))


@native
@each_case
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("relu_last", [False, True])
@pytest.mark.parametrize("per_image", [False, True])
def test_outputs_and_gradients_are_the_plain_ones(
    size: tuple[int, int, int, int], stride: int, relu_last: bool, per_image: bool
) -> None:
    batch, channels, height, width = size
    if (batch * -(-height // stride) * -(-width // stride)) == 1:
        pytest.skip("nothing to take statistics of")
    chains = shapes(stride, relu_last)
    weights = weights_of(chains, channels, torch.float32)
    x = torch.randn(size).to(memory_format=torch.channels_last).requires_grad_()
    half = (batch, channels, -(-height // stride), -(-width // stride))
    others = [torch.randn(half).requires_grad_() for _ in range(2)]
    gates = torch.randn(batch if per_image else 1, len(chains) + 2).requires_grad_()
    assert ready(x, chains)
    ours, theirs = (f(x, gates, chains, weights, others) for f in (mixed, plain))
    assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4 * theirs.abs().max().item())
    upstream = torch.randn_like(theirs)
    inputs = [x, gates, *others, *weights]
    for mine, other in zip(
        torch.autograd.grad(ours, inputs, upstream),
        torch.autograd.grad(theirs, inputs, upstream),
        strict=True,
    ):
        assert (mine - other).norm() <= 1e-4 * other.norm() + 1e-4


@native
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("relu_last", [False, True])
@pytest.mark.parametrize("uncertain", [False, True])
def test_gradients_in_float64_are_those_of_differences(
    stride: int, relu_last: bool, uncertain: bool
) -> None:
    chains = shapes(stride, relu_last, uncertain)[::3]
    weights = weights_of(chains, 8, torch.float64)
    x = torch.randn(2, 8, 4, 5, dtype=torch.float64).requires_grad_()
    gates = torch.randn(2, len(chains), dtype=torch.float64).requires_grad_()

    def function(x: Tensor, gates: Tensor, *weights: Tensor) -> Tensor:
        torch.manual_seed(1)  # the same noise each time
        return mixed(x, gates, chains, weights, [])

    assert torch.autograd.gradcheck(
        function, (x, gates, *weights), atol=1e-4, rtol=1e-3, fast_mode=True
    )


def block(conv: type[nn.Conv2d], relu_last: bool) -> SeparableBlock:
    style = Style(conv, relu_last=relu_last)
    chain = OPS["dil_conv_3x3"](16, 1, style)
    assert isinstance(chain, Chain)
    return chain.blocks()[0]


@native
def test_drawn_activations_have_the_moments_of_the_plain_layer() -> None:
    made = block(VariationalConv2d, relu_last=False)
    for conv in (made.depthwise, made.pointwise):
        nn.init.normal_(conv.weight)
        nn.init.constant_(conv.log_var, -1.0)
    x = torch.randn(2, 16, 6, 6).to(memory_format=torch.channels_last)
    shape = made.shape(first=True, last=True)
    with torch.no_grad():
        ours = torch.stack([kernels._Made.of(shape, x, made.weights()).z for _ in range(3000)])
        theirs = torch.stack([made.pointwise(made.depthwise(F.relu(x))) for _ in range(3000)])
    error = theirs.std(0).max().item() * (2 / 3000) ** 0.5
    assert (ours.mean(0) - theirs.mean(0)).abs().max().item() < 6 * error
    ratio = ours.std(0) / theirs.std(0)
    assert ratio.min().item() > 0.88
    assert ratio.max().item() < 1.13
    apart = torch.corrcoef(torch.stack([ours[:, 0, 0, 0, 0], ours[:, 0, 0, 3, 3]]))[0, 1]
    assert abs(apart.item()) < 0.1  # each activation has noise of its own


@native
def test_noise_follows_from_the_seed_and_is_fresh_each_time() -> None:
    chains = shapes(1, relu_last=False, uncertain=True)
    weights, x = weights_of(chains, 8, torch.float32), torch.randn(2, 8, 5, 5)
    gates = torch.ones(1, len(chains))
    torch.manual_seed(3)
    first, second = mixed(x, gates, chains, weights, []), mixed(x, gates, chains, weights, [])
    torch.manual_seed(3)
    assert torch.equal(mixed(x, gates, chains, weights, []), first)
    assert not torch.allclose(first, second)


@native
@pytest.mark.parametrize("relu_last", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_mixed_operation_takes_the_native_way_and_gives_the_same(
    relu_last: bool, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    style = Style(relu_last=relu_last)
    operations = {name: build(8, stride, style) for name, build in OPS.items()}
    edge, x = Mixed((*OPS, "none"), operations), torch.randn(4, 8, 9, 9)
    gates = torch.rand(1, len(OPS) + 1).requires_grad_()
    calls = []
    whole = kernels.mixed
    monkeypatch.setattr(kernels, "mixed", lambda *a: calls.append(1) or whole(*a))
    ours = edge(x, gates)
    assert calls
    monkeypatch.setattr(kernels, "ready", lambda *_: False)
    theirs = edge(x, gates)
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_what_native_code_cannot_do_goes_the_plain_way() -> None:
    chains = shapes(1, relu_last=False)
    assert not ready(torch.empty(0, 8, 4, 4), chains)
    assert not ready(torch.randn(2, 6, 4, 4), chains)
    assert not ready(torch.randn(2, 8, 4, 4).half(), chains)
    edge = Mixed(("sep_conv_3x3",), {"sep_conv_3x3": OPS["sep_conv_3x3"](6, 1, Style())})
    assert edge(torch.randn(2, 6, 4, 4), torch.ones(1, 1)).shape == (2, 6, 4, 4)


@pytest.mark.parametrize("change", [{"ARDOR_NATIVE": "0"}, {"CC": "false"}])
def test_without_a_compiler_everything_still_runs(change: dict[str, str], tmp_path: Path) -> None:
    code = (
        "import torch; from ardor import kernels; from ardor.spaces.cells import Cells;"
        "s = Cells(layout='R', channels=8);"
        "gates = {c.name: torch.rand(1, 1, len(c.options)) for c in s.choices};"
        "print(kernels.library(), s.build()(torch.randn(2, 3, 8, 8), gates).shape)"
    )
    environment = {**os.environ, **change, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("None torch.Size([2, 10])")
