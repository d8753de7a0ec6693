"""What a search hands on: with gates of 0 or 1 the network that is cut out is the supernet."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from standins.toy import Toy
from torch import Tensor, nn

from ardor import methods, spaces
from ardor.architecture import Architecture
from ardor.data import Images, Normalise
from ardor.layers.operations import ZERO
from ardor.layers.variational import LOG_VAR_START, VariationalConv2d
from ardor.runtime.device import Runtime
from ardor.searching.gate_gradients import frozen_statistics
from ardor.searching.handover import cut_out, cut_out_together
from ardor.searching.loop import SearchLoop, halves
from ardor.settings.merge import resolve
from ardor.spaces import Net, Space
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import Nasbench201
from ardor.training.start import own, recalibrate_, take_

SMALL = {"image": (1, 8, 8), "classes": 2}
SIZES = {"blocks": {"widths": (4, 4)}, "pyramid": {"planes": 4, "alpha": 4}}
CELLS = Cells(**SMALL, layout="NRN", states=2, channels=4, ops="darts")
SPACES = {
    **{
        name: spaces.make(name, SMALL | SIZES.get(name, {"channels": 4})) for name in spaces.names()
    },
    "darts": CELLS,
    "vinnas": replace(CELLS, ops="vinnas", shared=False),
    "auxiliary": replace(CELLS, auxiliary=True),
    "partial": replace(CELLS, partial=2),
    "partial, vinnas": replace(CELLS, ops="vinnas", partial=2, halvings=1, layout="NR"),
    "partial, nasbench201": Nasbench201(**SMALL, channels=4, cells=1, partial=2),
}
everywhere = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
CONVS = {"plain": nn.Conv2d, "variational": VariationalConv2d}


def chance(space: Space, how: str = "strongest") -> Architecture:
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices}
    for choice in space.choices:
        if ZERO in choice.options:
            scores[choice.name][..., choice.options.index(ZERO)] = 0
    return getattr(space, how)(scores)


def started(
    architecture: Architecture,
    weights: dict[str, Tensor],
    images: Images,
    conv: type[nn.Conv2d] = nn.Conv2d,
) -> Net:
    """The network that begins with these weights, and knows these images."""
    runtime = Runtime.start("cpu", 0)
    net = spaces.network(architecture, conv=conv, as_searched=True)
    take_(net, architecture, weights, Path("run"))
    recalibrate_(net, images, Normalise.of(images), runtime)
    return net.eval()


def same(net: Net, supernet: Net, masks: dict[str, Tensor], images: Images) -> bool:
    """Whether a network computes of each image by itself what the supernet does of all at once."""
    pixels = Normalise.of(images)(images.pixels)
    with torch.no_grad():
        together = supernet.eval()(pixels, masks)
        alone = torch.cat([net(image[None]) for image in pixels])
    return torch.allclose(alone, together, atol=1e-5)


@everywhere
@pytest.mark.parametrize("how", ["strongest", "subset"])
@pytest.mark.parametrize("conv", CONVS.values(), ids=CONVS)
def test_under_hard_gates_supernet_and_network_agree(
    space: Space, how: str, conv: type[nn.Conv2d], bright: Images
) -> None:
    supernet, images = space.build(conv=conv), bright[torch.arange(12)]
    architecture = chance(space, how)
    net = started(architecture, cut_out(supernet, space, architecture, conv), images, conv)
    assert same(net, supernet, space.masks(architecture), images)
    assert not same(net, space.build(conv=conv), space.masks(architecture), images)
    assert net.as_searched
    assert all(norm.affine for norm in net.modules() if isinstance(norm, nn.BatchNorm2d))


@pytest.mark.parametrize("name", ["gdas", "rsps", "vinnas", "pcdarts", "sivdnas"])
def test_after_a_search_they_agree(name: str, bright: Images, tmp_path: Path) -> None:
    settings = {"epochs": 2, "batch": 8, "augment": [], "warmup": 0.0, "candidates": 2}
    config = resolve({"search": {**methods.find(name).search, **settings}}).search
    space = replace(CELLS, layout="NR", partial=2 if name == "pcdarts" else 1)
    method, runtime = methods.make(name, space, {}), Runtime.start("cpu", 0)
    parts = halves(bright, config, 0)
    loop = SearchLoop(space, method, parts, config, tmp_path, runtime)
    loop.run()
    found = loop.found()
    net = started(found.architecture, found.weights, parts[1], method.conv)
    assert same(net, loop.net, space.masks(found.architecture), parts[1])
    before = space.build(conv=method.conv).state_dict()
    assert any(not torch.equal(w, before[name]) for name, w in found.weights.items())


@pytest.mark.parametrize("name", ["pgnas", "rsps"])
def test_after_a_search_each_of_several_members_agrees(
    name: str, bright: Images, tmp_path: Path
) -> None:
    settings = {"epochs": 2, "batch": 8, "augment": [], "candidates": 8, "ensemble": 3}
    config = resolve({"search": {**methods.find(name).search, **settings}}).search
    space = SPACES["residual"] if name == "pgnas" else CELLS
    method, parts = methods.make(name, space, {}), halves(bright, config, 0)
    loop = SearchLoop(space, method, parts, config, tmp_path, Runtime.start("cpu", 0))
    loop.run()
    found = loop.found()
    assert found.members == tuple(one.architecture for one in found.candidates[:3])
    assert found.members[0] == found.architecture
    assert len(set(found.members)) == 3
    for member in found.members:
        net = started(member, own(member, found.weights), parts[1], method.conv)
        assert same(net, loop.net, space.masks(member), parts[1])
    kept = [member.to_json()["kept"] for member in found.members[1:]]
    assert found.to_json()["members"] == kept
    assert "members" not in replace(found, members=found.members[:1]).to_json()


def test_weights_of_several_are_those_of_each_and_shared_ones_are_there_once() -> None:
    supernet = CELLS.build()
    members = [chance(CELLS) for _ in range(3)]
    each = [cut_out(supernet, CELLS, member, nn.Conv2d) for member in members]
    union = cut_out_together(supernet, CELLS, members, nn.Conv2d)
    assert union.keys() == set().union(*each)
    assert len(union) > max(map(len, each))
    assert sum(map(len, each)) > len(union)
    for member, weights in zip(members, each, strict=True):
        found = own(member, union)
        assert found.keys() == weights.keys()
        assert all(torch.equal(found[name], w) for name, w in weights.items())


def test_what_a_space_of_ones_own_has_learned_is_cut_out(bright: Images) -> None:
    space = Toy()
    supernet, architecture = space.build(), space.strongest({})
    weights = cut_out(supernet, space, architecture, nn.Conv2d)
    assert {name.split(".")[2] for name in weights if name.startswith("looks")} == {"signal"}
    masks = space.masks(architecture)
    assert same(started(architecture, weights, bright), supernet, masks, bright)


@pytest.mark.parametrize("before", CONVS)
@pytest.mark.parametrize("after", CONVS)
def test_means_carry_over_and_variances_where_both_have_them(
    before: str, after: str, bright: Images
) -> None:
    supernet, architecture = CELLS.build(conv=CONVS[before]), chance(CELLS)
    for name, parameter in supernet.named_parameters():
        nn.init.normal_(parameter, -5.0 if name.endswith("log_var") else 0.0)
    weights = cut_out(supernet, CELLS, architecture, CONVS[before])
    state = started(architecture, weights, bright, CONVS[after]).state_dict()
    variances = {name for name in state if name.endswith("log_var")}
    assert bool(variances) == (after == "variational")
    for name, learned in weights.items():
        if not name.endswith("log_var"):
            assert torch.equal(state[name], learned)
    for name in variances:
        new = torch.full_like(state[name], LOG_VAR_START)
        assert torch.equal(state[name], weights[name] if before == "variational" else new)


def test_each_copy_has_weights_of_its_own() -> None:
    architecture = CELLS.subset({c.name: torch.ones(1, 1, len(c.options)) for c in CELLS.choices})
    supernet = CELLS.build()
    weights = cut_out(supernet, CELLS, architecture, nn.Conv2d)
    first, last = (f"cells.{at}.edges.0>2.candidates.sep_conv_3x3.0.depthwise" for at in (0, 2))
    assert not torch.equal(weights[f"{first}.weight"], weights[f"{last}.weight"])
    assert all(torch.equal(w, supernet.state_dict()[name]) for name, w in weights.items())
    with torch.no_grad():
        supernet.classify.bias.add_(1.0)  # what was handed on does not move with the supernet
    assert not torch.equal(weights["classify.bias"], supernet.classify.bias)


def test_frozen_a_supernet_computes_just_what_it_did() -> None:
    supernet, images = CELLS.build(), torch.randn(3, 1, 8, 8)
    gates = {c.name: torch.rand(1, 1, len(c.options)) for c in CELLS.choices}
    expected = supernet(images, gates)
    with frozen_statistics(supernet, [(images, gates)]):
        assert torch.allclose(supernet(images, gates), expected, atol=1e-5)
    assert torch.equal(supernet(images, gates), expected)
