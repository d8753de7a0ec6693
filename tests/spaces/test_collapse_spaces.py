"""S1 to S4 of Zela et al. 2020: spaces in which DARTS collapses; candidates of each edge; noise."""

import json
from itertools import product
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from conftest import stopping_at

from ardor import methods, spaces
from ardor.architecture import Architecture
from ardor.cli import cli
from ardor.data import Images, Normalise
from ardor.errors import ArdorError, Interrupted
from ardor.layers.operations import Noise
from ardor.models.model import Model
from ardor.models.smaller import compact
from ardor.reporting import draw
from ardor.runtime.device import Runtime
from ardor.searching.loop import search
from ardor.settings.sections import SearchConfig
from ardor.spaces.cells import Cells

SETS = ("s1", "s2", "s3", "s4")
SIZES = {"image": (1, 8, 8), "classes": 2, "layout": "NRN", "states": 4, "channels": 2, "stem": 1}
SHORT = {
    "skip": "skip_connect",
    "max": "max_pool_3x3",
    "avg": "avg_pool_3x3",
    "sep3": "sep_conv_3x3",
    "dil3": "dil_conv_3x3",
    "dil5": "dil_conv_5x5",
}
# The authors' lists, edge after edge: 0>2, 1>2, 0>3, 1>3, 2>3, ...
S1 = {
    "normal": (
        "skip dil3, skip dil5, skip dil5, skip sep3, skip dil3, max skip, skip sep3, skip sep3, "
        "skip dil3, skip sep3, max skip, skip dil3, dil3 dil5, dil3 dil5"
    ),
    "reduce": (
        "max avg, max dil3, max avg, max avg, skip dil5, max avg, max sep3, skip dil3, skip dil5, "
        "max avg, max avg, skip dil5, skip dil5, skip dil5"
    ),
}
CONFIG = SearchConfig(epochs=2, batch=16, augment=(), warmup=0.0, gate_rate=0.1, shrink=0)


def space_of(ops: str, **changes: object) -> Cells:
    return Cells(**{**SIZES, "ops": ops, **changes})


def chance(space: Cells, how: str = "strongest") -> Architecture:
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices}
    return space.strongest(scores) if how == "strongest" else space.subset(scores, 0.6)


def noisy(space: Cells) -> Architecture:
    """What keeps noise on half of the edges."""
    one = {c.name: torch.tensor([[[0.9, 0.1]]]) for c in space.choices if c.kind == "op"}
    return space.strongest(one | {n: 1 - s for n, s in one.items() if "/1>" in n})


def test_s1_has_the_published_candidates_on_each_edge() -> None:
    edges = [f"{source}>{node}" for node in range(2, 6) for source in range(node)]
    published = {
        f"{kind}/{edge}": tuple(SHORT[name] for name in pair.split())
        for kind, pairs in S1.items()
        for edge, pair in zip(edges, pairs.split(", "), strict=True)
    }
    ops = {c.name: c.options for c in space_of("s1").choices if c.kind == "op"}
    assert ops == published
    own = {c.name: c.options for c in space_of("s1", shared=False).choices if c.kind == "op"}
    assert own["reduce1/1>4"] == ("max_pool_3x3", "sep_conv_3x3")
    assert [own[f"normal{cell}/0>2"] for cell in (0, 2)] == [published["normal/0>2"]] * 2


@pytest.mark.parametrize(
    ("ops", "names"),
    [
        ("s2", "skip_connect sep_conv_3x3"),
        ("s3", "none skip_connect sep_conv_3x3"),
        ("s4", "noise sep_conv_3x3"),
    ],
)
def test_s2_to_s4_have_the_published_candidates_on_all_edges(ops: str, names: str) -> None:
    choices = [c for c in space_of(ops).choices if c.kind == "op"]
    assert len(choices) == 28
    assert {c.options for c in choices} == {tuple(names.split())}


@pytest.mark.parametrize("states", [2, 3, 5])
def test_s1_is_for_four_states(states: int) -> None:
    with pytest.raises(ArdorError, match=rf"space.states {states} must be 4 with space.ops 's1'"):
        spaces.make("cells", {"ops": "s1", "states": states})


def test_a_wrong_name_is_answered_with_a_set_that_is_meant() -> None:
    with pytest.raises(ArdorError) as error:
        spaces.make("cells", {"ops": "S1", "states": 4})
    assert "'s1'" in str(error.value.hint)


@pytest.mark.parametrize("ops", ["s1", "s4"])
@pytest.mark.parametrize("how", ["strongest", "subset"])
def test_the_supernet_under_one_hot_gates_is_the_network(ops: str, how: str) -> None:
    space = space_of(ops, shared=False)
    supernet, x = space.build(), torch.randn(4, *space.image)
    for _ in range(2):
        architecture = chance(space, how)
        network = space.build(architecture, as_searched=True)
        network.load_state_dict({n: supernet.state_dict()[n] for n in network.state_dict()})
        outputs = []
        for net, gates in ((supernet, space.masks(architecture)), (network, None)):
            torch.manual_seed(1)  # the same noise
            outputs.append(net(x, gates))
        assert torch.allclose(*outputs, atol=1e-5)


@pytest.mark.parametrize("ops", SETS)
def test_an_architecture_is_found_again_from_its_file(ops: str) -> None:
    space = space_of(ops)
    for how in ("strongest", "subset"):
        architecture = chance(space, how)
        again = Architecture.from_json(json.loads(str(architecture)))
        assert again == architecture
        assert spaces.of(again) == space
        assert draw(again, space.choices).startswith("<svg")
        assert space.build(again)(torch.randn(2, *space.image)).isfinite().all()
    kept = dict(architecture.kept) | {"normal/>2": ("0",), "normal/1>2": ()}
    strange = "sep_conv_3x3" if ops == "s1" else "dil_conv_3x3"  # not on this edge
    with pytest.raises(ArdorError, match="normal/0>2 has no option"):
        space.build(space.architecture({**kept, "normal/0>2": (strange,)}))


def test_the_strongest_of_s1_is_the_best_of_all_that_can_be_kept() -> None:
    space = space_of("s1", layout="N")
    scores = {c.name: torch.rand(1, 1, len(c.options)) for c in space.choices if c.kind == "op"}
    found = space.strongest(scores)
    for node in range(2, 6):
        links = [f"normal/{source}>{node}" for source in range(node)]
        best = max(
            product(range(node), range(node), (0, 1), (0, 1)),
            key=lambda c: (
                c[0] < c[1],
                sum(scores[links[s]][0, 0, at].item() for s, at in zip(c[:2], c[2:], strict=True)),
            ),
        )
        expected = dict(zip(best[:2], best[2:], strict=True))
        for source, link in enumerate(links):
            names = (space.operations_of(link)[expected[source]],) if source in expected else ()
            assert found.options[link] == names


@pytest.mark.parametrize("ops", SETS)
def test_what_is_counted_in_draws_is_the_strongest_of_each(ops: str) -> None:
    space = space_of(ops)
    draws = {c.name: torch.randn(40, 1, len(c.options)) for c in space.choices if c.kind == "op"}
    one_by_one = [
        dict(space.strongest({n: draw[at, None] for n, draw in draws.items()}).kept)
        for at in range(40)
    ]
    for counts in space.strongest_of_each(draws):
        assert counts.total() == 40
        for kept, count in counts.items():
            assert count == sum(dict(kept).items() <= found.items() for found in one_by_one)


@pytest.mark.parametrize("name", ["darts", "vinnas"])
@pytest.mark.parametrize("ops", ["s1", "s4"])
def test_methods_search_it(ops: str, name: str, bright: Images, tmp_path: Path) -> None:
    space = space_of(ops, layout="NR")
    method = methods.make(name, space, {})
    config = CONFIG.model_copy(update={"epochs": 1, "fraction": 0.5})
    runtime = Runtime.start("cpu", 0)
    found = search(space, method, bright, config, run=tmp_path, runtime=runtime)
    space.check(found.architecture)
    line = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    kept = [op for cell in line["watch"]["cells"].values() for op in cell["kept"]]
    assert kept
    assert set(kept) <= set(space.operations)
    assert line["watch"]["curvature"] is not None


def test_noise_is_standard_normal_and_tells_nothing_of_its_input() -> None:
    x = torch.full((8, 4, 33, 33), 7.0, requires_grad=True)
    for training in (True, False):
        op = Noise(1).train(training)
        first, second = op(x), op(x)
        assert first.shape == x.shape
        assert not first.requires_grad
        assert not torch.equal(first, second)
        assert abs(first.mean().item()) < 0.03
        assert first.std().item() == pytest.approx(1, abs=0.03)
    assert Noise(2)(x).shape == (8, 4, 17, 17)
    assert not list(Noise(2).parameters())


def test_the_gates_of_noise_learn() -> None:
    space = space_of("s4")
    gates = {
        c.name: torch.full((1, 1, 2), 0.5, requires_grad=True)
        for c in space.choices
        if c.kind == "op"
    }
    space.build()(torch.randn(4, *space.image), gates).square().sum().backward()
    assert all((gate.grad[..., 0] != 0).all() for gate in gates.values())


def test_a_search_with_noise_continues_where_it_was_stopped(bright: Images, tmp_path: Path) -> None:
    def run(folder: str, runtime: Runtime) -> str:
        space = space_of("s4", layout="R", states=2)
        method = methods.make("darts", space, {})
        found = search(space, method, bright, CONFIG, run=tmp_path / folder, runtime=runtime)
        return json.dumps([str(found.architecture), found.probabilities])

    whole = run("whole", Runtime.start("cpu", 0))
    with pytest.raises(Interrupted):
        run("parts", stopping_at(3))
    assert run("parts", Runtime.start("cpu", 0)) == whole


def test_noise_stays_in_a_compact_network_though_its_input_is_silent() -> None:
    space = space_of("s4", layout="N")
    architecture = noisy(space)
    net = space.build(architecture).eval()
    for chain in net.cells[0].inputs[:1]:  # all that comes in by node 0 is zero
        for parameter in chain.parameters():
            parameter.data.zero_()
    model = Model(net, Normalise(torch.zeros(1), torch.ones(1)), architecture, ("a", "b")).eval()
    small, pixels, logits = compact(model), torch.rand(3, *space.image), []
    for each in (model, small):
        torch.manual_seed(1)
        logits.append(each(pixels))
    assert sum(isinstance(m, Noise) for m in small.modules()) > 0
    assert torch.allclose(*logits, atol=1e-5)


def test_a_run_with_noise_is_trained_and_tested_but_not_exported(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = {
        **{"space.ops": "s4", "space.layout": "N", "space.states": 2, "space.channels": 2},
        **{"search.epochs": 1, "search.fraction": 0.1, "method.spread": 1.0, "train.epochs": 1},
    }

    def ardor(*words: str) -> int:
        return CliRunner().invoke(cli, words, catch_exceptions=False).exit_code

    given = [word for pair in settings.items() for word in ("--set", "{}={}".format(*pair))]
    with pytest.raises(ArdorError, match="draws noise, which no exported file can repeat"):
        ardor("run", "digits", "--method", "darts", "--run", str(folder), *given)
    assert "noise" in (folder / "architecture.json").read_text().split("probabilities")[0]
    assert not (folder / "export").exists()
    accuracies = []
    for _ in range(2):
        assert ardor("evaluate", str(folder)) == 0
        accuracies.append(json.loads((folder / "metrics.json").read_text())["test_accuracy"])
    assert accuracies[0] == accuracies[1]
    assert ardor("report", str(folder)) == 0
