"""What a posterior says in numbers: strengths, probabilities of architectures, runners-up."""

import itertools
import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from standins.toy import Toy
from torch import Tensor

from ardor import methods
from ardor.architecture import Architecture, Decisions
from ardor.bayes.draws import best_probability
from ardor.data import Images
from ardor.layers.operations import ZERO
from ardor.methods.vinnas import Vinnas
from ardor.runtime.device import Runtime
from ardor.searching.likely import likeliest, strengths
from ardor.searching.loop import search
from ardor.settings.merge import resolve
from ardor.spaces import Space
from ardor.spaces.cells import Cells

OPS = "sep_conv_3x3,skip_connect,none"
SPACE = Cells(image=(1, 8, 8), classes=2, layout="NR", states=2, channels=2, ops=OPS)


def spread_out(space: Space, **settings: object) -> Vinnas:
    """A posterior with strengths of all sizes."""
    method = Vinnas(space, **settings)
    for mean, log_var in zip(method.mean.values(), method.log_var.values(), strict=True):
        torch.nn.init.normal_(mean)
        torch.nn.init.normal_(log_var, -0.5, 0.5)
    return method


def kept(**options: str) -> Decisions:
    return tuple((name, (option,)) for name, option in options.items())


def test_strengths_are_mean_variance_and_their_ratio_without_what_has_left() -> None:
    method = spread_out(SPACE)
    method.removed = {"normal/0>2": {"skip_connect": 1}}
    found = strengths(method)
    assert set(found) == set(method.mean)
    assert set(found["normal/0>2"]) == {"sep_conv_3x3", ZERO}
    for choice, options in found.items():
        for option, numbers in options.items():
            at = SPACE.operations.index(option)
            mean, log_var = (p[choice][0, 0, at].item() for p in (method.mean, method.log_var))
            assert numbers["mean"] == pytest.approx(mean, rel=1e-5)
            assert numbers["variance"] == pytest.approx(math.exp(log_var), rel=1e-5)
            assert numbers["snr"] == pytest.approx(mean / math.exp(log_var), rel=1e-5)
            assert all(float(f"{x:.6g}") == x for x in numbers.values())


def test_a_method_without_strengths_or_draws_says_nothing() -> None:
    method = methods.make("darts", Toy(), {})
    assert strengths(method) == {}
    assert method.fell_with() == {}
    assert likeliest(method.draw(1)[0], method.decision_counts(10)) == ()


def test_many_draws_at_once_are_decided_as_one_by_one() -> None:
    """Ranked by their best operation but zero; the first of equals."""
    space = Cells(layout="NR", states=3, ops=OPS)
    names = [c.name for c in space.choices]
    sizes = {c.name: len(c.options) for c in space.choices}
    draws = {n: torch.randint(1, 4, (40, 1, sizes[n])).float() for n in names if n != "normal/>3"}
    together = space.strongest_of_each(draws)
    assert all(count.total() == 40 for count in together)
    single = [space.strongest({n: d[i, None] for n, d in draws.items()}) for i in range(40)]
    for state in together:
        own = [tuple((n, a.options[n]) for n, _ in next(iter(state))) for a in single]
        assert Counter(own) == state
    for i, found in enumerate(single):
        assert found.options == by_hand(space, {n: d[i, 0].tolist() for n, d in draws.items()})


def by_hand(space: Cells, scores: dict[str, list[float]]) -> dict[str, tuple[str, ...]]:
    options: dict[str, tuple[str, ...]] = {}
    for place, node in itertools.product(("normal", "reduce"), (2, 3, 4)):
        edges = scores.get(f"{place}/>{node}", [1.0] * node)
        best = [max(range(2), key=scores[f"{place}/{s}>{node}"].__getitem__) for s in range(node)]
        rank = [-edges[s] * scores[f"{place}/{s}>{node}"][best[s]] for s in range(node)]
        chosen = sorted(sorted(range(node), key=rank.__getitem__)[:2])
        options[f"{place}/>{node}"] = tuple(map(str, chosen))
        for s in range(node):
            name = (space.operations[best[s]],) if s in chosen else ()
            options[f"{place}/{s}>{node}"] = name
    return options


def best_above(mean: Tensor, log_var: Tensor, at: int, x: Tensor) -> Tensor:
    """P(entry `at` is the largest and above x), by quadrature from x on."""
    normal = torch.distributions.Normal(mean, (0.5 * log_var).exp())
    cdf = normal.cdf(x[:, None])
    others = cdf.prod(-1) / cdf[:, at].clamp_min(1e-300)
    density = normal.log_prob(x[:, None])[:, at].exp() * others
    steps = 0.5 * (density[1:] + density[:-1]) * x.diff()
    return torch.cat([steps.flip(0).cumsum(0).flip(0), torch.zeros(1, dtype=torch.double)])


def test_shares_of_a_state_are_those_of_the_integral() -> None:
    """Two of three edges, an operation on each: the third edge stays below both of them."""
    method = spread_out(Cells(layout="R", states=2, ops=OPS))
    (_, counts) = method.decision_counts(100_000)
    x = torch.linspace(-20, 20, 40_001, dtype=torch.double)
    q = {
        s: [p[f"reduce/{s}>3"][0, 0, :2].detach().double() for p in (method.mean, method.log_var)]
        for s in range(3)
    }
    total = 0.0
    for decision, n in counts.items():
        options = dict(decision)
        on = {s: options[f"reduce/{s}>3"] for s in range(3) if options[f"reduce/{s}>3"]}
        (out,) = set(range(3)) - set(on)
        below = torch.distributions.Normal(q[out][0], (0.5 * q[out][1]).exp()).cdf(x[:, None])
        both = torch.ones_like(x)
        for s, (op,) in on.items():
            both = both * best_above(*q[s], OPS.split(",").index(op), x)
        exact = (0.5 * (both[1:] + both[:-1]) * below.prod(-1).diff()).sum().item()
        assert n / 100_000 == pytest.approx(exact, abs=5e-3)
        total += exact
    assert total == pytest.approx(1.0, abs=1e-3)


def test_shares_of_a_state_that_keeps_every_edge_are_products_over_edges() -> None:
    method = spread_out(SPACE)
    counts = method.decision_counts(100_000)[0]  # normal/>2, which has two edges and keeps both
    first, second = (
        best_probability(method.mean[n][0, 0, :2].detach(), method.log_var[n][0, 0, :2].detach())
        for n in ("normal/0>2", "normal/1>2")
    )
    for i, j in itertools.product(range(2), repeat=2):
        ops = (SPACE.operations[i],), (SPACE.operations[j],)
        decision = (("normal/>2", ("0", "1")), ("normal/0>2", ops[0]), ("normal/1>2", ops[1]))
        expected = (first[i] * second[j]).item()
        assert counts[decision] / 100_000 == pytest.approx(expected, abs=6e-3)


def test_runners_up_are_the_largest_products_of_all() -> None:
    counts = [
        Counter({kept(a="x"): 50, kept(a="y"): 30, kept(a="z"): 19}),
        Counter({kept(b="x", c="u"): 60, kept(b="y", c="v"): 39}),
        Counter({kept(d="x"): 98, kept(d="y"): 1}),
    ]
    found = Architecture.of("toy", {}, {"a": ("y",), "b": ("x",), "c": ("u",), "d": ("x",)})
    own, *others = likeliest(found, counts, 100)
    assert own.architecture == found
    assert own.probability == pytest.approx(0.31 * 0.61 * 0.99, rel=1e-5)  # one draw more
    for state in counts:
        state[tuple((name, found.options[name]) for name, _ in next(iter(state)))] += 1
    every = itertools.product(*(state.values() for state in counts))
    expected = sorted((math.prod(n / 100 for n in drawn) for drawn in every), reverse=True)
    expected.remove(math.prod((0.31, 0.61, 0.99)))
    assert [other.probability for other in others] == pytest.approx(expected, rel=1e-5)
    assert found not in {other.architecture for other in others}
    best = others[0]
    assert best.architecture.options == {"a": ("x",), "b": ("x",), "c": ("u",), "d": ("x",)}
    assert best.times_as_likely == pytest.approx(50 / 31, rel=1e-5)
    assert best.standard_error == pytest.approx(50 / 31 * math.sqrt(1 / 50 + 1 / 31), rel=1e-5)
    assert likeliest(found, counts, 3) == likeliest(found, counts, 100)[:4]


def test_an_architecture_that_was_never_drawn_is_unlikely_and_not_impossible() -> None:
    """A selection by signal to noise may take what is never the strongest."""
    found = Architecture.of("toy", {}, {"a": ("z",)})
    own, other = likeliest(found, [Counter({kept(a="x"): 999})])
    assert own.probability == 0.001
    assert other.times_as_likely == 999


def test_products_below_any_float_still_have_their_ratio() -> None:
    counts = [Counter({((f"c{i}", ("x",)),): 999, ((f"c{i}", ("y",)),): 1}) for i in range(200)]
    found = Architecture.of("toy", {}, {f"c{i}": ("y",) for i in range(200)})
    own, best, *_ = likeliest(found, counts)
    assert own.probability == 0.0
    assert best.probability == pytest.approx((999 / 1001) ** 200, rel=1e-5)
    assert math.isfinite(best.times_as_likely)


def test_the_standard_error_is_how_far_estimates_lie_apart() -> None:
    method = spread_out(SPACE)
    (found,) = method.draw(1)
    first = likeliest(found, method.decision_counts(2000))
    rival = first[1].architecture
    seen = []
    for _ in range(60):
        ranked = likeliest(found, method.decision_counts(2000), 40)
        seen += [o.times_as_likely for o in ranked[1:] if o.architecture == rival]
    assert len(seen) > 55
    spread = torch.tensor(seen).std().item()
    assert spread == pytest.approx(first[1].standard_error, rel=0.5)


def test_a_search_names_twenty_runners_up_by_its_seed(bright: Images, tmp_path: Path) -> None:
    config = resolve({"search": {**Vinnas.search, "batch": 8, "augment": [], "epochs": 1}}).search
    found = []
    for run in range(2):
        torch.manual_seed(3)
        method = methods.make("vinnas", SPACE, {})
        runtime = Runtime.start("cpu", 7)
        found.append(
            search(SPACE, method, bright, config, run=tmp_path / str(run), runtime=runtime)
        )
    assert found[0] == found[1]
    own, *others = found[0].likeliest
    assert own.architecture == found[0].architecture
    assert len(others) == 20
    assert others == sorted(others, key=lambda other: -other.log_probability)


def test_what_is_drawn_apart_follows_from_the_seed_and_disturbs_nothing() -> None:
    drawn, after = [], []
    for before in (0, 50):
        torch.manual_seed(1)
        torch.rand(before)
        state = torch.get_rng_state()
        with Runtime(seed=9).apart(4):
            drawn.append(torch.rand(100))
        after.append(torch.equal(torch.get_rng_state(), state))
    assert torch.equal(*drawn)
    assert after == [True, True]
    with Runtime(seed=8).apart(4):
        assert not torch.equal(torch.rand(100), drawn[0])
