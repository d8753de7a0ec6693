"""VINNAS: its objective, its clipping of zero, and how it decides."""

import math
from collections import Counter

import pytest
import torch
from standins.toy import Toy

from ardor.architecture import Choice, Family
from ardor.bayes.divergences import log_uniform_kl
from ardor.layers.operations import ZERO
from ardor.layers.variational import VariationalConv2d
from ardor.methods.vinnas import Vinnas, clip_zero
from ardor.spaces.cells import Cells

SELECTED = (
    ("snr", "sep_conv_5x5"),
    ("magnitude", "sep_conv_3x3"),
    ("likeliest", "sep_conv_3x3"),
)
SPACE = Cells(image=(1, 8, 8), classes=2, layout="R", states=2, channels=2, ops="vinnas")


def with_strengths(
    mean: dict[str, float], variance: dict[str, float], **settings: object
) -> Vinnas:
    """Every edge has these means and variances by operation; others are far behind."""
    method = Vinnas(SPACE, **settings)
    for edge in method.mean:
        for index, option in enumerate(SPACE.operations):
            method.mean[edge].data[..., index] = mean.get(option, -5.0)
            method.log_var[edge].data[..., index] = math.log(variance.get(option, 1.0))
    return method


def test_signal_to_noise_and_magnitude_decide_differently() -> None:
    mean = {"sep_conv_3x3": 1.0, "sep_conv_5x5": 0.9}
    variance = {"sep_conv_3x3": 1.0, "sep_conv_5x5": 0.1}
    for select, expected in SELECTED:
        (found,) = with_strengths(mean, variance, select=select).draw(1)
        assert {op for name, ops in found.kept if "/>" not in name for op in ops} == {expected}


def test_the_likeliest_operation_is_kept_where_the_ratio_prefers_a_surer_weaker_one() -> None:
    """By 50,000 draws of the strengths; of the edges, those with the larger means are kept."""
    method = with_strengths(
        {"sep_conv_3x3": 1.0, "sep_conv_5x5": 0.1}, {"sep_conv_5x5": 0.01}, select="likeliest"
    )
    method.mean["reduce/2>3"].data += 0.5
    method.mean["reduce/1>3"].data += 0.1
    (found,) = method.draw(1)
    drawn = method.decision_counts(50_000)[0]
    often = Counter(op for kept, n in drawn.items() for op in dict(kept)["reduce/0>2"] * n)
    assert found.options["reduce/0>2"] == (often.most_common(1)[0][0],) == ("sep_conv_3x3",)
    assert found.options["reduce/>3"] == ("1", "2")
    (by_ratio,) = Vinnas.draw(with_strengths({"sep_conv_5x5": 0.1}, {"sep_conv_5x5": 0.01}), 1)
    assert by_ratio.options["reduce/0>2"] == ("sep_conv_5x5",)


def test_the_ratio_is_signed_and_divides_by_the_variance() -> None:
    """A strong negative strength is not a strong one; std instead of variance would choose 3x3."""
    mean = {"sep_conv_3x3": 1.0, "sep_conv_5x5": 0.5, "skip_connect": -9.0}
    variance = {"sep_conv_3x3": 1.0, "sep_conv_5x5": 0.3, "skip_connect": 0.001}
    (found,) = with_strengths(mean, variance).draw(1)
    assert {op for name, ops in found.kept if "/>" not in name for op in ops} == {"sep_conv_5x5"}


def test_weights_have_variances_only_where_their_kl_counts() -> None:
    for kl_weights, variational in ((0.1, True), (0.0, False)):
        method = Vinnas(SPACE, kl_weights=kl_weights)
        net = SPACE.build(conv=method.conv)
        assert any("log_var" in name for name, _ in net.named_parameters()) == variational
        terms = method.penalty(method.sample(1, 1.0), net, 1.0)
        assert (terms["kl_weights"].item() > 0) == variational


def test_zero_is_never_selected_and_never_the_likeliest() -> None:
    method = with_strengths({ZERO: 50.0, "skip_connect": 0.1}, {ZERO: 0.01})
    (found,) = method.draw(1)
    assert all(ZERO not in ops for _, ops in found.kept)
    at = SPACE.operations.index(ZERO)
    assert all(share[..., at].item() == 0 for share in method.probabilities().values())


class KeepsAny(Toy):
    """A space that would keep zero like any other operation."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        families: tuple[Family, ...] = ("noise", "conv", "none")
        look = Choice("look", "op", ("noise", "signal", ZERO), families=families)
        return look, *super().choices[1:]


@pytest.mark.parametrize("select", ["snr", "magnitude", "likeliest"])
def test_zero_is_not_kept_even_where_a_space_would_keep_it(select: str) -> None:
    method = Vinnas(KeepsAny(), select=select)
    method.mean["look"].data.copy_(torch.tensor([0.1, 0.3, 5.0]))
    assert method.draw(1)[0].options["look"] == ("signal",)
    (counts,) = method.decision_counts(50)
    assert {dict(kept)["look"] for kept in counts} == {("signal",)}


def test_a_probability_is_how_often_an_operation_is_the_strongest_of_its_edge() -> None:
    """By quadrature, and in 100,000 draws; neither zero nor what has left takes part."""
    method = Vinnas(SPACE)
    for parameter in method.parameters():
        torch.nn.init.normal_(parameter)
    edge, at = "reduce/0>2", SPACE.operations.index("skip_connect")
    method.removed = {edge: {"skip_connect": 1}}
    mean, log_var = method.mean[edge].detach(), method.log_var[edge].detach()
    draws = mean + (0.5 * log_var).exp() * torch.randn(100_000, 1, 10)
    draws[..., [at, SPACE.operations.index(ZERO)]] = -torch.inf
    often = torch.nn.functional.one_hot(draws.argmax(-1), 10).float().mean(0)
    found = method.probabilities()[edge]
    assert torch.allclose(found, often, atol=6e-3)  # four standard errors at most
    assert found.sum().item() == pytest.approx(1.0)


def test_zero_is_clipped_to_the_mean_of_the_others() -> None:
    strengths = torch.tensor([[[1.0, 2.0, 9.0]]], requires_grad=True)
    clipped = clip_zero(strengths, ("a", "b", ZERO))
    assert clipped.flatten().tolist() == [1.0, 2.0, 1.5]
    assert clip_zero(strengths - 10, ("a", "b", ZERO)).flatten().tolist() == [-9.0, -8.0, -8.5]
    assert torch.equal(clip_zero(strengths, ("a", "b", "c")), strengths)
    gates = with_strengths({ZERO: 50.0}, {}).sample(1, 0.5)
    assert all(gate[..., -1].item() <= 1 / 9 for gate in gates.values())


def test_terms_grow_linearly_from_zero_each_from_its_own_start() -> None:
    net = SPACE.build(conv=VariationalConv2d)
    method = Vinnas(
        SPACE,
        kl_weights=2.0,
        kl_weights_start=0.5,
        kl_gates_start=0.0,
        entropy_start=0.2,
        entropy=3.0,
    )
    gates = method.sample(1, 0.0)
    assert all(term.item() == 0 for term in method.penalty(gates, net, 0.0).values())
    half, end = (method.penalty(gates, net, at) for at in (0.5, 1.0))
    assert half["kl_weights"].item() == 0
    assert end["kl_weights"].item() == pytest.approx(2 * net.kl().item(), rel=1e-5)
    assert half["kl_gates"].item() == pytest.approx(0.5 * end["kl_gates"].item())
    assert half["entropy"].item() == pytest.approx(0.375 * end["entropy"].item())
    kl = sum(log_uniform_kl(m, method.log_var[n]).item() for n, m in method.mean.items())
    assert end["kl_gates"].item() == pytest.approx(kl, rel=1e-5)


def test_the_entropy_of_even_gates_is_log_ten_for_each_edge() -> None:
    method = Vinnas(SPACE, entropy=1.0)
    even = {name: torch.full((1, 1, 10), 0.1) for name in method.mean}
    found = method.penalty(even, SPACE.build(), 1.0)["entropy"]
    assert found.item() == pytest.approx(5 * math.log(10), rel=1e-5)


def test_strengths_start_as_the_paper_says() -> None:
    method = Vinnas(Cells(layout="NR", states=4, ops="vinnas"))
    means = torch.cat([mean.flatten() for mean in method.mean.values()])
    assert means.std().item() == pytest.approx(0.001, rel=0.2)
    assert all((log_var == -10).all() for log_var in method.log_var.values())
