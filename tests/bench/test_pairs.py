"""Tables of architectures with the weights of their searches: alone, and several together."""

from typing import Any

import pytest

from ardor.bench.grid import read
from ardor.bench.measures import Pairs
from ardor.bench.runs import measure_of
from ardor.bench.tables import cells
from ardor.settings.presets import presets


def run(row: str, seed: int, **metrics: float) -> dict[str, Any]:
    stages = {"search": {"seconds": 9.0, "core_seconds": 10.0 + seed}}
    return {"method": row, "seed": seed, "metrics": {"stages": stages, **metrics}}


def scores(of: str, accuracy: float) -> dict[str, float]:
    return {f"{of}test_{name}": accuracy for name in ("accuracy", "nll", "ece")}


def test_a_row_has_the_scores_of_the_network_that_was_found() -> None:
    sizes = {"params": 1000.0, "macs": 2000.0}
    runs = [run("alone", seed, **scores("", 0.8 + 0.1 * seed), **sizes) for seed in range(2)]
    together = {**scores("", 0.5), **scores("ensemble_", 0.75), **sizes}
    table = [Pairs().row("alone", runs), Pairs().row("together", [run("together", 0, **together)])]
    columns, rows = cells({"table": table, "measure": "pairs", "runs": runs})
    shown = [dict(zip(columns, row, strict=True)) for row in rows]
    assert shown[0]["test accuracy"] == "85.00% ± 7.07%"
    assert shown[0]["search"] == "10 ± 1 core s"
    assert shown[1]["test accuracy"] == "75.00%"
    assert shown[1]["nll"] == "0.750"
    assert [one["parameters"] for one in shown] == ["1,000 ± 0", "1,000"]


@pytest.mark.parametrize("name", ["guided", *(p for p in presets() if p.startswith("pgnas-"))])
def test_rows_of_random_masks_learn_no_rate(name: str) -> None:
    """In the search and in what is drawn: the ablation of table 3; all else is as in `pgnas`."""
    grid = read(name, source="photos")
    assert isinstance(measure_of(grid, None), Pairs)
    learned, chance = (grid.rows[row][-2]["method"] if grid.rows[row][-2] else {} for row in ROWS)
    assert chance["rates"] == "constant"
    assert chance["drop"] > 0
    assert "rates" not in learned


ROWS = ("pgnas", "random")
