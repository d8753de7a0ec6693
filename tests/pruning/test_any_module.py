"""Networks that nothing was searched in: followed through any module, and smaller by theory."""

import copy
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from standins import joined
from torch import Tensor, nn

from ardor import discover, spaces
from ardor.data import Normalise
from ardor.errors import ArdorError
from ardor.models.exporters import export
from ardor.models.model import Model
from ardor.models.sizes import multiply_adds, parameters
from ardor.models.smaller import compact, prune
from ardor.pruning.channels import take_dead_channels_out_
from ardor.pruning.cut import widths
from ardor.pruning.left_alone import left_alone
from ardor.pruning.trace import layers_of

CLASSES = ("a", "b", "c")
# What makes the same channels: the layers, and the number of the first of them in each.
Group = list[tuple[nn.Module, int]]
SMALL: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {
    "lenet300": ((1, 8, 8), {"hidden": (12, 8)}),
    "lenet5": ((1, 28, 28), {}),
    "resnet20": ((3, 8, 8), {"channels": 6, "depth": 2}),
    "resnet18": ((3, 16, 16), {"channels": 5}),
    "vgg16": ((2, 40, 40), {"channels": 2}),
    "joined": ((3, 8, 8), {}),
}


def made(name: str, seed: int = 0) -> Model:
    """A network with random weights, and norms that do something."""
    torch.manual_seed(seed)
    image, settings = SMALL[name]
    cls = spaces.of_function(joined.build) if name == "joined" else spaces.find(name)
    space = cls(image=image, classes=3, **settings)
    architecture = space.architecture({})
    net = space.build(architecture).train()
    for module in net.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.normal_(module.weight, 1.0, 0.3)
            nn.init.normal_(module.bias, 0.0, 0.3)
    with torch.no_grad():
        net(torch.randn(16, *image))  # running statistics
    normalise = Normalise(torch.zeros(image[0]), torch.ones(image[0]))
    return Model(net, normalise, architecture, CLASSES).eval()


def groups(net: nn.Module) -> Iterator[tuple[int, Group]]:
    """The width of what is tied together, and the layers that make it, from how nets are built."""
    if isinstance(net, joined.Joined):
        yield from groups_of_joined(net)
        return
    parts = [m for m in net.modules() if isinstance(m, (nn.Conv2d, nn.Linear, nn.BatchNorm2d))]
    blocks = [m for m in net.modules() if hasattr(m, "around")]
    if not blocks:  # a row: each layer with its norm, but for the last
        for at, layer in enumerate(parts[:-1]):
            if not isinstance(layer, nn.BatchNorm2d):
                after = parts[at + 1]
                norm = [(after, 0)] if isinstance(after, nn.BatchNorm2d) else []
                yield len(layer.weight), [(layer, 0), *norm]
        return
    stream: Group = [(part, 0) for part in parts[:2]]
    for block in blocks:
        yield len(block.convs[0].weight), [(block.convs[0], 0), (block.convs[1], 0)]
        if not isinstance(block.around, nn.Identity):
            yield len(stream[0][0].weight), stream
            stream = [(part, 0) for part in block.around]
        stream += [(block.convs[3], 0), (block.convs[4], 0)]
    yield len(stream[0][0].weight), stream


def groups_of_joined(net: joined.Joined) -> Iterator[tuple[int, Group]]:
    norms, first = list(net.norms), len(net.stem.weight)
    yield first, [(net.stem, 0), *((norm, 0) for norm in norms)]
    for at, conv in enumerate(net.convs):
        yield len(conv.weight), [(conv, 0), *((norm, first) for norm in norms[at + 1 :])]
        first += len(conv.weight)
    yield len(net.hidden.weight), [(net.hidden, 0), (net.norm, 0)]


@torch.no_grad()
def zeroed(model: Model, seed: int = 1) -> dict[str, int]:
    """Makes random channels zero, whole groups; returns what each layer must be left with."""
    chance = random.Random(seed)
    left = {id(layer): widths(layer)[1] for layer in layers_of(model.net).values()}
    for width, group in groups(model.net.module):
        dead = chance.sample(range(width), chance.randint(width // 3, width - 1))
        for layer, first in group:
            rows = [first + at for at in dead]
            layer.weight[rows] = 0
            if layer.bias is not None:
                layer.bias[rows] = 0
            left[id(layer)] -= len(rows)
    return {name: left[id(layer)] for name, layer in layers_of(model.net).items()}


@pytest.mark.parametrize("name", SMALL)
def test_zero_channels_leave_and_nothing_else_changes(name: str, tmp_path: Path) -> None:
    model = made(name)
    expected = zeroed(model)
    small = compact(model)
    pixels = torch.randn(5, *model.shape)
    assert torch.allclose(small(pixels), model(pixels), atol=1e-5)
    exact, finer = copy.deepcopy(model).double(), pixels.double()
    assert torch.allclose(compact(exact)(finer), exact(finer), atol=1e-12)
    assert {n: widths(layer)[1] for n, layer in layers_of(small.net).items()} == expected
    assert left_alone(model.net, model.shape) == []
    small.save(tmp_path, card="")
    again = Model.load(tmp_path)
    assert torch.equal(again(pixels), small(pixels))
    assert parameters(again.net) == parameters(small.net) < parameters(model.net)


@pytest.mark.parametrize("name", ["lenet5", "resnet20", "vgg16", "joined"])
def test_what_is_left_runs_elsewhere(name: str) -> None:
    model = made(name)
    zeroed(model)
    small = compact(model)
    pixels = 255 * torch.rand(3, *model.shape)
    file = export("onnx", small, pixels).files["model.onnx"]
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"pixels": pixels.numpy()})
    wanted = small(pixels).detach()
    assert torch.allclose(torch.from_numpy(logits), wanted, atol=1e-4 * float(wanted.abs().max()))


@pytest.mark.parametrize("name", SMALL)
def test_a_step_of_training_lowers_the_loss(name: str) -> None:
    model = made(name)
    net, images = model.net.train(), torch.randn(6, *model.shape)
    labels, optimiser = torch.arange(6) % 3, torch.optim.SGD(net.parameters(), 1e-3)
    losses = []
    for _ in range(2):
        loss = F.cross_entropy(net(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[1] < losses[0]


def test_lenet5_has_the_sizes_that_are_computed_by_hand() -> None:
    """20-50-500 with 3, 12 and 200 left: kernels of 25 weights, maps of 4x4 before the units."""
    model = made("lenet5")
    assert parameters(model.net) == 520 + 25_050 + 400_500 + 1_503
    with torch.no_grad():
        for layer, kept in zip(list(layers_of(model.net).values())[:3], (3, 12, 200), strict=True):
            layer.weight[kept:] = layer.bias[kept:] = 0
    small = compact(model)
    convs = (25 * 3 + 3) + (25 * 3 * 12 + 12)
    assert parameters(small.net) == convs + (12 * 16 * 200 + 200) + (200 * 3 + 3)
    steps = 24 * 24 * 25 * 3 + 8 * 8 * 25 * 3 * 12 + 12 * 16 * 200 + 200 * 3
    assert multiply_adds(small.net, small.shape) == steps


def test_networks_have_the_weights_that_are_published() -> None:
    """ResNet-20 has 0.27M and ResNet-18 11.2M weights; LeNet-300-100 266,610; VGG-16 14.7M."""
    counts = {}
    for name in spaces.networks():
        image = (1, 28, 28) if name.startswith("lenet") else (3, 32, 32)
        with torch.device("meta"):
            space = spaces.find(name)(image=image, classes=10)
            counts[name] = parameters(space.build(space.architecture({})))
    assert counts == {
        "lenet300": 266_610,
        "lenet5": 431_080,
        "resnet18": 11_173_962,
        "resnet20": 269_722 + 2_752,  # with convolutions around the two blocks that change channels
        "vgg16": 14_728_266 - 4_224,  # biases, which BatchNorm takes away
    }


class Strange(nn.Module):
    """Much that channels cannot be followed through."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.gate, self.twice = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)
        self.groups, self.classify = nn.Conv2d(8, 8, 3, groups=2), nn.Linear(8 * 36, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x)).relu()
        x = x * self.gate(x.mean((2, 3), keepdim=True))
        x = self.groups(self.twice(self.twice(x)))
        return self.classify(x.view(-1, 8 * 36))  # type: ignore[no-any-return]


def test_what_cannot_be_followed_is_named_and_left_alone() -> None:
    net = wrapped(Strange())
    assert left_alone(net, (3, 8, 8)) == [
        "GroupNorm 'norm'",
        "multiplication of two maps",
        "a layer used twice: 'twice'",
        "Conv2d 'groups', in groups",
        "reshape to a size of its own",
    ]
    images, before = torch.randn(4, 3, 8, 8), copy.deepcopy(net)
    with torch.no_grad():
        for layer in layers_of(net).values():
            layer.weight[:5] = 0
        wanted = net(images)
        take_dead_channels_out_(net, (3, 8, 8))
    assert torch.allclose(net(images), wanted, atol=1e-6)
    same = [name for name in layers_of(net) if "gate" not in name]
    was = layers_of(before)
    assert [widths(layers_of(net)[n]) for n in same] == [widths(was[n]) for n in same]


def wrapped(module: nn.Module) -> spaces.ModuleNet:
    return spaces.ModuleNet(module).eval()


class Row(nn.Module):
    """Two convolutions, a function between them, and a mean."""

    def __init__(self, function: Any, width: int = 6) -> None:
        super().__init__()
        self.function = function
        self.first, self.second = nn.Conv2d(3, width, 3), nn.Conv2d(width, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.function(self.first(x))).mean((2, 3))  # type: ignore[no-any-return]


def in_place(x: Tensor) -> Tensor:
    y = x.tanh()
    y += x
    return y


@pytest.mark.parametrize(
    "function",
    [
        torch.tanh,
        F.elu,
        in_place,
        nn.Hardtanh(),
        lambda x: sum([x, x.relu()]),
        lambda x: torch.add(x, x),
        lambda x: x[:, :, ::2, 1:],
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: F.adaptive_max_pool2d(x, 2),
        lambda x: torch.cat([x, x], 1)[:, : x.shape[1]],
    ],
)
def test_functions_that_keep_channels_apart_are_followed(function: Any) -> None:
    net = wrapped(Row(function))
    small, images = smaller(net), torch.randn(4, 3, 8, 8)
    followed = left_alone(net, (3, 8, 8)) == []
    assert small.module.first.out_channels == (2 if followed else 6)
    assert followed or function.__name__ == "<lambda>"
    assert torch.allclose(small(images), net(images), atol=1e-6)


class Unseen(torch.autograd.Function):
    """Of which only that something comes out is noticed."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.flip(1)


@pytest.mark.parametrize(
    "function",
    [
        torch.sigmoid,  # of zero it is a half
        lambda x: x + 1,
        lambda x: x[:, [0, 1, 2, 3, 4, 5]],
        lambda x: x.flip(1),
        lambda x: x.reshape(-1, 6, 36).reshape(-1, 6, 6, 6),
        Unseen.apply,  # which torch does not let be seen
    ],
)
def test_functions_that_do_not_are_left_alone(function: Any) -> None:
    net = wrapped(Row(function))
    small, images = smaller(net), torch.randn(4, 3, 8, 8)
    assert small.module.first.out_channels == 6
    assert left_alone(net, (3, 8, 8))
    assert torch.allclose(small(images), net(images), atol=1e-6)


@torch.no_grad()
def smaller(net: spaces.ModuleNet) -> spaces.ModuleNet:
    """Without four channels of the first convolution, where these may leave."""
    net.module.first.weight[1:5] = 0
    net.module.first.bias[1:5] = 0
    small = copy.deepcopy(net)
    take_dead_channels_out_(small, (3, 8, 8))
    return small


def test_a_forward_that_counts_its_channels_is_refused_in_a_line() -> None:
    def counted(x: Tensor) -> Tensor:
        assert x.shape[1] == 6, "six channels"
        return x

    with pytest.raises(ArdorError, match="fails: AssertionError: six channels") as caught:
        smaller(wrapped(Row(counted)))
    assert "nothing was written" in caught.value.hint


def test_a_forward_that_fails_on_blank_images_is_refused_in_a_line() -> None:
    net = wrapped(Row(lambda x: x / (1 // int((x * 0).sum().item()))))
    with pytest.raises(ArdorError, match="blank images fails: ZeroDivisionError"):
        left_alone(net, (3, 8, 8))


@pytest.mark.parametrize("typed", ["lab.nets:make", "nets:build"])
def test_only_build_of_a_module_in_a_folder_is_a_network(typed: str) -> None:
    with pytest.raises(ArdorError, match="must be") as caught:
        discover.module_of(typed)
    assert caught.value.hint
    assert discover.module_of("lab.nets:build") == discover.module_of("lab.nets") == "lab.nets"


@pytest.mark.parametrize("side", [8, 11, 33])
@pytest.mark.parametrize("name", [*SMALL])
def test_networks_take_images_of_any_size_or_say_what_they_need(name: str, side: int) -> None:
    if name == "joined":
        return
    space = spaces.find(name)(**{**SMALL[name][1], "image": (3, side, side), "classes": 3})
    if name == "lenet5" and side < 16:
        with pytest.raises(ArdorError, match=f"{side}x{side} pixels; must have at least 16x16"):
            _ = space.choices
    else:
        net = space.build(space.architecture({})).eval()
        assert net(torch.randn(2, 3, side, side)).shape == (2, 3)


def test_without_a_threshold_plain_weights_all_stay() -> None:
    model = made("resnet20")
    kept: Sequence[Tensor] = list(prune(model).net.parameters())
    assert all(torch.equal(a, b) for a, b in zip(kept, model.net.parameters(), strict=True))
