"""Dead weights and channels: what leaves has no effect, and what stays has one."""

import copy
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch_pruning
from torch import Tensor, nn

from ardor.data import Normalise
from ardor.errors import ArdorError
from ardor.layers.convolutions import PointwiseBlock, SeparableBlock
from ardor.layers.variational import VariationalConv2d
from ardor.models.exporters import export, find
from ardor.models.model import Model
from ardor.models.sizes import (
    dense_bytes,
    multiply_adds,
    nonzero_parameters,
    parameters,
    sparse_bytes,
)
from ardor.models.smaller import compact, prune
from ardor.pruning.channels import ties
from ardor.pruning.cut import cut_, widths
from ardor.pruning.dead_weights import without_dead_weights
from ardor.pruning.trace import Step, layers_of, trace
from ardor.spaces.cells import Cells

CLASSES = ("a", "b", "c")
BAYESNAS = "bayesnas"  # the operations of DARTS without zero, in the order of BayesNAS
SPACE = {"image": (1, 9, 9), "classes": 3, "layout": "NR", "states": 2, "channels": 5}


def network(ops: str, keep: float, seed: int, *, many: bool = False, **changes: object) -> Model:
    """A random architecture with random statistics, of whose weights a share is kept."""
    torch.manual_seed(seed)
    named = {"ops": "seven", "order": "bn-relu-conv"} if ops == BAYESNAS else {"ops": ops}
    space = Cells(**{**SPACE, **named, **changes})
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices}
    architecture = space.subset(scores, 0.4) if many else space.strongest(scores)
    net = space.build(architecture).train()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.3)
            nn.init.normal_(module.bias, 0.0, 0.5)
    with torch.no_grad():
        net(3 * torch.randn(64, *space.image))  # running statistics
        for module in net.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                module.weight.mul_(torch.rand_like(module.weight) < keep)
        net.classify.weight.mul_(20.0)
    normalise = Normalise(torch.zeros(1), torch.ones(1))
    return Model(net, normalise, architecture, CLASSES).eval()


def images(count: int = 40) -> Tensor:
    return 3 * torch.randn(count, 1, 9, 9)


@torch.no_grad()
def apart(one: Model, other: Model, pixels: Tensor) -> float:
    """The largest difference of logits, beside the largest of them where that is above one."""
    ours, theirs = one.net(pixels), other.net(pixels)
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1.0))


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("keep", [0.5, 0.15, 0.05, 0.01, 0.0])
@pytest.mark.parametrize("ops", ["vinnas", "darts", BAYESNAS])
def test_the_compact_network_computes_the_same(
    ops: str, keep: float, many: bool, tmp_path: Path
) -> None:
    model = network(ops, keep, 0, many=many)
    small = compact(model)
    pixels = images()
    assert apart(small, model, pixels) < 1e-5
    exact = copy.deepcopy(model).double()
    assert apart(compact(exact), exact, pixels.double()) < 1e-12
    assert nonzero_parameters(small.net) <= nonzero_parameters(model.net)
    assert parameters(small.net) <= parameters(model.net)
    small.save(tmp_path, card="")
    assert torch.equal(Model.load(tmp_path)(pixels), small(pixels))


@pytest.mark.parametrize("ops", ["darts", BAYESNAS])
def test_much_leaves_where_little_is_left(ops: str) -> None:
    model = network(ops, 0.05, 0)
    small = compact(model)
    assert parameters(small.net) < 0.5 * parameters(model.net)
    assert multiply_adds(small.net, small.shape) < 0.5 * multiply_adds(model.net, model.shape)
    assert dense_bytes(small.net) < dense_bytes(model.net)
    assert sparse_bytes(small.net) < 0.5 * sparse_bytes(model.net)


@pytest.mark.parametrize("ops", ["darts", BAYESNAS])
def test_nothing_leaves_where_everything_is_used(ops: str) -> None:
    model = network(ops, 1.0, 0)
    small = compact(model)
    assert "compact" not in small.to_json()
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), small.parameters(), strict=True)
    )


def test_an_auxiliary_head_and_variances_leave_first() -> None:
    space = Cells(ops="vinnas", auxiliary=True, **SPACE)
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices}
    architecture = space.strongest(scores)
    net = space.build(architecture, conv=VariationalConv2d)
    for name, parameter in net.named_parameters():
        if name.endswith("log_var"):
            nn.init.normal_(parameter, 1.0, 4.0)
    model = Model(net, Normalise(torch.zeros(1), torch.ones(1)), architecture, CLASSES).eval()
    for threshold in (-2.0, 3.0):
        masked = prune(model, threshold)
        pixels = images()
        assert apart(compact(masked), masked, pixels) < 1e-5


@pytest.mark.parametrize("ops", ["darts", "vinnas", BAYESNAS])
def test_every_weight_that_is_left_has_an_effect(ops: str) -> None:
    """Brute force in float64: each of them is changed in turn, and the outputs must change."""
    model = network(ops, 0.1, 0, layout="R", channels=3)
    for module in model.net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.bias, 1.0, 2.0)  # no rectifier is shut for all images
    net = without_dead_weights(model.net, trace(model.net, model.shape)).double()
    pixels = images(30).double()
    idle, left = [], 0
    with torch.no_grad():
        before = net(pixels)
        for name, parameter in net.named_parameters():
            flat = parameter.view(-1)
            for index in flat.nonzero().flatten().tolist():
                value = flat[index].item()
                flat[index] = 2 * value + 0.1
                idle += [name] if torch.equal(net(pixels), before) else []
                flat[index] = value
                left += 1
    assert not idle
    assert 20 < left < nonzero_parameters(model.net)


class Two(nn.Module):
    """Two convolutions with a norm and a ReLU between them."""

    def __init__(self, kernel: int = 1) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 3, 1, bias=False), nn.BatchNorm2d(3)
        self.second = nn.Conv2d(3, 2, kernel, padding=kernel // 2, bias=False)
        self.last = nn.BatchNorm2d(2)
        with torch.no_grad():
            self.first.weight[0] = 0  # so that channel 0 is constant
            self.norm.running_mean.fill_(0.5)
            self.norm.bias.copy_(torch.tensor([2.0, 1.0, 1.0]))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(torch.relu(self.norm(self.first(x)))))


def cleaned(net: nn.Module) -> nn.Module:
    return without_dead_weights(net, trace(net, (1, 6, 6)))


def test_a_constant_channel_moves_into_the_mean_of_the_next_norm() -> None:
    net = Two()
    constant = (2.0 - 0.5 / (1 + net.norm.eps) ** 0.5) * net.second.weight[:, 0, 0, 0]
    clean = cleaned(net)
    assert torch.allclose(clean.last.running_mean, -constant)
    assert not clean.second.weight[:, 0].any()
    assert clean.norm.weight[0] == clean.norm.bias[0] == clean.norm.running_mean[0] == 0
    assert clean.norm.running_var[0] == 1
    x = torch.randn(5, 1, 6, 6)
    assert torch.allclose(clean(x), net(x), atol=1e-6)
    assert net.second.weight[:, 0].any()  # the given network is not changed


def test_padding_would_show_a_constant_that_moved() -> None:
    net = Two(kernel=3)
    clean = cleaned(net)
    assert torch.equal(clean.second.weight, net.second.weight)
    assert torch.equal(clean.last.running_mean, net.last.running_mean)
    assert clean.norm.weight[0] == 0  # one parameter tells the constant
    x = torch.randn(5, 1, 6, 6)
    assert torch.allclose(clean(x), net(x), atol=1e-6)


def test_a_constant_below_a_rectifier_is_zero() -> None:
    net = Two(kernel=3)
    with torch.no_grad():
        net.norm.bias[0] = -2.0
    clean = cleaned(net)
    assert not clean.second.weight[:, 0].any()
    assert clean.norm.bias[0] == 0


def test_a_channel_that_nobody_reads_is_dead_from_its_beginning() -> None:
    net = Two(kernel=3)
    with torch.no_grad():
        net.second.weight[:, 1] = 0
    clean = cleaned(net)
    assert not clean.first.weight[1].any()
    assert clean.norm.weight[1] == clean.norm.bias[1] == 0
    assert clean.first.weight[2].any()


class Odd(Two):
    """What is not understood between the norm and the second convolution."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(torch.sigmoid(self.norm(self.first(x)))))


class Twice(Two):
    """The same weights used twice."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(torch.relu(self.norm(self.first(x) + self.first(x + 1)))))


@pytest.mark.parametrize("kind", [Odd, Twice])
def test_what_is_not_understood_stays(kind: type[Two]) -> None:
    net = kind()
    clean = cleaned(net)
    x = torch.randn(5, 1, 6, 6)
    assert torch.allclose(clean(x), net(x), atol=1e-6)
    assert torch.equal(clean.first.weight, net.first.weight)


def channels_of(steps: Sequence[Step], groups: Tensor) -> dict[tuple[str, int], int]:
    """Layer and channel of its output -> group."""
    parts = torch.split(groups, [step.width for step in steps])
    return {
        (step.layer, channel): int(group)
        for step, part in zip(steps, parts, strict=True)
        for channel, group in enumerate(part)
        if step.layer
    }


@pytest.mark.parametrize(("ops", "many"), [("vinnas", True), ("darts", False), (BAYESNAS, True)])
def test_channels_are_tied_as_torch_pruning_ties_them(ops: str, many: bool) -> None:
    net = network(ops, 1.0, 1, many=many).net
    steps = trace(net, (1, 9, 9))
    found = channels_of(steps, ties(steps, layers_of(net)))
    graph = torch_pruning.DependencyGraph()
    graph.build_dependency(net, example_inputs=torch.randn(1, 1, 9, 9), verbose=False)
    layers = layers_of(net)
    names = {module: name for name, module in layers.items()}
    reached = {name for name, module in layers.items() if module in graph.module2node}
    for step in steps:
        if step.kind == "conv" and step.layer != "classify" and step.layer in reached:
            cut = torch_pruning.prune_conv_out_channels
            group = graph.get_pruning_group(layers[step.layer], cut, idxs=[step.width - 1])
            theirs = {
                (names[part.target.module], index)
                for part, indices in group
                if part.target.module in names and "out" in part.handler.__name__
                for index in indices
            }
            own = found[step.layer, step.width - 1]
            ours = {place for place, number in found.items() if number == own}
            assert theirs == {place for place in ours if place[0] in reached}


def test_widths_can_stay_multiples() -> None:
    model = network("darts", 0.1, 0, channels=12)
    full, least = layers_of(model.net), compact(model)
    small = compact(model, 4)
    for name, layer in layers_of(small.net).items():
        for now, whole in zip(widths(layer), widths(full[name]), strict=True):
            assert now % 4 == 0 or now == whole, name
    assert parameters(least.net) < parameters(small.net) < parameters(model.net)
    assert nonzero_parameters(least.net) == nonzero_parameters(small.net)
    pixels = images()
    assert apart(small, model, pixels) < 1e-5


@pytest.mark.parametrize(("ops", "keep"), [("vinnas", 0.05), ("darts", 0.0), (BAYESNAS, 0.05)])
def test_the_onnx_file_is_of_the_compact_network(ops: str, keep: float) -> None:
    model = network(ops, keep, 0, layout="R")
    small = compact(model)
    found, exporter = export("onnx", small, images(5)), find("onnx")
    assert found.difference < 1e-4
    dense = exporter.write(model)
    assert len(found.files["model.onnx"]) < len(dense["model.onnx"])
    assert all(ms > 0 for ms in exporter.latencies([dense, found.files], small.shape))
    assert small.probabilities(images(2)).shape == (2, 3)


def test_sparse_bytes_are_those_of_a_mask_and_values() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(1000, 100, bias=False)
    full = sparse_bytes(layer)
    with torch.no_grad():
        layer.weight[:, 10:] = 0
    assert 4 * 100_000 * 0.8 < full < 4 * 100_000 + 100_000 / 8
    assert 4 * 1000 * 0.8 < sparse_bytes(layer) < 4 * 1000 + 100_000 / 8
    assert dense_bytes(layer) > 4 * 100_000


NONSENSE = [
    {"gone": [], "widths": {"stem.0": [1, 0]}},
    {"gone": [], "widths": {"stem.0": [1, -3]}},
    {"gone": [], "widths": {"stem.0": [1, 10**12]}},
    {"gone": [], "widths": {"stem.0": [1, True]}},
    {"gone": [], "widths": {"stem.0": [1, 2.5]}},
    {"gone": [], "widths": {"stem.0": "small"}},
    {"gone": [], "widths": {"stem.0": [1]}},
    {"gone": [], "widths": {"stem.1": [3, 2]}},
    {"gone": [], "widths": {"stem.0": [1, 2]}},
    {"gone": [], "widths": {"nowhere": [1, 2]}},
    {"gone": ["cells.0"], "widths": {}},
    {"gone": [7], "widths": {}},
    {"gone": ["cells.0.edges.0>2.candidates.nothing"], "widths": {}},
    {"gone": "all", "widths": {}},
    {"gone": [], "widths": []},
    {"widths": {}},
    [],
    None,
]


@pytest.mark.parametrize("record", NONSENSE, ids=str)
def test_nonsense_widths_are_refused(record: object, tmp_path: Path) -> None:
    compact(network("vinnas", 0.1, 0, layout="R")).save(tmp_path / "model", card="")
    path = tmp_path / "model" / "config.json"
    settings = json.loads(path.read_text())
    assert settings["compact"]["widths"]
    path.write_text(json.dumps({**settings, "compact": record}))
    with pytest.raises(ArdorError, match="is of no network"):
        Model.load(tmp_path / "model")


def test_a_state_without_any_operation_is_refused(tmp_path: Path) -> None:
    model = network("vinnas", 0.1, 0, layout="R")
    model.save(tmp_path / "model", card="")
    path = tmp_path / "model" / "config.json"
    names = [n for n, _ in model.net.named_modules() if n.rpartition(".")[0].endswith("candidates")]
    record = {"gone": names, "widths": {"classify": [2, 3]}}
    path.write_text(json.dumps({**json.loads(path.read_text()), "compact": record}))
    with pytest.raises(ArdorError, match="do not fit each other"):
        Model.load(tmp_path / "model")


def test_unequal_widths_train_by_the_plain_way() -> None:
    """The native code knows chains of one width alone, and must leave others to torch."""
    small = compact(network("vinnas", 0.3, 0, channels=8, layout="R"))
    block = next(m for m in small.net.modules() if isinstance(m, SeparableBlock))
    full = copy.deepcopy(small)
    cut_(block.pointwise, torch.arange(block.pointwise.in_channels), torch.arange(1))
    assert not block.train().native()
    assert next(m for m in full.net.train().modules() if isinstance(m, PointwiseBlock)).native()
    assert torch.isfinite(full.net(images(16))).all()
