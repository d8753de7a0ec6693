"""Tree cells in a PyramidNet: the sizes that are published, and what the tree computes."""

import pytest
import torch
from torch import Tensor, nn

from ardor import spaces
from ardor.errors import ArdorError
from ardor.models.sizes import parameters
from ardor.reporting.cells import cells
from ardor.spaces import Space
from ardor.spaces.pyramid import CELL, build, tree, widths


def small(**settings: object) -> Space:
    sizes = {"image": (1, 8, 8), "classes": 2, "planes": 4, "alpha": 6}
    return spaces.make("pyramid", {**sizes, **settings})


@pytest.mark.parametrize(
    ("alpha", "published", "exact"), [(84, 5.7, 5_724_330), (150, 14.3, 14_273_454)]
)
def test_it_has_as_many_weights_as_published(alpha: int, published: float, exact: int) -> None:
    with torch.device("meta"):
        net = build((3, 32, 32), 10, planes=16, alpha=alpha, blocks=18, groups=2)
    assert parameters(net) == exact
    assert round(exact / 1e6, 1) == published


def test_channels_grow_alike_from_block_to_block() -> None:
    assert widths(16, 9, 3, 1) == [19, 22, 25]
    assert widths(16, 9, 3, 2) == [18, 22, 24]
    assert widths(16, 84, 54, 2)[-1] == 100
    assert widths(4, 0, 3, 4) == [4, 4, 4]


def test_every_block_has_a_tree_of_its_own() -> None:
    space = small(blocks=2)
    names = [choice.name for choice in space.choices]
    assert len(names) == 6 * 7
    assert names[7:14] == [
        f"block2-{place}" for place in ("root", "b1", "b11", "b12", "b2", "b21", "b22")
    ]
    assert {choice.copies for choice in space.choices} == {1}
    known = {choice.name: choice for choice in space.choices}
    assert known["block2-b21"].options == ("sep_conv_5x5", "avg_pool_3x3-1", "avg_pool_3x3-2")
    assert known["block2-b21"].inside == ("block2-b2", "sep_conv_5x5")
    assert known["block2-b2"].inside == ("block2-root", "conv_3x3-2")
    assert known["block2-root"].families == ("conv", "conv", "none")


def test_a_node_adds_up_its_branches_and_what_is_below_them() -> None:
    root = tree("x", CELL, 4)
    x = torch.randn(2, 4, 6, 6)
    upper, lower = root.mixed.candidates.values()
    assert torch.allclose(root(x), upper(x) + lower(x), atol=1e-6)
    edge, node = lower
    five, three = node.mixed.candidates.values()
    assert torch.allclose(lower(x), five(edge(x)) + three(edge(x)), atol=1e-6)


@pytest.mark.parametrize("channels", [4, 5])
def test_the_first_node_below_gives_half_of_the_channels_to_each_branch(channels: int) -> None:
    node = tree("x", CELL[0][1][0][1], channels, place="11")
    x = torch.randn(2, channels, 6, 6)
    pool, sep = (part.layers for part in node.mixed.candidates.values())
    first = channels - channels // 2
    expected = torch.cat([pool(x[:, :first]), sep(x[:, first:])], 1)
    assert torch.allclose(node(x), expected, atol=1e-6)


@pytest.mark.parametrize("side", [7, 8])
def test_a_cell_may_keep_nothing_and_a_stage_halves_what_goes_around(side: int) -> None:
    space = small(image=(1, side, side))
    nothing: dict[str, tuple[str, ...]] = {c.name: () for c in space.choices}
    net = space.build(space.architecture(nothing)).eval()
    images = torch.randn(2, 1, side, side)
    block = net.module[3]
    x = net.module[2](net.module[1](net.module[0](images)))
    assert block(x).shape[2:] == ((side + 1) // 2,) * 2
    pooled = nn.functional.avg_pool2d(x, 2, ceil_mode=True)
    constant = block(x)[:, : x.shape[1]] - pooled
    assert torch.allclose(constant, constant[:1, :, :1, :1].expand_as(constant), atol=1e-6)
    assert parameters(net) < parameters(space.build())


def test_a_path_goes_with_the_first_operation_on_it() -> None:
    space = small()
    shares = {c.name: torch.full((1, 1, len(c.options)), 0.9) for c in space.choices}
    shares["block1-root"] = torch.tensor([[[0.1, 0.9, 0.0]]])
    shares["block1-b21"] = torch.tensor([[[0.1, 0.2, 0.1]]])
    kept = space.subset(shares).options
    assert kept["block1-root"] == ("conv_3x3-2",)
    assert kept["block1-b1"] == kept["block1-b11"] == kept["block1-b12"] == ()
    assert kept["block1-b2"] == ("sep_conv_3x3",)  # of what is below the other, nothing is left
    shares["block1-b22"] = torch.tensor([[[0.1, 0.2]]])
    assert space.subset(shares).options["block1-root"] == ()
    assert drawn(space, shares) == [15, 15]


def drawn(space: Space, shares: dict[str, Tensor]) -> list[int]:
    """How many operations of each cell are drawn, of cells that have any."""
    found = cells(space.subset(shares), space.choices)
    return [len(cell.edges) for cell in found if cell.edges]


def test_groups_have_a_channel_each() -> None:
    with pytest.raises(ArdorError, match=r"space.groups = 8 must be at most space.planes"):
        _ = small(groups=8).choices


def test_the_strongest_is_one_path_or_nothing() -> None:
    space = small()
    for seed in range(5):
        torch.manual_seed(seed)
        found = space.strongest({c.name: torch.rand(1, 1, len(c.options)) for c in space.choices})
        for cell in cells(found, space.choices):
            assert len(cell.edges) in (0, 3)  # an operation at each of three depths
            assert all(
                first.target == second.source
                for first, second in zip(cell.edges, cell.edges[1:], strict=False)
            )
