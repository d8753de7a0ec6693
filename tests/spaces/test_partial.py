"""Partial channels: one in so many goes through the operations while searching (PC-DARTS)."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ardor import spaces
from ardor.errors import ArdorError
from ardor.layers.operations import ZERO
from ardor.pipeline import resolve
from ardor.spaces import Space
from ardor.spaces._graph import Graph
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import Nasbench201

IMAGE = {"image": (2, 9, 9), "classes": 3}
CELLS = Cells(**IMAGE, layout="NRN", states=3, channels=8, ops="darts", partial=4)
WIDE = Cells(**IMAGE, layout="R", states=2, channels=16, ops="vinnas", partial=4)
BENCH = Nasbench201(**IMAGE, channels=4, cells=1, partial=2)
SPACES = {"cells": CELLS, "wide": WIDE, "nasbench201": BENCH}
everywhere = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


def shuffled(x: Tensor, groups: int) -> Tensor:
    """Channel j of group g goes to place j * groups + g."""
    size = x.shape[1] // groups
    order = [g * size + j for j in range(size) for g in range(groups)]
    return x[:, order]


def plain_node(
    cell: Graph, node: int, states: list[Tensor], gates: dict[str, Tensor], partial: int
) -> Tensor:
    """Xu et al. 2020, eq. 2, edge by edge: operations on the first channels, the rest past them."""
    total: Tensor | float = 0.0
    for source in range(node):
        x = states[source]
        seen = x.shape[1] // partial
        first, rest = x[:, :seen], x[:, seen:]
        mixed = cell.edges[f"{source}>{node}"]
        ops = [
            g * op(first) for g, op in zip(gates[f"{source}>{node}"], ops_of(mixed), strict=True)
        ]
        made = sum(ops[1:], ops[0])
        if made.shape[2:] != rest.shape[2:]:
            # Windows of two pixels; the last of an odd side holds one.
            padded = F.pad(rest, (0, rest.shape[3] % 2, 0, rest.shape[2] % 2), value=-torch.inf)
            rest = padded.unfold(2, 2, 2).unfold(3, 2, 2).amax((4, 5))
        joined = shuffled(torch.cat([made, rest], 1), partial)
        edge = gates[f">{node}"][source] if f">{node}" in gates else 1.0
        total = total + edge * joined
    assert isinstance(total, Tensor)
    return total


def ops_of(mixed: torch.nn.Module) -> list[torch.nn.Module]:
    return list(mixed.candidates.values())


@everywhere
def test_a_state_is_that_of_the_paper(space: Space) -> None:
    net = space.build()
    cell = net.cells[min(1, len(net.cells) - 1)]
    channels = cell.channels if isinstance(space, Cells) else 8
    first = min(cell.sources)
    states = [torch.randn(3, channels, 9, 9).requires_grad_() for _ in range(first)]
    gates, named = {}, {}
    for choice in space.choices:
        if choice.place.name == cell.place:
            name = choice.name.removeprefix(f"{cell.place}/")
            gates[choice.name] = torch.rand(1, 1, len(choice.options)).requires_grad_()
            able = [at for at, o in enumerate(choice.options) if o != ZERO]
            named[name] = gates[choice.name][0, 0, able if choice.kind == "op" else slice(None)]
    wanted = [*states, *gates.values(), *cell.edges.parameters()]
    found = []
    for ours in (True, False):
        seen = list(states)
        for node in cell.sources:
            total = (
                cell.node(node, seen, gates)
                if ours
                else plain_node(cell, node, seen, named, space.partial)
            )
            seen.append(total)
        loss = torch.stack([s.square().sum() for s in seen[first:]]).sum()
        slopes = torch.autograd.grad(loss, wanted, allow_unused=True, retain_graph=True)
        found.append([*seen[first:], *(s for s in slopes if s is not None)])
    assert len(found[0]) == len(found[1])
    for ours_, theirs in zip(*found, strict=True):
        assert (ours_ - theirs).norm() <= 1e-4 * theirs.norm() + 1e-5


@everywhere
def test_the_supernet_under_one_hot_gates_is_the_network_as_searched(space: Space) -> None:
    supernet, x = space.build(), torch.randn(4, *space.image)
    for _ in range(3):
        scores = {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices}
        architecture = space.strongest(scores)
        network = space.build(architecture, as_searched=True)
        network.load_state_dict({n: supernet.state_dict()[n] for n in network.state_dict()})
        ours = supernet(x, space.masks(architecture))
        assert torch.allclose(ours, network(x), atol=1e-4)


@everywhere
def test_a_final_network_is_whole(space: Space) -> None:
    settings = {**dict(space.architecture({}).settings), "partial": 1}
    whole = spaces.make(space.architecture({}).space, settings)
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices}
    sizes = [
        {name: value.shape for name, value in s.build(s.strongest(scores)).state_dict().items()}
        for s in (space, whole)
    ]
    assert sizes[0] == sizes[1]
    searched = [sum(p.numel() for p in s.build().cells.parameters()) for s in (space, whole)]
    assert searched[0] < searched[1]


def test_edge_gates_weigh_what_passes_by_and_those_of_operations_do_not() -> None:
    cell = CELLS.build().cells[0]
    states = [torch.randn(2, 8, 4, 4) for _ in range(2)]
    none = torch.tensor([[[1.0, *[1e-30] * 7]]])  # hardly open, and yet not shut
    gates = {"normal/0>2": none, "normal/1>2": none}
    passed = cell.node(2, states, gates)
    expected = torch.cat([torch.zeros(2, 2, 4, 4), states[0][:, 2:] + states[1][:, 2:]], 1)
    assert torch.allclose(passed, shuffled(expected, 4), atol=1e-6)
    gates["normal/>2"] = torch.tensor([[[0.5, 0.0]]])
    weighed = torch.cat([torch.zeros(2, 2, 4, 4), 0.5 * states[0][:, 2:]], 1)
    assert torch.allclose(cell.node(2, states, gates), shuffled(weighed, 4), atol=1e-6)


@pytest.mark.parametrize("name", ["cells", "nasbench201"])
def test_channels_that_cannot_be_parted_are_refused_unless_the_network_is_whole(name: str) -> None:
    with pytest.raises(ArdorError, match=r"space.partial = 3 must divide the channels.* 8"):
        spaces.make(name, {"channels": 8, "partial": 3})
    section = {"name": name, "channels": 8, "partial": 4}
    config = resolve.layered(({"space": section, "network": {"channels": 6}},))
    with pytest.raises(ArdorError, match="there are 6") as refused:
        resolve.final_space(config)
    assert "network.partial=1" in refused.value.hint
    config = resolve.layered(({"space": section, "network": {"channels": 6, "partial": 1}},))
    assert resolve.final_space(config).channels == 6
