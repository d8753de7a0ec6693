"""Cells: counts known from the literature, and one net for the supernet and all networks in it."""

import json
import math

import pytest
import torch
from torch import nn

from ardor import spaces
from ardor.architecture import Architecture
from ardor.errors import ArdorError
from ardor.layers.operations import SETS, ZERO
from ardor.layers.variational import Variational, VariationalConv2d
from ardor.models.sizes import multiply_adds, parameters
from ardor.spaces._cellnet import AuxiliaryHead
from ardor.spaces.cells import Cells

# Liu et al. 2019: (operation, source) of two edges into each state
DARTS_V1 = {
    "normal": "sep3 1 sep3 0 skip 0 sep3 1 skip 0 sep3 1 sep3 0 skip 2",
    "reduce": "max 0 max 1 skip 2 max 0 max 0 skip 2 skip 2 avg 0",
}
DARTS_V2 = {
    "normal": "sep3 0 sep3 1 sep3 0 sep3 1 sep3 1 skip 0 skip 0 dil3 2",
    "reduce": "max 0 max 1 skip 2 max 1 max 0 skip 2 skip 2 max 1",
}
NAMES = {
    "sep3": "sep_conv_3x3",
    "dil3": "dil_conv_3x3",
    "skip": "skip_connect",
    "max": "max_pool_3x3",
    "avg": "avg_pool_3x3",
}
SMALL = {"image": (2, 9, 9), "classes": 3, "layout": "NRN", "states": 3, "channels": 2}


def published(space: Cells, cells: dict[str, str]) -> Architecture:
    scores = {c.name: torch.zeros(1, 1, len(c.options)) for c in space.choices if c.kind == "op"}
    for place, text in cells.items():
        words = text.split()
        for index, (op, source) in enumerate(zip(words[::2], words[1::2], strict=True)):
            at = space.operations.index(NAMES[op])
            scores[f"{place}/{source}>{2 + index // 2}"][..., at] = 1.0
    return space.strongest(scores)


def chance(space: Cells, how: str) -> Architecture:
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices}
    return space.strongest(scores) if how == "strongest" else space.subset(scores, 0.6)


@pytest.mark.parametrize(
    ("cells", "classes", "count"),
    [
        (DARTS_V1, 10, 3_169_414),
        (DARTS_V1, 100, 3_221_344),
        (DARTS_V2, 10, 3_349_342),
        (DARTS_V2, 100, 3_401_272),
    ],
)
def test_published_cells_have_their_parameters(
    cells: dict[str, str], classes: int, count: int
) -> None:
    space = Cells(
        layout="6N R 6N R 6N", states=4, channels=36, ops="darts", classes=classes, auxiliary=True
    )
    net = space.build(published(space, cells))
    assert parameters(net) == count
    if classes == 10:
        assert sum(p.numel() for p in net.auxiliary.parameters()) == 476_426
        assert [h.shape for h in net.heads(torch.randn(2, 3, 32, 32))] == [(2, 10), (2, 10)]
        assert len(net.eval().heads(torch.randn(2, 3, 32, 32))) == 1


@pytest.mark.parametrize(("cells", "count"), [(DARTS_V1, 4_510_432), (DARTS_V2, 4_718_752)])
def test_published_cells_have_their_parameters_on_imagenet(
    cells: dict[str, str], count: int
) -> None:
    space = Cells(
        image=(3, 224, 224),
        classes=1000,
        layout="4N R 4N R 4N",
        states=4,
        channels=48,
        stem=1,
        halvings=3,
        ops="darts",
        auxiliary=True,
    )
    net = space.build(published(space, cells))
    assert parameters(net) == count
    features = 768 * 128 + 2 * 128 + 128 * 768 * 4  # of four states of 192 channels
    assert sum(p.numel() for p in net.auxiliary.parameters()) == features + 768 * 1000 + 1000
    assert multiply_adds(net, space.image) < 600e6  # what is called mobile


def bayesnas(cells: str, **sizes: object) -> tuple[Cells, nn.Module]:
    """The space of the cells of that lambda at these sizes, and their network."""
    found = spaces.known(f"bayesnas-{cells}")
    space = spaces.make("cells", {**dict(found.settings), **sizes})
    assert isinstance(space, Cells)
    return space, space.build(space.adopted(found))


@pytest.mark.parametrize(
    ("cells", "count"), [("0.01", 2_575_702), ("0.007", 3_197_350), ("0.005", 2_512_198)]
)
def test_the_cells_of_bayesnas_have_the_parameters_of_the_released_nets(
    cells: str, count: int
) -> None:
    """Counted from the definitions of the authors' nets; the list of architectures says so too."""
    space, net = bayesnas(cells)
    assert (space.image, space.classes) == ((3, 32, 32), 10)
    assert parameters(net) == count
    assert f"{count:,}" in spaces.named()[f"bayesnas-{cells}"]
    assert net.eval()(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_the_cells_of_bayesnas_have_the_parameters_of_the_released_net_on_imagenet() -> None:
    """4.0 million in print; no norm stands at the end of a stem, and one before the classifier."""
    sizes = {"image": (3, 224, 224), "classes": 1000, "channels": 48, "stem": 1, "halvings": 3}
    space, net = bayesnas("0.01", layout="4N R 4N R 4N", **sizes)
    assert parameters(net) == 4_008_928
    assert multiply_adds(net, space.image) < 600e6  # what is called mobile


def test_named_cells_take_other_images_but_none_that_are_too_small() -> None:
    space, net = bayesnas("0.01", image=(1, 7, 9), classes=3, channels=4, layout="NRNRN")
    assert net(torch.randn(2, *space.image)).shape == (2, 3)
    with pytest.raises(ArdorError, match="halves 3 pixels more often than they allow"):
        bayesnas("0.01", image=(1, 3, 9))


def test_a_stem_that_halves_gives_the_first_cell_two_sizes() -> None:
    image = torch.randn(2, 3, 28, 20)
    for halvings, sizes, widths in (
        (0, [(28, 20)], [12]),
        (1, [(28, 20), (14, 10)], [12, 12]),
        (2, [(14, 10), (7, 5)], [12, 12]),
        (3, [(7, 5), (4, 3)], [6, 12, 12]),
    ):
        space = Cells(image=(3, 28, 20), layout="N", channels=4, stem=3, halvings=halvings)
        net = space.build()
        stems = [stem for stem in (net.stem, net.second_stem) if stem is not None]
        convs = [m for stem in stems for m in stem.modules() if isinstance(m, nn.Conv2d)]
        assert [conv.out_channels for conv in convs] == widths
        found, x = [], image
        for stem in stems:
            x = stem(x)
            found.append(tuple(x.shape[2:]))
        assert found == sizes
        assert net(image).shape == (2, 10)


def test_the_auxiliary_head_of_imagenet_pools_seven_pixels_to_two() -> None:
    head = AuxiliaryHead(4, 3, halved=True)
    seen: list[torch.Tensor] = []
    head.features[0].register_forward_hook(lambda module, given, made: seen.append(given[0]))
    x = torch.randn(2, 4, 7, 7).abs()
    assert head(x).shape == (2, 3)
    corners = [x[:, :, i : i + 5, j : j + 5].mean((2, 3)) for i in (0, 2) for j in (0, 2)]
    assert torch.allclose(seen[0].flatten(2), torch.stack(corners, 2), atol=1e-6)


def test_the_darts_supernet_has_its_parameters() -> None:
    space = Cells(layout="NNRNNRNN", states=4, channels=16, ops="darts")
    assert sum(p.numel() for p in space.build().parameters()) == 1_930_618


@pytest.mark.parametrize(("states", "edges", "exponent"), [(2, 5, 5), (3, 9, 18), (4, 14, 28)])
def test_edges_and_size_of_the_space(states: int, edges: int, exponent: int) -> None:
    space = Cells(layout="R" if states == 2 else "NR", states=states, ops="vinnas")
    ops = [c for c in space.choices if c.kind == "op"]
    assert len(ops) == edges * (1 if states == 2 else 2)
    assert all(len(c.options) == 10 for c in ops)
    assert sum(math.log10(len(c.options)) for c in ops) == pytest.approx(exponent)


@pytest.mark.parametrize(
    ("layout", "cells"),
    [("R", "R"), ("NNRNNRNN", "NNRNNRNN"), ("6N R 6N R 6N", "NNNNNNRNNNNNNRNNNNNN"), ("2R", "RR")],
)
def test_layouts(layout: str, cells: str) -> None:
    assert Cells(layout=layout).cells == cells


def test_operation_sets() -> None:
    counts = {"vinnas": 10, "darts": 8, "seven": 7}
    assert {name: len(SETS[name]) for name in counts} == counts
    assert ZERO not in SETS["seven"]
    edge = Cells(ops="vinnas").build().cells[0].edges["0>2"]
    pooled = edge.candidates["avg_pool_3x3"](torch.randn(2, 8, 6, 6))
    assert pooled.min().item() == 0.0  # rectified after the pool, as every operation of VINNAS


@pytest.mark.parametrize(
    ("ops", "order"),
    [("vinnas", "auto"), ("darts", "auto"), ("darts", "conv-bn-relu"), ("vinnas", "bn-relu-conv")],
)
@pytest.mark.parametrize("how", ["strongest", "subset"])
@pytest.mark.parametrize("shared", [True, False])
def test_the_supernet_under_one_hot_gates_is_the_network(
    ops: str, order: str, how: str, shared: bool
) -> None:
    space = Cells(**SMALL, ops=ops, order=order, shared=shared)
    supernet, x = space.build(), torch.randn(4, *space.image)
    for seed in range(2):
        torch.manual_seed(seed)
        architecture = chance(space, how)
        network = space.build(architecture, as_searched=True)
        network.load_state_dict({n: supernet.state_dict()[n] for n in network.state_dict()})
        ours = supernet(x, space.masks(architecture))
        assert torch.allclose(ours, network(x), atol=1e-5)


def test_the_final_network_takes_the_supernets_weights_by_name() -> None:
    space = Cells(**SMALL, ops="seven")
    network = space.build(chance(space, "subset"))
    known = space.build().state_dict()
    convs = {n for n, m in network.named_modules() if isinstance(m, nn.Conv2d)}
    assert {f"{n}.weight" for n in convs} <= set(known)


@pytest.mark.parametrize("order", ["conv-bn-relu", "bn-relu-conv"])
def test_searching_uses_batch_statistics_and_no_scale(order: str) -> None:
    space = Cells(**SMALL, ops="vinnas", order=order)
    norms = [m for m in space.build().modules() if isinstance(m, nn.BatchNorm2d)]
    assert not any(norm.affine or norm.track_running_stats for norm in norms)
    final = space.build(chance(space, "strongest"))
    norms = [m for m in final.modules() if isinstance(m, nn.BatchNorm2d)]
    assert all(norm.affine and norm.track_running_stats for norm in norms)


@pytest.mark.parametrize("how", ["strongest", "subset"])
def test_every_state_has_input_and_zero_is_never_kept(how: str) -> None:
    space = Cells(**{**SMALL, "states": 4}, ops="darts")
    for seed in range(30):
        torch.manual_seed(seed)
        architecture = chance(space, how)
        for choice in space.choices:
            kept = architecture.options[choice.name]
            if choice.kind == "edge":
                assert len(kept) == 2 if how == "strongest" else kept
                assert len(set(kept)) == len(kept)
            assert ZERO not in kept
        assert Architecture.from_json(json.loads(str(architecture))) == architecture
        assert space.build(architecture)(torch.randn(2, *space.image)).isfinite().all()


def test_subset_keeps_any_number_of_operations_and_edges() -> None:
    space = Cells(**{**SMALL, "states": 1, "layout": "N"}, ops="seven")
    shares = {c.name: torch.full((1, 1, len(c.options)), 0.9) for c in space.choices}
    everything = space.subset(shares)
    assert everything.options["normal/0>2"] == SETS["seven"]
    assert everything.options["normal/>2"] == ("0", "1")
    shares["normal/>2"][..., 0] = 0.1
    assert space.subset(shares).options["normal/0>2"] == ()
    nothing = {c.name: torch.zeros(1, 1, len(c.options)) for c in space.choices}
    nothing["normal/1>2"][..., 3] = 0.01
    nothing["normal/>2"][..., 1] = 0.01
    lonely = space.subset(nothing)
    assert lonely.options["normal/1>2"] == ("sep_conv_3x3",)
    assert lonely.options["normal/>2"] == ("1",)


def test_a_method_that_knows_what_falls_may_leave_a_state_without_input() -> None:
    """Nothing leads to state 2, and what reads it goes too; of a whole cell something must stay."""
    space = Cells(layout="N", states=2, channels=2, ops="seven")
    likely = {c.name: torch.ones(1, 1, len(c.options)) for c in space.choices}
    likely |= {"normal/0>2": torch.zeros(1, 1, 7), "normal/1>2": torch.zeros(1, 1, 7)}
    kept = space.connected(likely).options
    assert kept["normal/>2"] == kept["normal/2>3"] == ()
    assert kept["normal/>3"] == ("0", "1")
    assert len(kept["normal/0>3"]) == 7
    assert space.subset(likely).options["normal/>2"]
    assert space.build(space.connected(likely))(torch.randn(2, 3, 32, 32)).isfinite().all()

    none = {name: torch.zeros_like(each) for name, each in likely.items()}
    kept = space.connected(none).options
    assert sum(len(kept[c.name]) for c in space.choices if c.kind == "op") == 1
    empty = space.architecture({c.name: () for c in space.choices})
    with pytest.raises(ArdorError, match="no operation leads into any node of the normal cell"):
        space.build(empty)


def test_edge_scores_multiply_those_of_operations() -> None:
    space = Cells(**{**SMALL, "layout": "N"}, ops="seven", inputs=1)
    scores = {c.name: torch.ones(1, 1, len(c.options)) for c in space.choices}
    scores["normal/>4"] = torch.tensor([[[0.1, 0.2, 0.9, 0.3]]])
    scores["normal/3>4"] *= 2
    assert space.strongest(scores).options["normal/>4"] == ("2",)


def test_zero_is_ignored_even_with_the_top_score() -> None:
    space = Cells(**SMALL, ops="darts")
    scores = {c.name: torch.randn(1, 1, 8) for c in space.choices if c.kind == "op"}
    raised = {name: score.clone() for name, score in scores.items()}
    for score in raised.values():
        score[..., 0] = 1e6
    assert space.strongest(raised) == space.strongest(scores)


def test_gates_of_one_copy_leave_the_others_alone() -> None:
    space = Cells(**SMALL, ops="seven")
    net, x = space.build(), torch.randn(3, *space.image)
    states: dict[int, torch.Tensor] = {}
    for index, cell in enumerate(net.cells):
        cell.register_forward_hook(lambda m, i, o, index=index: states.__setitem__(index, o))
    gates = torch.ones(2, 1, 7)
    net(x, {"normal/0>2": gates})
    before = dict(states)
    gates[1] = 0.3  # the second normal cell is the third cell
    net(x, {"normal/0>2": gates})
    assert torch.equal(states[0], before[0])
    assert torch.equal(states[1], before[1])
    assert not torch.allclose(states[2], before[2])


def test_gates_of_one_image_leave_the_others_alone() -> None:
    space = Cells(**SMALL, ops="seven")
    net = space.build(chance(space, "subset")).eval()  # running statistics: images are independent
    x, gates = torch.randn(4, *space.image), torch.ones(1, 4, 7)
    edge = next(f"normal/{name}" for name in net.cells[0].edges)
    before = net(x, {edge: gates})
    gates[:, 2] = 0.0
    after = net(x, {edge: gates})
    changed = (before != after).any(1).tolist()
    assert changed[2]
    assert not any(changed[:2] + changed[3:])


def test_weight_norms_are_those_of_the_weights_under_each_option() -> None:
    space = Cells(**SMALL, ops="darts")
    net, choices = space.build(), {c.name: c for c in space.choices}
    norms = net.weight_norms(choices["normal/0>2"])
    assert norms.shape == (2, 8)
    candidate = net.cells[2].edges["0>2"].candidates["sep_conv_5x5"]
    expected = sum(p.square().sum() for p in candidate.parameters())
    assert torch.allclose(norms[1, 5], expected)
    assert (norms[:, :4] == 0).all()  # zero, pools, skip
    edges = net.weight_norms(choices["normal/>2"])
    assert torch.allclose(edges[:, 0], norms.sum(1))


def test_the_kl_sums_over_all_variational_weights() -> None:
    space = Cells(**SMALL, ops="vinnas")
    assert space.build().kl().item() == 0.0
    net = space.build(conv=VariationalConv2d)
    layers = [m for m in net.modules() if isinstance(m, Variational)]
    assert net.kl().item() == pytest.approx(sum(m.kl().item() for m in layers), rel=1e-5)
    assert not any(isinstance(m, nn.Conv2d) and m not in layers for m in net.modules())
    assert net.classify in layers


@pytest.mark.parametrize("image", [(1, 8, 8), (3, 7, 13), (4, 5, 5), (1, 4, 4)])
def test_any_image(image: tuple[int, int, int]) -> None:
    space = Cells(image=image, classes=3, layout="RNR", states=2, channels=3, auxiliary=True)
    assert space.build()(torch.randn(2, *image)).shape == (2, 3)
    network = space.build(chance(space, "strongest"))
    assert len(network.heads(torch.randn(2, *image))) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"layout": "NXR"}, "NXR"),
        ({"layout": ""}, "layout"),
        ({"layout": "5R", "image": (1, 8, 8)}, "8 pixels"),
        ({"layout": "R", "halvings": 3, "image": (1, 8, 8)}, "halvings = 3 halves 8 pixels"),
        ({"halvings": -1}, "halvings"),
        ({"ops": "sep_conv_3x4"}, "sep_conv_3x4"),
        ({"ops": "skip_connect"}, "two operations"),
        ({"chanels": 3}, "chanels"),
        ({"states": 0}, "states"),
        (
            {"order": "relu-bn-conv"},
            "must be 'auto', 'relu-conv-bn', 'conv-bn-relu' or 'bn-relu-conv'",
        ),
        ({"classes": 1}, "classes"),
        ({"channels": "many"}, "many"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ArdorError, match=words):
        spaces.make("cells", settings)


def test_an_architecture_of_another_space_is_refused() -> None:
    space = Cells(**SMALL, ops="seven")
    other = chance(Cells(**{**SMALL, "states": 2}, ops="seven"), "strongest")
    with pytest.raises(ArdorError, match="does not belong"):
        space.build(other)
    kept = dict(chance(space, "strongest").kept)
    for wrong in ({"normal/0>2": ("sep_conv_9x9",)}, {"normal/>2": ()}):
        with pytest.raises(ArdorError, match="does not belong"):
            space.build(space.architecture({**kept, **wrong}))


def test_an_architecture_without_an_order_has_that_of_its_operations() -> None:
    content = json.loads(str(chance(Cells(**SMALL, ops="vinnas"), "subset")))
    del content["settings"]["order"]  # as files were before there was one to choose
    before = spaces.of(Architecture.from_json(content))
    assert isinstance(before, Cells)
    assert before.style_order == "conv-bn-relu"


def test_a_space_is_found_again_from_its_architecture() -> None:
    space = Cells(**SMALL, ops="seven", auxiliary=True)
    again = Architecture.from_json(json.loads(str(chance(space, "subset"))))
    assert spaces.of(again) == space
    assert len({again, chance(space, "subset")}) == 2
