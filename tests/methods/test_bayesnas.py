"""BayesNAS: what a refit makes of the switches, what falls with what, and how many are kept."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from standins.built import build

from ardor import spaces
from ardor.bayes.relevance import BOUND
from ardor.data import Images
from ardor.methods import Curvature
from ardor.methods.bayesnas import BayesNas
from ardor.runtime.device import Runtime
from ardor.searching.handover import cut_out
from ardor.searching.loop import search
from ardor.searching.result import SearchResult
from ardor.searching.undecided import ALL_RULED_OUT
from ardor.settings.merge import resolve
from ardor.spaces import Space
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import PATHS, Nasbench201

OPS = ("none", "sep_conv_3x3", "skip_connect", "avg_pool_3x3")
SPACE = Cells(image=(1, 8, 8), classes=2, layout="NN", states=2, channels=2, ops=",".join(OPS))
BENCH = Nasbench201(image=(1, 8, 8), classes=2, channels=2, cells=1)


def constant(bend: float) -> Curvature:
    """The same curvature everywhere."""
    return lambda gates, **_: {name: torch.full_like(gate, bend) for name, gate in gates.items()}


def shut(method: BayesNas, *names: str, option: int | None = None) -> None:
    """Sets switches to zero in all copies: of one option, or of all."""
    for name in names:
        which = slice(None) if option is None else slice(option, option + 1)
        method.weight[name].data[..., which] = 0.0


def fitted(space: Space = SPACE, *, off: tuple[str, ...] = (), **settings: Any) -> BayesNas:
    """All switches on but those of some choices, after a first update: s = sqrt(2) of those on."""
    method = BayesNas(space, **settings)
    shut(method, *off)
    method.refit(constant(method.sparsity))
    return method


def gamma(method: BayesNas, name: str) -> list[float]:
    values: list[float] = method.strengths()["gamma"][name].flatten().tolist()
    return values


def test_every_copy_has_switches_of_its_own_that_begin_at_one() -> None:
    gates = BayesNas(SPACE).sample(4, 0.0)
    assert gates.keys() == {choice.name for choice in SPACE.choices}
    for choice in SPACE.choices:
        expected = [float(option != "none") for option in choice.options]
        assert gates[choice.name].tolist() == [[expected]] * 2


def test_copies_are_tied_by_the_norm_of_their_switches() -> None:
    """lambda sum omega |w|; one copy's switch may be zero while the other's is not."""
    method = BayesNas(BENCH, sparsity=0.3)
    for weight in method.weight.values():
        weight.data[:] = torch.tensor([3.0, 4.0, 0.0])[:, None, None]
    method.get_buffer("omega/0>1").fill_(2.0)
    groups = 5 * 4 + 2 * 4  # of five edges at omega 1, and of one at 2
    assert method.per_image(0.5)["group_norm"].item() == pytest.approx(0.3 * 5 * groups)
    method.removed = {"0>2": {"skip_connect": 1}}
    assert method.per_image(0.5)["group_norm"].item() == pytest.approx(0.3 * 5 * (groups - 1))


def test_a_refit_divides_the_mean_curvature_of_an_image_by_lambda() -> None:
    """H / lambda = 3 in each of two copies, at gamma = 1: omega = sqrt(2 * 3 / (1 + 3))."""
    method = BayesNas(SPACE, sparsity=0.02)
    images = torch.tensor([0.0, 0.03, 0.09, 0.12])[None, :, None]
    method.refit(lambda gates, **_: {name: g * 0 + images for name, g in gates.items()})
    assert method.get_buffer("omega/normal/0>2")[..., 1:].flatten().tolist() == pytest.approx(
        [1.5**0.5] * 3
    )
    s = 2**0.5 / 1.5**0.5
    assert gamma(method, "normal/0>2")[1:] == pytest.approx([s / 2] * 3)


def test_an_operation_depends_on_its_edge_and_on_all_that_leads_to_its_source() -> None:
    """s of everything is sqrt(2): six operations lead to node 2, and none to the inputs."""
    s = 2**0.5
    method = fitted()
    assert gamma(method, "normal/1>3")[1:] == pytest.approx([s / 2] * 3)
    assert gamma(method, "normal/2>3")[1:] == pytest.approx([s / (1 + 1 + 1 / 6)] * 3)
    assert gamma(method, "normal/>3") == pytest.approx(
        [s / (1 + 1 / 3)] * 2 + [s / (4 / 3 + 1 / 6)]
    )
    method = fitted(dependency="code")
    assert gamma(method, "normal/2>3")[1:] == pytest.approx([s / 2] * 3)


@pytest.mark.parametrize("rule", ["print", "code"])
def test_what_has_lost_its_source_or_its_edge_falls(rule: Any) -> None:
    method = fitted(off=("normal/0>2", "normal/1>2"), dependency=rule)
    assert gamma(method, "normal/2>3")[1:] == [0, 0, 0]
    assert gamma(method, "normal/>2") == [0, 0]
    assert gamma(method, "normal/>3")[2] == 0
    assert method.negligible()["normal/2>3"].all()
    kept = method.draw(1)[0].options
    assert kept["normal/>3"] == ("0", "1")
    assert kept["normal/>2"] == ()

    method = BayesNas(SPACE, dependency=rule)
    shut(method, "normal/>3", option=0)
    method.refit(constant(1.0))
    assert gamma(method, "normal/0>3")[1:] == [0, 0, 0]
    assert method.draw(1)[0].options["normal/>3"] == ("1", "2")


def test_what_would_have_stayed_by_itself_says_what_it_fell_with() -> None:
    method = fitted(off=("normal/0>2", "normal/1>2"))
    fell = method.fell_with()
    assert fell["normal/2>3"] == dict.fromkeys(OPS[1:], "normal/>2")
    assert fell["normal/>2"] == {"0": "normal/0>2", "1": "normal/1>2"}
    assert fell["normal/>3"] == {"2": "normal/>2"}
    assert "normal/0>2" not in fell  # which fell by itself

    method = BayesNas(SPACE)
    shut(method, "normal/>3", option=0)
    method.refit(constant(1.0))
    assert method.fell_with() == {"normal/0>3": dict.fromkeys(OPS[1:], "normal/>3: 0")}
    method.removed = {"normal/0>3": dict.fromkeys(OPS[1:], 1)}
    method.refit(constant(1.0))
    assert method.fell_with() == {"normal/0>3": dict.fromkeys(OPS[1:], "normal/>3: 0")}


def test_a_cut_goes_through_a_whole_graph() -> None:
    """Node 1 is cut off by its only edge, node 2 as it then has no other: node 3 has one input."""
    method = fitted(BENCH, off=("0>1", "0>2"))
    assert all(gamma(method, edge)[1:] == [0] * 4 for edge in ("1>2", "1>3", "2>3"))
    kept = method.draw(1)[0].options
    assert {edge for edge, options in kept.items() if options} == {"0>3"}
    assert any(all(kept[edge] for edge in path) for path in PATHS)


def test_in_a_module_of_ones_own_nothing_falls_with_what_stands_before_it() -> None:
    """There are ways around a choice that its links do not show."""
    space = spaces.of_function(build)(image=(1, 8, 8), classes=2, channels=2)
    method = fitted(space, off=("halve",))
    assert gamma(method, "halve") == [0, 0, 0]
    assert gamma(method, "body")[1:] == pytest.approx([2**0.5] * 2)
    assert gamma(method, "join") == pytest.approx([2**0.5] * 3)


def test_a_path_of_a_tree_is_in_series_and_falls_with_the_first_of_it() -> None:
    """s of everything is 1: an operation at the end of three has a variance of a third."""
    space = spaces.make("pyramid", {"image": (3, 8, 8), "classes": 2, "planes": 4, "alpha": 0})
    method = BayesNas(space)
    for choice in space.choices:
        fallen = 3.0 if choice.name == "block2-root" else 1.0
        method.get_buffer(f"s/{choice.name}").fill_(fallen)
    assert method.dependent().gamma["block1-root"][..., 0].item() == pytest.approx(1)
    assert method.dependent().gamma["block1-b1"].flatten().tolist() == pytest.approx([1 / 2] * 2)
    assert method.dependent().gamma["block1-b11"].flatten().tolist() == pytest.approx([1 / 3] * 2)
    assert method.dependent().gamma["block2-b11"].flatten().tolist() == pytest.approx([3 / 7] * 2)

    shut(method, "block1-root", option=0)
    method.refit(constant(method.sparsity))
    fell = method.fell_with()
    assert fell["block1-b11"].keys() == {"avg_pool_3x3", "sep_conv_7x7"}
    assert "block1-b21" not in fell
    kept = method.draw(1)[0].options
    assert kept["block1-b1"] == kept["block1-b11"] == kept["block1-b12"] == ()
    assert kept["block1-b21"] == ("sep_conv_5x5", "avg_pool_3x3-1", "avg_pool_3x3-2")


@pytest.mark.parametrize(("off", "left"), [("0>1", 12), ("0>2", 20)])
def test_what_is_derived_computes_what_the_supernet_does_without_what_fell(
    off: str, left: int
) -> None:
    method = fitted(BENCH, off=(off,))
    for weight in method.weight.values():
        weight.data *= 1 + torch.rand_like(weight)
    net, images = BENCH.build(), torch.randn(4, 1, 8, 8)
    found, gates = method.draw(1)[0], method.sample(4, 1.0)
    masks = BENCH.masks(found)
    assert sum(int(mask.sum()) for mask in masks.values()) == left
    small = BENCH.build(found, as_searched=True)
    small.load_state_dict(cut_out(net, BENCH, found, method.conv))
    whole = net(images, {name: gate * masks[name] for name, gate in gates.items()})
    assert torch.allclose(whole, small(images, gates), atol=1e-5)


def test_any_number_of_operations_and_edges_stays() -> None:
    method = BayesNas(SPACE)
    for name, options in {"normal/0>3": (1, 3), "normal/1>3": (1, 2, 3)}.items():
        for option in options:
            shut(method, name, option=option)
    method.refit(constant(1.0))
    kept = method.draw(1)[0].options
    assert kept["normal/0>2"] == OPS[1:]
    assert kept["normal/0>3"] == ("skip_connect",)
    assert kept["normal/>3"] == ("0", "2")
    for name, keep in method.probabilities().items():
        entropies = method.strengths()["entropy"][name]
        assert torch.equal(keep > 0.5, entropies > 0)


def test_where_one_must_stay_it_is_that_of_the_largest_variance_of_its_own() -> None:
    method = BayesNas(BENCH, derive="strongest")
    method.weight["0>1"].data[:] = torch.tensor([9.0, 0.2, 0.1, 0.3, 0.0])
    shut(method, "0>2", "1>2")
    method.refit(constant(1.0))
    kept = method.draw(1)[0].options
    assert kept["0>1"] == ("nor_conv_3x3",)  # not zero, whose switch is never used
    assert kept["0>2"] == kept["1>2"] == ()
    assert kept["2>3"] == ("skip_connect",)


def cycles(sparsity: float, count: int) -> BayesNas:
    """Switches of a known worth h, learned and refitted again and again.

    The nll is 0.5 sum h (w - 1)^2. With lambda omega |w| over n copies it is least where each
    switch is 1 - lambda omega / (h sqrt(n)), or zero if that is negative.
    """
    method = BayesNas(BENCH, sparsity=sparsity)
    worth = torch.logspace(-4, 1, 5)[None, None]
    for _ in range(count):
        for name, weight in method.weight.items():
            omega = method.get_buffer(f"omega/{name}")
            least = (1 - sparsity * omega / (worth * len(weight) ** 0.5)).clamp_min(0)
            weight.data.copy_(least.expand_as(weight))
        method.refit(lambda gates, **_: {n: worth.expand_as(g) for n, g in gates.items()})
    return method


def test_the_worthless_fall_and_the_more_the_larger_lambda_is() -> None:
    kept = []
    for sparsity in (0.001, 0.03, 0.3):
        found = cycles(sparsity, 3).draw(1)[0]
        assert "avg_pool_3x3" in found.options["0>3"]  # the last option, of the largest worth
        kept.append(sum(map(len, found.options.values())))
    assert kept == [24, 18, 12]


class Counted(BayesNas):
    """Notes after how many steps it was fitted."""

    def __init__(self, space: Space, **settings: Any) -> None:
        super().__init__(space, **settings)
        self.steps, self.fits = 0, list[int]()

    def after_step(self, rate: float) -> None:
        self.steps += 1
        super().after_step(rate)

    def refit(self, curvature: Curvature) -> None:
        self.fits.append(self.steps)
        super().refit(curvature)


def searched(method: BayesNas, images: Images, run: Path, **settings: Any) -> SearchResult:
    small = {"batch": 8, "rate": 0.02, "augment": [], "warmup": 0.0, **settings}
    config = resolve({"search": dict(BayesNas.search)}, {"search": small}).search
    runtime = Runtime.start("cpu", 0)
    return search(method.space, method, images, config, run=run, runtime=runtime)


@pytest.mark.parametrize(
    ("cycles", "fits"), [(1, [6, 12]), (3, [2, 4, 6, 8, 10, 12]), (50, [*range(1, 13)])]
)
def test_an_epoch_has_as_many_cycles_as_asked_for(
    cycles: int, fits: list[int], bright: Images, tmp_path: Path
) -> None:
    """Of 64 images 51 are trained on: six steps of eight."""
    method = Counted(SPACE, cycles=cycles)
    searched(method, bright, tmp_path, epochs=2, shrink=0)
    assert method.fits == fits


def test_what_falls_within_an_epoch_leaves_at_once(bright: Images, tmp_path: Path) -> None:
    found = []
    for cycles in (1, 6):
        method = Counted(SPACE, cycles=cycles)
        run = tmp_path / str(cycles)
        shut(method, "normal/0>3")
        found.append(searched(method, bright, run, epochs=1, gate_rate=1e-4))
        (line,) = map(json.loads, (run / "log.jsonl").read_text().splitlines())
        gone = sum(map(len, found[-1].removed.values()))
        assert len(line["left"]) == gone > 0


@pytest.mark.parametrize("sparsity", [3.0, 1e6])
def test_no_lambda_is_too_large_to_end_well(
    sparsity: float, bright: Images, tmp_path: Path
) -> None:
    """Everything falls, and an image still gets through what is kept."""
    found = searched(BayesNas(SPACE, sparsity=sparsity), bright, tmp_path, epochs=3)
    assert ALL_RULED_OUT in found.warnings
    net = SPACE.build(found.architecture).eval()
    dark, light = torch.zeros(1, 1, 8, 8), torch.ones(1, 1, 8, 8)
    assert not torch.equal(net(dark), net(light))


def test_what_has_fallen_leaves_the_supernet_and_the_search_goes_on(
    bright: Images, tmp_path: Path
) -> None:
    """A whole edge leaves: the curvature in what is no longer there is zero."""
    small = {"batch": 16, "epochs": 3, "warmup": 0.0, "shrink": 1, "rate": 0.02, "augment": []}
    own = {"search": dict(BayesNas.search)}
    config = resolve(own, {"search": {**small, "gate_rate": 1e-4}}).search
    method = BayesNas(SPACE)
    shut(method, "normal/0>3")
    shut(method, "normal/>3", option=0)
    runtime = Runtime.start("cpu", 0)
    found = search(SPACE, method, bright, config, run=tmp_path, runtime=runtime)
    assert found.removed["normal/>3"].keys() == {"0"}
    assert found.removed["normal/0>3"].keys() == set(OPS[1:])
    assert found.architecture.options["normal/>3"] == ("1", "2")
    assert found.probabilities["normal/>3"]["0"] == 0
    seen = found.strengths["normal/0>2"]["skip_connect"]
    assert seen.keys() == {"switch", "s", "gamma", "entropy"}
    assert seen["gamma"] > BOUND
