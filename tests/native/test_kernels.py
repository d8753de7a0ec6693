"""The native code against the plain layers it stands for."""

import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ardor.layers import mixed
from ardor.layers.mixed import Mixed
from ardor.layers.operations import OPS
from ardor.layers.style import Style
from ardor.native import kernels
from ardor.native.kernels import native_sum, ready
from ardor.native.shapes import Shape, Term

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


def shapes(
    stride: int, relu_last: bool, samples_weights: bool = False, affine: bool = False
) -> list[tuple[Shape, ...]]:
    """Every kind of chain that the operations have."""

    def one(kernel: int, step: int, dilation: int, relu: bool, last: bool) -> Shape:
        return Shape(
            kernel,
            step,
            dilation,
            relu=relu,
            relu_last=last,
            samples_weights=samples_weights,
            affine=affine,
        )

    first = not relu_last
    twice = [(one(k, stride, 1, first, False), one(k, 1, 1, True, relu_last)) for k in (3, 5, 7)]
    once = [(one(k, stride, 2, first, relu_last),) for k in (3, 5)]
    pools = [
        (Shape(3, stride, kind=kind, relu_last=relu_last, affine=affine),)
        for kind in ("average", "maximum")
    ]
    bare = [(Shape(3, stride, kind=kind, bare=True),) for kind in ("average", "maximum")]
    full = Shape(3, 1, kind="full", relu=first, relu_last=relu_last, affine=affine)
    return [*twice, *once, *pools, *bare, *([(full,)] if stride == 1 else [])]


def weights_of(terms: list[Term], channels: int, dtype: torch.dtype) -> list[Tensor]:
    found = []
    for shape in (shape for term in terms for shape in term.chain):
        mixing = (3, 3) if shape.kind == "full" else (1, 1)
        sizes = {
            "depthwise": (channels, 1, shape.kernel, shape.kernel),
            "pointwise": (channels, channels, *mixing),
        }
        for slot in shape.slots:
            size = sizes.get(slot.removesuffix("_log_var"), (channels,))
            found.append(torch.randn(size, dtype=dtype).requires_grad_())
    return found


def plain(sources: list[Tensor], terms: list[Term], gates: Tensor, weights: list[Tensor]) -> Tensor:
    """What torch makes of the same blocks, layer by layer."""
    left = iter(weights)
    outputs = []
    for term in terms:
        h = sources[term.source]
        for s in term.chain:
            w = {slot: next(left) for slot in s.slots}
            h = F.relu(h) if s.relu else h
            padding = s.dilation * (s.kernel // 2)
            if s.kind == "separable":
                depthwise, groups = w["depthwise"], h.shape[1]
                h = F.conv2d(h, depthwise, None, s.stride, padding, s.dilation, groups)
                h = F.conv2d(h, w["pointwise"])
            elif s.kind == "full":
                h = F.conv2d(h, w["pointwise"], padding=1)
            elif s.kind == "average":
                h = F.avg_pool2d(h, 3, s.stride, 1, count_include_pad=False)
            else:
                h = F.max_pool2d(h, 3, s.stride, 1)
            gamma, beta = w.get("gamma"), w.get("beta")
            if not s.bare:
                h = F.batch_norm(h, None, None, gamma, beta, training=True, eps=s.eps)
            h = F.relu(h) if s.relu_last else h
        outputs.append(h)
    return sum(gates[:, k, None, None, None] * output for k, output in enumerate(outputs))


@native
@each_case
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("relu_last", [False, True])
@pytest.mark.parametrize("per_image", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_outputs_and_gradients_are_the_plain_ones(
    size: tuple[int, int, int, int], stride: int, relu_last: bool, per_image: bool, affine: bool
) -> None:
    batch, channels, height, width = size
    half = (batch, channels, -(-height // stride), -(-width // stride))
    if batch * half[2] * half[3] == 1:
        pytest.skip("nothing to take statistics of")
    chains = shapes(stride, relu_last, affine=affine)
    terms = [*(Term(0, chain) for chain in chains), *([Term(0)] if stride == 1 else [])]
    terms += [*(Term(1, chain) for chain in chains[::2]), Term(2)]
    sources = [torch.randn(s).requires_grad_() for s in (size, size, half)]
    weights = weights_of(terms, channels, torch.float32)
    gates = torch.randn(batch if per_image else 1, len(terms)).requires_grad_()
    ours, _ = native_sum(sources, terms, gates, weights)
    theirs = plain(sources, terms, gates, weights)
    assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4 * theirs.abs().max().item())
    upstream = torch.randn_like(theirs)
    inputs = [gates, *sources, *weights]
    for mine, other in zip(
        torch.autograd.grad(ours, inputs, upstream),
        torch.autograd.grad(theirs, inputs, upstream),
        strict=True,
    ):
        assert (mine - other).norm() <= 1e-4 * other.norm() + 1e-4


@native
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("relu_last", [False, True])
@pytest.mark.parametrize("samples_weights", [False, True])
def test_gradients_in_float64_are_those_of_differences(
    stride: int, relu_last: bool, samples_weights: bool
) -> None:
    terms = [Term(0, chain) for chain in shapes(stride, relu_last, samples_weights, affine=True)]
    weights = weights_of(terms, 8, torch.float64)
    x = torch.randn(2, 8, 4, 5, dtype=torch.float64).requires_grad_()
    gates = torch.randn(2, len(terms), dtype=torch.float64).requires_grad_()

    def function(x: Tensor, gates: Tensor, *weights: Tensor) -> Tensor:
        torch.manual_seed(1)  # the same noise each time
        return native_sum([x], terms, gates, weights)[0]

    assert torch.autograd.gradcheck(
        function, (x, gates, *weights), atol=1e-4, rtol=1e-3, fast_mode=True
    )


@native
def test_of_equal_pixels_the_first_has_the_maximum_as_in_torch() -> None:
    terms = [Term(0, (Shape(3, 1, kind="maximum"),))]
    x = torch.randint(0, 2, (2, 8, 6, 6)).float().requires_grad_()
    gates, upstream = torch.ones(1, 1), torch.randn(2, 8, 6, 6)
    ours, theirs = native_sum([x], terms, gates, [])[0], plain([x], terms, gates, [])
    mine, other = (torch.autograd.grad(y, x, upstream)[0] for y in (ours, theirs))
    assert torch.allclose(mine, other, atol=1e-4)


@native
def test_a_graph_can_be_gone_back_through_twice_and_is_freed() -> None:
    terms = [Term(0, chain) for chain in shapes(1, relu_last=False)]
    weights = weights_of(terms, 8, torch.float32)
    x = torch.randn(2, 8, 5, 5).requires_grad_()
    gates = torch.ones(1, len(terms)).requires_grad_()
    out, _ = native_sum([x], terms, gates, weights)
    whole = torch.autograd.grad(out.sum(), [x, gates, *weights], retain_graph=True)
    again = torch.autograd.grad(out.sum(), [x, gates], retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(whole, again, strict=False))
    node = weakref.ref(out)
    del out
    assert node() is None  # no graph that holds its own output


@native
def test_second_derivatives_are_refused_and_not_zero() -> None:
    x, gates = torch.randn(2, 8, 5, 5), torch.ones(1, 1).requires_grad_()
    out, _ = native_sum([x], [Term(0)], gates, [])
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(out.square().sum(), gates, create_graph=True)


@native
def test_threads_do_not_change_a_bit() -> None:
    terms = [Term(0, chain) for chain in shapes(1, relu_last=False, samples_weights=True)]
    weights, x = weights_of(terms, 16, torch.float32), torch.randn(37, 16, 9, 9)
    gates = torch.randn(37, len(terms)).requires_grad_()
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        out, _ = native_sum([x], terms, gates, weights)
        found.append([out, *torch.autograd.grad(out.square().sum(), [gates, *weights])])
    torch.set_num_threads(before)
    assert all(
        torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True)
    )


@native
def test_noise_follows_from_the_seed_and_is_fresh_each_time() -> None:
    terms = [Term(0, chain) for chain in shapes(1, relu_last=False, samples_weights=True)]
    weights, x = weights_of(terms, 8, torch.float32), torch.randn(2, 8, 5, 5)
    gates = torch.ones(1, len(terms))
    torch.manual_seed(3)
    first, second = (native_sum([x], terms, gates, weights)[0] for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(native_sum([x], terms, gates, weights)[0], first)
    assert not torch.allclose(first, second)


def test_what_native_code_cannot_do_goes_the_plain_way() -> None:
    (chain, *_) = shapes(1, relu_last=False)
    assert not ready(torch.empty(0, 8, 4, 4), chain)
    assert not ready(torch.randn(2, 8, 4, 4).half(), chain)
    for shape in (Shape(1, 1), Shape(9, 1), Shape(5, 1, kind="average")):
        assert not ready(torch.randn(2, 8, 4, 4), (shape,))
    edge = Mixed(("sep_conv_3x3",), {"sep_conv_3x3": OPS["sep_conv_3x3"](6, 1, Style())})
    found = mixed.add_up([edge(torch.randn(0, 6, 4, 4), torch.ones(1, 1))])
    assert found.shape == (0, 6, 4, 4)


@pytest.mark.parametrize("change", [{"ARDOR_NATIVE": "0"}, {"CC": "false"}])
def test_without_a_compiler_everything_still_runs(change: dict[str, str], tmp_path: Path) -> None:
    code = (
        "import torch; from ardor.native import kernels; from ardor.spaces.cells import Cells;"
        "s = Cells(layout='R', channels=8);"
        "gates = {c.name: torch.rand(1, 1, len(c.options)) for c in s.choices};"
        "print(kernels.library(), s.build()(torch.randn(2, 3, 8, 8), gates).shape)"
    )
    environment = {**os.environ, **change, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("None torch.Size([2, 10])")
