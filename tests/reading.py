"""What is checked of every space whose layers decide which channels they read."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture
from ardor.data import Normalise
from ardor.models import exporters
from ardor.models.model import Model
from ardor.models.sizes import multiply_adds
from ardor.models.smaller import compact
from ardor.spaces import Space


def by_chance(space: Space, share: float = 0.5) -> Architecture:
    """About that share of the channels, and all branches."""
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices if c.kind == "width"}
    return space.subset(scores, 1 - share)


def model(space: Space, architecture: Architecture) -> Model:
    """The network with statistics of some images."""
    net = space.build(architecture).train()
    for norm in (m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
        nn.init.normal_(norm.bias, 0.0, 0.5)
    with torch.no_grad():
        net(3 * torch.randn(64, *space.image))
    normalise = Normalise(torch.zeros(space.image[0]), torch.ones(space.image[0]))
    return Model(net, normalise, architecture, ("a", "b", "c")).eval()


def compact_and_equal(space: Space, folder: Path) -> Model:
    """A network that reads half of the channels, cut down; the same when loaded and exported."""
    full, pixels = model(space, by_chance(space)), 100 * torch.rand(4, *space.image)
    lean = compact(full)
    assert torch.allclose(lean(pixels), full(pixels), rtol=1e-4, atol=1e-4)
    assert multiply_adds(lean.net, space.image) < 0.75 * multiply_adds(full.net, space.image)
    lean.save(folder / "model", card="")
    loaded = Model.load(folder / "model")
    assert torch.equal(loaded(pixels), lean(pixels))
    assert torch.allclose(compact(loaded, 2)(pixels), full(pixels), rtol=1e-4, atol=1e-4)
    found = exporters.export("onnx", lean, pixels)
    assert found.difference < found.allowed
    return lean


def check_unread(space: Space) -> None:
    """What comes to a layer in a channel that it does not read changes nothing.

    So it is with each choice of channels alone, and does change something in one that is read.
    """
    images = torch.randn(2, *space.image)
    for choice in (choice for choice in space.choices if choice.kind == "width"):
        net = space.build().eval()
        (decision,) = net.decisions[choice.name]
        gates = {choice.name: torch.ones(1, 1, len(choice.options))}
        gates[choice.name][..., 0] = 0
        before = net(images, gates)
        for channel, same in ((0, True), (1, False)):
            hook = decision.register_forward_pre_hook(disturb(channel))
            assert torch.allclose(net(images, gates), before, atol=1e-5) == same
            hook.remove()


def disturb(channel: int) -> Callable[[nn.Module, tuple[Tensor]], tuple[Tensor]]:
    """A hook that has another channel come to a layer."""

    def other(module: nn.Module, given: tuple[Tensor]) -> tuple[Tensor]:
        x = given[0].clone()
        x[:, channel] += torch.randn_like(x[:, channel])
        return (x,)

    return other
