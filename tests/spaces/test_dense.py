"""DenseNet: the size of DenseNet-121, and what every layer reads of those before it."""

from pathlib import Path

import torch
from reading import check_unread, compact_and_equal, model
from torch import nn

from ardor import spaces
from ardor.models.sizes import parameters
from ardor.models.smaller import compact
from ardor.spaces import Space
from ardor.spaces.dense import Links, build

LARGE = {"channels": 64, "growth": 32, "blocks": (6, 12, 24, 16), "stem": "large"}


def small(**settings: object) -> Space:
    sizes = {"image": (2, 8, 8), "classes": 3, "channels": 8, "growth": 4, **settings}
    return spaces.make("dense", sizes)


def test_it_has_as_many_weights_as_densenet121() -> None:
    with torch.device("meta"):
        assert parameters(build((3, 224, 224), 1000, **LARGE)) == 7_978_856


def test_every_source_of_a_layer_is_a_group() -> None:
    sizes = {choice.name: len(choice.options) for choice in spaces.make("dense", LARGE).choices}
    # Layer i of a block has i sources and a 3x3 convolution; three layers end a block.
    links = sum(count * (count + 1) // 2 + count for count in LARGE["blocks"])
    assert len(sizes) == links + 7 + 13 + 25 == 638
    assert sizes["block1-layer6-from0"] == 64
    assert sizes["block4-layer16-from0"] == 512
    assert sizes["block4-layer16-from15"] == sizes["block1-end-from6"] == 32
    assert sizes["block2-layer1-3x3"] == 128


def test_a_sum_over_sources_is_a_convolution_of_them_side_by_side() -> None:
    links, given = Links("x", [3, 5], 4), [torch.randn(2, n, 6, 6) for n in (3, 5)]
    convs = [links.links.candidates[f"from{at}"][-1] for at in range(2)]
    whole = nn.Conv2d(8, 4, 1, bias=False)
    whole.weight = nn.Parameter(torch.cat([conv.weight for conv in convs], 1))
    expected = whole(nn.BatchNorm2d(8)(torch.cat(given, 1)).relu())
    assert torch.allclose(links(given), expected, atol=1e-5)


def test_a_source_of_which_nothing_is_read_is_gone() -> None:
    space = small(blocks=(3, 2))
    gone = ["block1-layer2-from0", "block1-layer3-from1", "block1-end-from0"]
    kept = {**space.strongest({}).options, **dict.fromkeys(gone, ())}
    full, pixels = model(space, space.architecture(kept)), 100 * torch.rand(4, 2, 8, 8)
    lean = compact(full)
    block, end = lean.net.module[3:5]
    assert [*block.layers[1][0].links.candidates] == ["from1"]
    assert [*block.layers[2][0].links.candidates] == ["from0", "from2"]
    assert [*end.links.candidates] == ["from1", "from2", "from3"]
    assert torch.allclose(lean(pixels), full(pixels), rtol=1e-4, atol=1e-4)


def test_odd_sides_and_a_single_block_do() -> None:
    for settings in ({"image": (1, 7, 9)}, {"blocks": (2,)}):
        space = small(**settings)
        assert space.build()(torch.randn(2, *space.image)).shape == (2, 3)


def test_what_is_not_read_changes_nothing() -> None:
    check_unread(small())


def test_channels_that_are_not_read_are_not_computed(tmp_path: Path) -> None:
    compact_and_equal(small(), tmp_path)
