"""NAS-Bench-201: counts, strings and isomorphisms of its own table, and its networks."""

from itertools import product
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ardor import spaces
from ardor.architecture import Architecture
from ardor.bench.nasbench201.truth import Truth
from ardor.data import Normalise
from ardor.errors import ArdorError
from ardor.layers.blocks import BarePool
from ardor.layers.variational import Variational, VariationalConv2d
from ardor.models.model import Model
from ardor.models.sizes import multiply_adds, parameters
from ardor.models.smaller import compact
from ardor.reporting.drawing import draw
from ardor.spaces.nasbench201 import EDGES, OPERATIONS, Nasbench201, cell_string, unique, written

SMALL = Nasbench201(image=(2, 9, 7), classes=3, channels=4, cells=2)
MIXED = "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_1x1~1|none~2|"
CUT_OFF = "|nor_conv_3x3~0|+|none~0|none~1|+|none~0|none~1|nor_conv_1x1~2|"  # node 2 is zeros
NOTHING = written(dict.fromkeys(EDGES, "none"))


@pytest.fixture(scope="module")
def truth(real_data: Path) -> Truth:
    return Truth.read(real_data / "nasbench201.csv.gz")


def chance(space: Nasbench201, how: str) -> Architecture:
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices}
    return space.strongest(scores) if how == "strongest" else space.subset(scores, 0.6)


def costs(space: Nasbench201, cell: dict[str, str]) -> tuple[int, int]:
    """Parameters, and multiply-adds as the benchmark counts them: with the classifier's bias."""
    with torch.device("meta"):
        net = space.build(space.from_string(written(cell)))
    return parameters(net), multiply_adds(net, space.image) + space.classes


def test_every_cell_has_the_parameters_and_multiply_adds_of_the_table(truth: Truth) -> None:
    space, empty = Nasbench201(), dict.fromkeys(EDGES, "none")
    base = costs(space, empty)
    assert base[0] == 73_306
    alone = {(e, op): costs(space, empty | {e: op}) for e, op in product(EDGES, OPERATIONS)}
    for cell in truth.cells[:: len(truth.cells) // 2]:  # what an edge costs, it costs in any cell
        chosen = {e: op for e, (op,) in table_cell(space, cell).items()}
        both = zip(*(alone[pair] for pair in chosen.items()), strict=True)
        sums = tuple(sum(each) - 5 * b for each, b in zip(both, base, strict=True))
        assert costs(space, chosen) == sums
    for index, name in enumerate(("params_cifar10", "mflops_cifar10")):
        ours = [
            sum(alone[e, op][index] for e, (op,) in table_cell(space, cell).items())
            - 5 * base[index]
            for cell in truth.cells
        ]
        theirs = truth.numbers(name) * (1e6 if index else 1)
        assert theirs.round().astype(int).tolist() == ours


def table_cell(space: Nasbench201, cell: str) -> dict[str, tuple[str, ...]]:
    return {edge: kept or ("none",) for edge, kept in space.from_string(cell).kept}


def test_strings_and_isomorphisms_are_those_of_the_table(truth: Truth) -> None:
    assert len(set(truth.cells)) == len(OPERATIONS) ** len(EDGES)
    assert [unique(cell) for cell in truth.cells] == list(truth.columns["unique_id_str"])
    for cell in truth.cells:
        assert cell_string(SMALL.from_string(cell).options) == cell


@pytest.mark.parametrize(
    "text",
    ["", "|", MIXED[:-1], MIXED + "+", MIXED.replace("1x1", "5x5"), MIXED.replace("~2", "~1")],
)
def test_other_strings_are_refused(text: str) -> None:
    with pytest.raises(ArdorError, match="no cell of NAS-Bench-201"):
        SMALL.from_string(text)


def test_cells_that_the_benchmark_does_not_have_have_no_string() -> None:
    several = {**SMALL.from_string(MIXED).options, "0>1": ("nor_conv_1x1", "skip_connect")}
    for kept in (several, {"normal/0>2": ()}):
        with pytest.raises(ArdorError, match="one operation on each edge"):
            cell_string(kept)


def test_isomorphic_cells_are_known() -> None:
    skips = "|skip_connect~0|+|nor_conv_3x3~0|none~1|+|none~0|none~1|skip_connect~2|"
    other = "|none~0|+|nor_conv_3x3~0|skip_connect~1|+|none~0|skip_connect~1|skip_connect~2|"
    assert unique(skips) == unique(other) == "#+#+#+(0)@nor_conv_3x3"
    assert unique(skips) != unique(MIXED)


def plain(net: nn.Module, cell: dict[str, tuple[str, ...]], x: Tensor) -> Tensor:
    """The network of the benchmark, written out; in evaluation."""
    weights = net.state_dict()

    def norm(name: str, x: Tensor) -> Tensor:
        mean, variance, scale, shift = (
            weights[f"{name}.{k}"][:, None, None]
            for k in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (variance + 1e-5).sqrt() * scale + shift

    def operation(name: str, op: str, x: Tensor) -> Tensor:
        if op == "nor_conv_1x1":
            x = F.conv2d(F.relu(x), weights[f"{name}.0.pointwise.weight"])
            return norm(f"{name}.0.norm", x)
        if op == "nor_conv_3x3":
            x = F.conv2d(F.relu(x), weights[f"{name}.0.conv.weight"], padding=1)
            return norm(f"{name}.0.norm", x)
        return x if op == "skip_connect" else F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)

    def halved(name: str, x: Tensor) -> Tensor:
        inner = F.conv2d(F.relu(x), weights[f"{name}.first.1.weight"], stride=2, padding=1)
        inner = F.relu(norm(f"{name}.first.2", inner))
        inner = norm(
            f"{name}.second.2", F.conv2d(inner, weights[f"{name}.second.1.weight"], padding=1)
        )
        return inner + F.conv2d(F.avg_pool2d(x, 2), weights[f"{name}.widen.weight"])

    x = norm("stem.1", F.conv2d(x, weights["stem.0.weight"], padding=1))
    for index in range(6):
        if index in (2, 4):
            x = halved(f"reductions.{index // 2 - 1}", x)
        nodes = [x]
        for node in (1, 2, 3):
            total = torch.zeros_like(x)
            for source in range(node):
                for op in cell[f"{source}>{node}"]:
                    name = f"cells.{index}.edges.{source}>{node}.candidates.{op}"
                    total = total + operation(name, op, nodes[source])
            nodes.append(total)
        x = nodes[3]
    x = F.relu(norm("norm", x)).mean((2, 3))
    return F.linear(x, weights["classify.weight"], weights["classify.bias"])


@pytest.mark.parametrize("cell", [MIXED, CUT_OFF, NOTHING, "subset"])
def test_a_network_is_that_of_the_benchmark(cell: str) -> None:
    space = Nasbench201(image=(2, 8, 12), classes=3, channels=4, cells=2)
    found = chance(space, "subset") if cell == "subset" else space.from_string(cell)
    net, x = space.build(found).eval(), torch.randn(3, *space.image)
    for name, value in net.state_dict().items():
        if "num_batches" not in name:
            value.copy_(torch.rand_like(value) + 0.5 if "var" in name else torch.randn_like(value))
    ours, theirs = net(x), plain(net, dict(found.options), x)
    assert (ours - theirs).norm() <= 1e-4 * theirs.norm()
    if cell == NOTHING:
        assert (ours == ours[0]).all()  # the output is not reached: nothing is seen of the image


@pytest.mark.parametrize("partial", [1, 2])
@pytest.mark.parametrize("how", ["strongest", "subset"])
def test_the_supernet_under_one_hot_gates_is_the_network(how: str, partial: int) -> None:
    space = Nasbench201(image=(2, 9, 7), classes=3, channels=4, cells=2, partial=partial)
    supernet, x = space.build(), torch.randn(4, *space.image)
    for architecture in [*(chance(space, how) for _ in range(3)), space.from_string(CUT_OFF)]:
        network = space.build(architecture, as_searched=True)
        network.load_state_dict({n: supernet.state_dict()[n] for n in network.state_dict()})
        ours = supernet(x, space.masks(architecture))
        assert torch.allclose(ours, network(x), atol=1e-5)


def test_searching_uses_batch_statistics_and_bare_pools() -> None:
    net = SMALL.build()
    norms = {n: m for n, m in net.named_modules() if isinstance(m, nn.BatchNorm2d)}
    assert not any(norm.track_running_stats for norm in norms.values())
    assert [name for name, norm in norms.items() if norm.affine] == ["stem.1"]
    edge = net.cells[0].edges["0>1"].candidates
    assert isinstance(edge["avg_pool_3x3"][0], BarePool)
    assert "none" not in edge


def test_variational_weights_are_everywhere() -> None:
    net = SMALL.build(conv=VariationalConv2d)
    layers = [m for m in net.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    assert all(isinstance(layer, Variational) for layer in layers)


def test_zero_is_an_answer_and_the_first_of_equals_is_best() -> None:
    scores = {c.name: torch.zeros(1, 1, 5) for c in SMALL.choices}
    scores["0>3"][..., 3] = 1.0
    scores["1>2"][..., 4] = scores["1>2"][..., 2] = 1.0
    found = SMALL.strongest(scores).options
    assert found["0>3"] == ("nor_conv_3x3",)
    assert found["1>2"] == ("nor_conv_1x1",)
    assert all(found[edge] == () for edge in set(EDGES) - {"0>3", "1>2"})


def test_counts_of_draws_are_those_of_each_draw() -> None:
    draws = {c.name: torch.randn(200, 1, 5) for c in SMALL.choices}
    counts = dict(zip(EDGES, SMALL.strongest_of_each(draws), strict=True))
    each = [
        SMALL.strongest({n: d[at, None] for n, d in draws.items()}).options for at in range(200)
    ]
    for edge, count in counts.items():
        assert count.total() == 200
        for ((name, kept),), times in count.items():
            assert name == edge
            assert times == sum(found[edge] == kept for found in each)


def test_a_subset_keeps_what_is_likely_and_always_reaches_the_output() -> None:
    shares = {c.name: torch.full((1, 1, 5), 0.1) for c in SMALL.choices}
    shares["0>3"][..., 1:] = torch.tensor([0.2, 0.9, 0.8, 0.3])
    found = SMALL.subset(shares).options
    assert found["0>3"] == ("nor_conv_1x1", "nor_conv_3x3")
    assert sum(map(len, found.values())) == 2
    shares["0>3"][:] = 0.1
    shares["0>1"][..., 2] = 0.9  # kept
    shares["1>3"][..., 4] = 0.45  # not likely, and yet on the likeliest way to the output
    shares["2>3"][..., 0] = 1.0  # zero is never kept
    found = SMALL.subset(shares).options
    assert found["0>1"] == ("nor_conv_1x1",)
    assert found["1>3"] == ("avg_pool_3x3",)
    assert sum(map(len, found.values())) == 2
    nothing = {c.name: torch.zeros(1, 1, 5) for c in SMALL.choices}
    assert SMALL.subset(nothing).options["0>3"] == ("skip_connect",)


def test_weight_norms_and_leaving() -> None:
    net, choice = SMALL.build(), SMALL.choices[0]
    norms = net.weight_norms(choice)
    assert norms.shape == (6, 5)
    assert norms.gt(0).any(0).tolist() == [False, False, True, True, False]
    conv = net.cells[5].edges["0>1"].candidates["nor_conv_3x3"][0].conv
    assert torch.equal(norms[5, 3], conv.weight.square().sum())
    x, gates = torch.randn(2, *SMALL.image), {choice.name: torch.tensor([[[0.1, 0.2, 0.3, 0, 1]]])}
    before = net(x, gates)
    for option in ("nor_conv_3x3", "none"):
        net.take_out(choice, option)
    assert torch.allclose(net(x, gates), before, atol=1e-6)
    assert "nor_conv_3x3" not in net.cells[5].edges["0>1"].candidates


@pytest.mark.parametrize("cell", [MIXED, CUT_OFF, NOTHING])
def test_a_network_is_made_compact_and_read_again(cell: str, tmp_path: Path) -> None:
    architecture = SMALL.from_string(cell)
    net = SMALL.build(architecture).eval()
    for name, norm in ((n, m) for n, m in net.named_modules() if isinstance(m, nn.BatchNorm2d)):
        nn.init.normal_(norm.bias)
        if "edges" in name or "reductions" in name:
            norm.weight.data[1:] = norm.bias.data[1:] = 0
    model = Model(net, Normalise(torch.zeros(2), torch.ones(2)), architecture, ("a", "b", "c"))
    small, pixels = compact(model.eval()), torch.randn(3, *SMALL.image)
    assert parameters(small.net) < parameters(net)
    assert torch.allclose(small(pixels), model(pixels), atol=1e-4)
    small.save(tmp_path / "model", card="")
    assert torch.equal(Model.load(tmp_path / "model")(pixels), small(pixels))


def test_a_cell_is_drawn_from_its_input_to_its_output() -> None:
    drawn = draw(SMALL.from_string(MIXED), SMALL.choices)
    assert all(words in drawn for words in ("cell input", "cell output", "nor conv 3×3"))
    assert drawn.count("data-choice") == 5
    assert "nothing" in draw(SMALL.from_string(NOTHING), SMALL.choices)


def test_wrong_settings_and_architectures_are_named() -> None:
    for settings, words in (
        ({"image": (1, 3, 8)}, "3 pixels"),
        ({"partial": 3}, "space.partial = 3"),
        ({"cells": 0}, "cells"),
        ({"layout": "N"}, "layout"),
    ):
        with pytest.raises(ArdorError, match=words):
            spaces.make("nasbench201", settings)
    kept = {**SMALL.from_string(MIXED).options, "0>1": ("none",)}
    with pytest.raises(ArdorError, match="'none' is kept on 0>1"):
        SMALL.build(SMALL.architecture(kept))
    assert spaces.of(SMALL.from_string(MIXED)) == SMALL


def test_a_supernet_too_large_to_be_built_is_told_before() -> None:
    Nasbench201(channels=160, cells=10).check_size()
    for build in (Nasbench201(channels=9000).check_size, Nasbench201(channels=9000).build):
        with pytest.raises(
            ArdorError, match="weights, with up to 36,000 channels; must be at most"
        ):
            build()
