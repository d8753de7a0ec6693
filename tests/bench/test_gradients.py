"""The bench of gradients: the truth it measures against, and what it says of each kind."""

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from rich.console import Console

from ardor.bayes.draws import dropout_noise, switch_draw
from ardor.bench import gradients, tables
from ardor.bench.gradients import Problem
from ardor.bench.runs import benches
from ardor.cli import cli
from ardor.cli.bench_tables import bench_table

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import page  # noqa: E402

WEIGHT = torch.tensor([1.0, 0.5, 0.8], dtype=torch.double)
LOG_DELTA = torch.tensor([-1.0, 0.0, 0.5], dtype=torch.double)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("gradients")
    said: list[str] = []
    found = gradients.gradients(
        folder, 1, command="ardor bench gradients", say=said.append, draws=8000
    )
    assert said == ["problem 1 of 1 ..."]
    assert json.loads((folder / "results.json").read_text()) == found
    return found


def test_the_expected_loss_is_the_mean_loss_of_draws() -> None:
    problem, rates = Problem.of(3), LOG_DELTA.expand(60_000, 3)
    losses = problem.loss(WEIGHT * dropout_noise(switch_draw(rates, "gaussian", 1.0), rates))
    error = losses.std().item() / 60_000**0.5
    expected = problem.expected(LOG_DELTA, WEIGHT).item()
    assert expected == pytest.approx(losses.mean().item(), abs=4 * error)


def test_true_gradients_are_those_of_the_sum_over_switches() -> None:
    """By autograd through the same sum and quadrature."""
    problem = Problem.of(3)
    rates, weight = LOG_DELTA.clone().requires_grad_(), WEIGHT.clone().requires_grad_()
    exact = torch.autograd.grad(problem.expected(rates, weight), (rates, weight))
    found = problem.true_gradients(LOG_DELTA, WEIGHT)
    for name, slope in zip(("rates", "weights"), exact, strict=True):
        assert torch.allclose(found[name], slope, rtol=1e-5, atol=1e-8)


def rows_of(result: dict[str, Any], drop: float) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in result["table"] if row["drop"] == drop}


@pytest.mark.parametrize("drop", gradients.DROPS)
def test_hard_switches_have_no_bias_in_the_weights(result: dict[str, Any], drop: float) -> None:
    rows = rows_of(result, drop)
    for name in ("gaussian", "straight-through"):
        assert rows[name]["weights_bias"] < 3 * rows[name]["weights_bias_error"]


def test_what_a_reader_chooses_by(result: dict[str, Any]) -> None:
    """The lower the temperature the less bias and the more spread; print leaves out the switch."""
    rows = rows_of(result, 0.1)
    cold, warm = (rows[f"concrete {t}"] for t in ("0.1", "1"))
    assert cold["rates_bias"] < warm["rates_bias"] < rows["gaussian"]["rates_bias"]
    assert cold["rates_spread"] > 2 * warm["rates_spread"]
    assert rows["straight-through"]["rates_bias"] < 0.7 * rows["gaussian"]["rates_bias"]
    assert warm["weights_bias"] > 3 * warm["weights_bias_error"]
    assert rows_of(result, 0.9)["gaussian"]["rates_bias"] > 1


def test_bias_and_spread_are_over_the_size_of_the_true_gradient() -> None:
    true = torch.tensor([3.0, 4.0], dtype=torch.double)
    drawn = torch.tensor([[3.0, 9.0], [3.0, 4.0]], dtype=torch.double)
    found = gradients.compared(drawn, true)
    assert found["bias"] == pytest.approx(0.5)
    assert found["spread"] == pytest.approx((25 / 2) ** 0.5 / 5)
    assert found["bias_error"] == pytest.approx(found["spread"] / 2**0.5)
    assert found["cosine"] == pytest.approx((9 + 26) / (5 * (9 + 6.5**2) ** 0.5))


def test_the_same_command_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "DROPS", (0.3,))
    first, second = (list(gradients.measured(0, 50)) for _ in range(2))
    assert first == second


def test_the_table_is_told_on_the_terminal_and_on_the_page(result: dict[str, Any]) -> None:
    console = Console(file=StringIO(), width=220)
    console.print(bench_table(result))
    written = console.file.getvalue()  # type: ignore[attr-defined]
    marks = "".join(f"<!-- {kind}: gradients -->\n<!-- end -->\n" for kind in ("results", "made"))
    text = page.renewed(marks, {"gradients": result})
    assert "bias and spread" in benches()["gradients"].lower()
    for row in result["table"]:
        said = f"{row['rates_bias']:.3f} ± {row['rates_bias_error']:.3f}"
        assert said in written
        assert said in text
    assert tables.notes(result)[0] in text
    assert "| `concrete 0.1` | 0.9 |" in text


def test_the_command_refuses_what_is_for_grids(tmp_path: Path) -> None:
    words = ["bench", "gradients", "--data", "digits", "--folder", str(tmp_path)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1
    assert "--data digits is not for the bench 'gradients'" in done.stderr + str(done.exception)
