"""The priors over groups of weights against their formulas, written out weight by weight."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from ardor.bayes.relevance import evidence_slope, well_determined
from ardor.errors import ArdorError
from ardor.layers.conversion import with_weights_of_
from ardor.layers.variational import Variational, VariationalConv2d
from ardor.pruning import priors
from ardor.pruning.groups import Groups, groups_of, weights_of
from ardor.pruning.priors import Prior
from ardor.pruning.priors.laplace import Laplace
from ardor.pruning.priors.log_uniform import LogUniform
from ardor.pruning.priors.magnitude import Magnitude, lamp
from ardor.pruning.thinning import STAYS, ranked

SHAPE = (2, 5, 5)
STRENGTH = 0.01
SEVERAL = ("filters", "channels", "shapes", "columns", "weights")


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4, 3)
    )


def laplace(*kinds: str) -> Laplace:
    net = network()
    return Laplace(net, groups_of(net, SHAPE, kinds), STRENGTH)


def places(groups: Groups, weights: dict[str, Tensor]) -> list[list[tuple[str, tuple[int, ...]]]]:
    """The weights of each group."""
    found: list[list[tuple[str, tuple[int, ...]]]] = [[] for _ in range(groups.count + 1)]
    for name, index in groups.index.items():
        whole = index.expand(weights[name].shape)
        for at in torch.cartesian_prod(*map(torch.arange, whole.shape)).tolist():
            found[int(whole[tuple(at)])].append((name, tuple(at)))
    return found[:-1]


def written_out(
    kinds: Sequence[Groups],
    weights: dict[str, Tensor],
    bends: dict[str, Tensor],
    gammas: list[list[float]],
) -> list[list[float]]:
    """omega of every group as in Algorithm 3, one weight after another."""
    precision = {name: torch.zeros(w.shape, dtype=torch.double) for name, w in weights.items()}
    for groups, gamma in zip(kinds, gammas, strict=True):
        for number, group in enumerate(places(groups, weights)):
            for name, at in group:
                precision[name][at] += 1 / gamma[number]
    omegas = []
    for groups, gamma in zip(kinds, gammas, strict=True):
        own = []
        for number, group in enumerate(places(groups, weights)):
            alpha = 0.0
            for name, at in group:
                c = 1 / (float(precision[name][at]) + float(bends[name][at]) / STRENGTH)
                alpha += 1 / gamma[number] - c / gamma[number] ** 2
            own.append(math.sqrt(alpha))
        omegas.append(own)
    return omegas


@pytest.mark.parametrize("kinds", [("filters",), ("weights",), SEVERAL])
def test_laplace_fits_what_algorithm_3_says_cycle_after_cycle(kinds: tuple[str, ...]) -> None:
    prior = laplace(*kinds)
    weights = {name: w.detach().double() for name, w in prior.weights.items()}
    gammas = [[1.0] * groups.count for groups in prior.groups]
    for _ in range(3):
        bends = {name: torch.rand(w.shape) for name, w in weights.items()}
        prior.refit(lambda bends=bends: bends)
        omegas = written_out(prior.groups, weights, bends, gammas)
        gammas = []
        for groups, omega in zip(prior.groups, omegas, strict=True):
            norms = [
                math.sqrt(sum(float(weights[name][at]) ** 2 for name, at in group))
                for group in places(groups, weights)
            ]
            gammas.append([norm / each for norm, each in zip(norms, omega, strict=True)])
            assert prior.fitted("omega", groups).tolist() == pytest.approx(omega, rel=1e-3)
            assert prior.fitted("gamma", groups).tolist() == pytest.approx(gammas[-1], rel=1e-3)


def test_laplace_takes_groups_for_as_relevant_as_the_data_determine_them() -> None:
    prior = laplace("filters")
    (groups,) = prior.groups
    bends = {name: torch.rand(w.shape) for name, w in prior.weights.items()}
    prior.refit(lambda: bends)
    gamma = prior.fitted("gamma", groups).double()
    for number, group in enumerate(places(groups, dict(prior.weights))):
        shares = []
        for name, at in group:
            h = float(bends[name][at]) / STRENGTH
            shares.append(1 - 1 / (1 / float(gamma[number]) + h) / float(gamma[number]))
        assert float(prior.relevance()[0][number]) == pytest.approx(
            sum(shares) / len(shares), rel=1e-4
        )


def test_how_far_data_determine_a_weight_is_one_minus_its_posterior_over_its_prior_variance() -> (
    None
):
    curvature, gamma = torch.rand(50).double() * 9, torch.rand(50).double() + 0.1
    posterior = 1 / (1 / gamma + curvature)
    assert torch.allclose(well_determined(curvature, gamma), 1 - posterior / gamma)
    assert torch.allclose(evidence_slope(curvature, gamma), 1 / gamma - posterior / gamma**2)
    assert well_determined(torch.tensor(3.0), torch.tensor(0.0)) == 0


@pytest.mark.parametrize("omega", [0.0, 0.3, 2.0, 1e6])
def test_a_proximal_step_is_where_half_the_square_and_the_norm_are_least(omega: float) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(50, 1))
    prior = Laplace(net, groups_of(net, SHAPE, ["columns"]), STRENGTH)
    (groups,) = prior.groups
    prior.fitted("omega", groups).fill_(omega)
    weight, rate = net[1].weight, 30.0
    before = weight.detach().clone()[0]
    prior.after_step(rate)
    line = torch.linspace(-1, 1, 20001).double()
    for was, now in zip(before.double(), weight[0].detach().double(), strict=True):
        found = line[(0.5 * (line - was) ** 2 + rate * STRENGTH * omega * line.abs()).argmin()]
        assert abs(float(found - now)) < 2e-4


def test_a_proximal_step_shortens_a_group_and_does_not_turn_it() -> None:
    prior = laplace("filters")
    (groups,) = prior.groups
    prior.fitted("omega", groups).copy_(torch.rand(groups.count))
    before = {name: w.detach().clone() for name, w in prior.weights.items()}
    norms, by = prior.norms(groups), 20.0 * STRENGTH * prior.fitted("omega", groups)
    prior.after_step(20.0)
    assert torch.allclose(prior.norms(groups), (norms - by).clamp_min(0), atol=1e-6)
    for name, share in groups.spread((1 - by / norms).clamp_min(0), 1.0).items():
        assert torch.allclose(prior.weights[name], before[name] * share, atol=1e-6)
    assert torch.equal(prior.weights["4"], before["4"])  # of the answers: in no group


def test_groups_that_the_lasso_has_made_zero_leave_in_any_case() -> None:
    prior = laplace("filters")
    prior.fitted("omega", prior.groups[0]).copy_(torch.tensor([1e6, *[0.0] * 6]))
    prior.after_step(1.0)
    prior.refit(lambda: {name: torch.rand(w.shape) for name, w in prior.weights.items()})
    assert all(prior.fitted(q, prior.groups[0]).isfinite().all() for q in ("gamma", "omega"))
    ranks = ranked(prior, {})[0]
    assert ranks[0] == 0
    assert (ranks[1:] > 0).all()


def noisy(kind: str) -> tuple[nn.Module, list[Groups], dict[str, Variational]]:
    net = network()
    groups = groups_of(net, SHAPE, [kind])
    with_weights_of_(net, VariationalConv2d)
    layers = {name: m for name, m in net.named_modules() if isinstance(m, Variational)}
    for layer in layers.values():
        nn.init.normal_(layer.weight, 0.0, 0.1)
        nn.init.normal_(layer.log_var, -5.0, 3.0)
    return net, groups, layers


def test_under_the_log_uniform_prior_a_weight_is_as_relevant_as_its_noise_is_small() -> None:
    net, groups, layers = noisy("weights")
    (relevance,) = LogUniform(net, groups, 1.0).relevance()
    expected = [0.5 * (-layer.noise()).exp().log1p().flatten() for layer in layers.values()]
    assert torch.allclose(relevance, torch.cat(expected), rtol=1e-3, atol=1e-5)
    kept = torch.cat([(layer.pruned() != 0).flatten() for layer in layers.values()])
    assert torch.equal(relevance > LogUniform.never, kept)  # single weights leave as in VINNAS


def test_under_the_log_uniform_prior_squares_and_noise_of_a_group_are_summed() -> None:
    net, groups, layers = noisy("filters")
    (relevance,) = LogUniform(net, groups, 1.0).relevance()
    first = layers["0"]
    ratio = first.weight.square().sum((1, 2, 3)) / first.log_var.exp().sum((1, 2, 3))
    expected = 0.5 * (1 + ratio).log()
    assert torch.allclose(relevance[groups[0].index["0"].flatten()], expected, atol=1e-4)


def test_what_has_left_is_not_the_most_relevant_whatever_class_its_layer_is() -> None:
    net, groups, _ = noisy("filters")

    class Own(nn.Conv2d):
        """A convolution of a person's own, which keeps plain weights."""

    net[2] = Own(3, 4, 3)
    with torch.no_grad():
        net[2].weight[0] = 0.0
    prior = LogUniform(net, groups, 1.0)
    gone = prior.groups[0].index["2"].flatten()[0]
    assert ranked(prior, {})[0][gone] == 0
    assert (prior.relevance()[0][prior.groups[0].index["2"].flatten()[1:]] > 0).all()


def test_lamp_divides_a_square_by_all_that_are_no_smaller() -> None:
    squares = torch.rand(40).square()
    expected = [float(x / squares[squares >= x].sum()) for x in squares]
    assert lamp(squares).tolist() == pytest.approx(expected, rel=1e-5)
    assert lamp(torch.tensor([4.0, 1.0, 3.0])).tolist() == pytest.approx([1.0, 1 / 8, 3 / 7])
    assert lamp(torch.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def test_the_magnitude_of_a_group_is_the_mean_over_its_layers() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(2, 3, 1), nn.Conv2d(3, 3, 1)
            self.head = nn.Linear(3, 2)

        def forward(self, images: Tensor) -> Tensor:
            x = self.first(images).relu()
            return self.head((x + self.second(x)).mean((2, 3)))

    net = Residual()
    groups = groups_of(net, SHAPE, ["filters"])
    (scores,) = Magnitude(net, groups, 1.0).relevance()
    each = [
        lamp(layer.weight.detach().square().sum((1, 2, 3))) for layer in (net.first, net.second)
    ]
    order = groups[0].index["first"].flatten()
    assert torch.allclose(scores[order], (each[0] + each[1]) / 2)


class Given(Prior):
    """Relevance that a test sets."""

    never = 0.0
    given: list[Tensor]

    def relevance(self) -> list[Tensor]:
        return self.given


def test_the_least_relevant_are_first_and_the_best_of_each_layer_stays() -> None:
    net = network()
    prior = Given(net, groups_of(net, SHAPE, ["filters"]), 1.0)
    first, second = (prior.groups[0].index[name].flatten() for name in ("0", "2"))
    relevance = torch.empty(7)
    relevance[first] = torch.tensor([0.9, 0.0, 0.5])
    relevance[second] = torch.tensor([0.2, 0.3, 0.1, 0.2])
    prior.given = [relevance]
    ranks = ranked(prior, {})[0]
    assert ranks[first].tolist() == [STAYS, 0, 4]  # zero leaves in any case
    assert ranks[second].tolist() == [2, STAYS, 1, 3]  # of equals the first goes first
    prior.given = [torch.zeros(7)]
    assert (ranked(prior, {})[0] == STAYS).sum() == 2  # something is left of either


def test_groups_of_all_kinds_are_ranked_together() -> None:
    net = network()
    prior = Given(net, groups_of(net, SHAPE, ["filters", "weights"]), 1.0)
    prior.given = [torch.rand(groups.count) + 0.1 for groups in prior.groups]
    ranks, every = torch.cat(ranked(prior, {})), torch.cat(prior.given)
    open_ = ranks < STAYS
    assert ranks[open_].sort().values.tolist() == list(range(1, int(open_.sum()) + 1))
    assert torch.equal(every[open_][ranks[open_].argsort()], every[open_].sort().values)


def test_of_groups_as_relevant_those_leave_first_that_cost_the_most() -> None:
    net = network()
    prior = Given(net, groups_of(net, SHAPE, ["filters"]), 1.0)
    prior.given = [torch.ones(7)]
    of = prior.groups[0].index
    (ranks,) = ranked(prior, {"0": 9.0, "2": 1.0})
    left = [ranks[of[name].flatten()] for name in ("0", "2")]
    assert left[0][left[0] < STAYS].max() < left[1].min()


def test_layers_as_a_whole_can_all_be_done_without() -> None:
    class Passed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.Conv2d(2, 2, 1), nn.Linear(2, 2)

        def forward(self, images: Tensor) -> Tensor:
            return self.head((images + self.inner(images)).mean((2, 3)))

    net = Passed()
    prior = Given(net, groups_of(net, SHAPE, ["layers"]), 1.0)
    prior.given = [torch.ones(1)]
    assert ranked(prior, {})[0].tolist() == [1]


def test_priors_are_found_by_name() -> None:
    assert priors.names() == ["laplace", "log-uniform", "magnitude"]
    assert [priors.find(name) for name in priors.names()] == [Laplace, LogUniform, Magnitude]
    with pytest.raises(ArdorError, match="unknown prior") as caught:
        priors.find("laplce")
    assert "laplace" in caught.value.hint
    with pytest.raises(ArdorError, match="imported only where you name it"):
        priors.find("lab.prior")


def test_weights_that_can_leave_are_those_of_convolutions_and_linear_maps() -> None:
    assert set(weights_of(network())) == {"0", "2", "4"}
