"""A search in rounds: whole searches one after another, and the mean of what they learn."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import stopping_at
from standins.toy import Toy
from torch import Tensor, nn

from ardor import methods
from ardor.bayes.draws import gaussian_draw, mixture_log_var
from ardor.data import Images
from ardor.errors import Interrupted
from ardor.runtime.device import Runtime
from ardor.searching.loop import SearchLoop, halves, search
from ardor.searching.result import SearchResult
from ardor.searching.selection import Rounds
from ardor.settings.sections import SearchConfig
from ardor.training.optimise import rate_at

ROUNDS = SearchConfig(
    epochs=6, rounds=3, batch=8, augment=(), warmup=0.5, rate=0.05, gate_rate=0.2, shrink=0
)


def loop_of(images: Images, folder: Path, **changes: Any) -> SearchLoop:
    config = ROUNDS.model_copy(update=changes)
    runtime = Runtime.start("cpu", 0)
    parts = halves(images, config, 0)
    return SearchLoop(Toy(), methods.make("darts", Toy(), {}), parts, config, folder, runtime)


def find(images: Images, folder: Path, runtime: Runtime, **changes: Any) -> SearchResult:
    config = ROUNDS.model_copy(update=changes)
    method = methods.make("darts", Toy(), {})
    return search(Toy(), method, images, config, run=folder, runtime=runtime)


def parameters(method: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in method.parameters()])


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_every_round_warms_up_and_counts_once_its_gates_learn(
    bright: Images, tmp_path: Path
) -> None:
    find(bright, tmp_path, Runtime.start("cpu", 0))
    seen = lines(tmp_path)
    assert [line["warmup"] for line in seen] == [True, False] * 3
    held = [line["probabilities"] for line in seen]
    assert held[1] == held[2] != held[3] == held[4] != held[5]
    half, whole = (rate_at(ROUNDS, share) for share in (0.5, 1.0))
    assert [line["rate"] for line in seen] == pytest.approx([half, whole] * 3)


def test_weights_and_their_optimiser_begin_anew(bright: Images, tmp_path: Path) -> None:
    loop = loop_of(bright, tmp_path)
    loop.step(*(loop.batch(half, torch.arange(len(half)), 0) for half in loop.halves))
    learned = [weight.detach().clone() for weight in loop.learner.weights]
    assert loop.learner.optimiser.state
    loop.begin_round()
    assert all(map(torch.equal, learned, loop.learner.weights))  # the round has begun already
    loop.stage.epoch = 2
    loop.begin_round()
    assert not any(map(torch.equal, learned, loop.learner.weights))
    assert not loop.learner.optimiser.state


def test_gates_begin_anew_and_the_mean_of_what_rounds_learned_is_drawn_from(
    bright: Images, tmp_path: Path
) -> None:
    loop = loop_of(bright, tmp_path)
    start = parameters(loop.method)
    for epoch, by in ((2, 3.0), (4, 1.0)):
        with torch.no_grad():
            for gate in loop.learner.gates:
                gate += by
        loop.stage.epoch = epoch
        loop.begin_round()
        assert parameters(loop.method).equal(start)
        assert not loop.learner.gate_optimiser.state
    ended = loop.selection.now(learning=False)
    assert torch.allclose(parameters(ended), start + 2)
    all_three = loop.selection.now()
    assert torch.allclose(parameters(all_three), start + 4 / 3)


def test_what_a_round_keeps_is_its_best_epoch(bright: Images, tmp_path: Path) -> None:
    loop = loop_of(bright, tmp_path, keep="best")
    with torch.no_grad():
        for gate in loop.selection.kept.parameters():
            gate += 5.0
    loop.stage.facts["least_error"] = 0.1
    best = parameters(loop.selection.kept)
    loop.stage.epoch = 2
    loop.begin_round()
    assert parameters(loop.selection.now(learning=False)).equal(best)
    assert "least_error" not in loop.stage.facts  # of the next round any epoch may be the best


def test_rounds_that_disagree_make_vinnas_less_sure() -> None:
    strong, weak = (methods.make("vinnas", Toy(), {}) for _ in range(2))
    name = strong.space.choices[0].name
    pooled = Rounds(strong, 2)
    for other, sure in ((1.0, True), (-1.0, False)):
        with torch.no_grad():
            for method, value in ((strong, 1.0), (weak, other)):
                method.mean[name].zero_()[..., 0] = value
        pooled.ended.zero_()
        pooled.end(strong, copy.deepcopy(strong))
        together = pooled.together(weak, learning=True)
        assert (together.probabilities()[name].max() > 0.99).item() == sure


def test_the_posterior_over_rounds_is_as_wide_as_their_mixture() -> None:
    one, other = (methods.make("vinnas", Toy(), {"spread": 1.0}) for _ in range(2))
    pooled = Rounds(one, 2)
    pooled.end(one, copy.deepcopy(one))
    together = pooled.together(other, learning=True)
    for name in one.mean:
        means, log_vars = (
            torch.stack([p[name].detach() for p in pair])
            for pair in ((one.mean, other.mean), (one.log_var, other.log_var))
        )
        assert torch.allclose(together.mean[name], means.mean(0))
        assert torch.allclose(together.log_var[name], mixture_log_var(means, log_vars))


def test_the_variance_of_a_mixture_is_that_of_its_draws() -> None:
    torch.manual_seed(0)
    means, log_vars = torch.randn(4, 3, dtype=torch.double), torch.randn(4, 3, dtype=torch.double)
    draws = gaussian_draw(means.expand(200_000, 4, 3), log_vars.expand(200_000, 4, 3))
    seen = draws.reshape(-1, 3).var(0)
    # Of four means as of a sample, in place of all there are; and one for all options.
    between = means.var(0, correction=0)
    expected = seen - between + (between * 4 / 3).mean()
    assert torch.allclose(mixture_log_var(means, log_vars).exp(), expected, rtol=0.01)
    assert torch.allclose(mixture_log_var(means[:1], log_vars[:1]), log_vars[0])


@pytest.mark.parametrize(("step", "changes"), [(9, {}), (21, {}), (15, {"gate_optimiser": "sgd"})])
def test_stopped_in_any_round_it_goes_on_to_the_same_bits(
    step: int, changes: dict[str, Any], bright: Images, tmp_path: Path
) -> None:
    whole = find(bright, tmp_path / "whole", Runtime.start("cpu", 0), **changes)
    with pytest.raises(Interrupted):
        find(bright, tmp_path / "cut", stopping_at(step), **changes)
    again = find(bright, tmp_path / "cut", Runtime.start("cpu", 0), **changes)
    assert again == whole
    drop = {"seconds", "memory_mb", "expected_memory_mb"}
    cut, same = (
        [{key: line[key] for key in line if key not in drop} for line in lines(tmp_path / name)]
        for name in ("cut", "whole")
    )
    assert cut == same


def test_what_has_left_stays_away_in_the_next_round(bright: Images, tmp_path: Path) -> None:
    loop = loop_of(bright, tmp_path)
    whole = set(loop.net.state_dict())
    loop.take_out({"look": {"noise": 1}})
    names = set(loop.net.state_dict())
    assert names < whole
    loop.stage.epoch = 2
    loop.begin_round()
    assert set(loop.net.state_dict()) == names
