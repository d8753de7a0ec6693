"""The space `blocks`: it holds what people write by hand, and native code computes the same."""

import pytest
import torch

from ardor import methods, spaces
from ardor.bench.rivals.nets import cnn
from ardor.errors import ArdorError
from ardor.native import kernels
from ardor.spaces import network
from ardor.spaces.blocks import Around, separable


@pytest.mark.parametrize(("name", "side"), [("thirty-lines", 32), ("thirty-lines-large", 64)])
def test_the_cnn_of_thirty_lines_is_one_of_its_architectures(name: str, side: int) -> None:
    by_hand = cnn((3, side, side), 10)
    found = spaces.known(name)
    space = spaces.make("blocks", {**dict(found.settings), "image": (3, side, side), "classes": 10})
    net = network(space.adopted(found))
    ours = [tuple(weight.shape) for weight in net.parameters()]
    assert ours == [tuple(weight.shape) for weight in by_hand.parameters()]
    for mine, its in zip(net.parameters(), by_hand.parameters(), strict=True):
        mine.data.copy_(its.data)
    net.eval(), by_hand.eval()
    images = torch.randn(3, 3, side, side)
    assert torch.allclose(net(images), by_hand(images), atol=1e-5)


def test_every_named_architecture_is_one_of_its_space() -> None:
    for name, title in spaces.named().items():
        assert len(title) > 10
        found = spaces.known(name)
        spaces.of(found).check(found)


@pytest.mark.parametrize("size", [3, 5])
def test_separable_blocks_are_computed_alike_by_native_code(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(size)
    block = Around(separable(16, size)).double().train()
    x = torch.randn(4, 16, 6, 6, dtype=torch.double, requires_grad=True)
    found = []
    for native in (True, False):
        if not native:
            monkeypatch.setattr(kernels, "ready", lambda x, chain: False)
        x.grad = None
        out = block(x)
        out.square().sum().backward()
        found.append((out.detach(), x.grad.clone()))
    for mine, plain in zip(*found, strict=True):
        assert torch.allclose(mine, plain, atol=1e-9)


def test_an_image_can_be_halved_so_often_and_no_more() -> None:
    spaces.make("blocks", {"image": (1, 8, 8), "widths": (4, 4, 4)}).build()
    with pytest.raises(ArdorError, match="must be from 1 to 3 for images of 8x8"):
        spaces.make("blocks", {"image": (1, 8, 8), "widths": (4, 4, 4, 4)}).build()


def test_larger_images_have_a_stage_more() -> None:
    stages = [
        sum(c.name.endswith("half") for c in spaces.make("blocks", {"image": (3, s, s)}).choices)
        for s in (32, 64)
    ]
    assert stages == [3, 4]


@pytest.mark.parametrize(("side", "smaller"), [(8, 4), (16, 4), (32, 8)])
def test_small_images_are_not_halved_at_once(side: int, smaller: int) -> None:
    space = spaces.make("blocks", {"image": (1, side, side), "widths": (4, 4)})
    assert ("stage1-half" in {choice.name for choice in space.choices}) == (side >= 16)
    seen: list[int] = []
    net = network(methods.make("random", space, {}).draw(1)[0])
    pool = next(m for m in net.modules() if isinstance(m, torch.nn.AdaptiveAvgPool2d))
    pool.register_forward_hook(lambda module, given, out: seen.append(given[0].shape[-1]))
    net.eval()(torch.zeros(1, 1, side, side))
    assert seen == [smaller]
