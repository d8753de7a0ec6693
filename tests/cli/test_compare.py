"""Runs side by side: readable in a terminal of 80 columns, however many they are."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from ardor.cli.tables import rows_table


def row(run: str, data: str = "photos") -> dict[str, Any]:
    figures = {"test_accuracy": 0.98765, "nonzero_params": 1_234_567, "params": 2_345_678}
    return {"run": f"runs/{run}", "data": data, "method": "thompson", "seed": 0, **figures}


def shown(rows: list[dict[str, Any]], columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    screen = Console(width=columns, file=StringIO())
    screen.print(rows_table(rows))
    return screen.file.getvalue().splitlines()


@pytest.mark.parametrize("count", [1, 4, 7])
def test_runs_that_do_not_fit_beside_each_other_are_below(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"photos-thompson-{number}" for number in range(count)]
    lines = shown([row(name) for name in names], 80, monkeypatch)
    assert max(map(len, lines)) <= 80
    heads = [line for line in lines if "photos-thompson" in line]
    assert [name for line in heads for name in names if name in line] == names  # whole, in order
    accuracies = [line for line in lines if line.startswith("test accuracy")]
    assert len(accuracies) == len(heads) == -(-count // 3)
    assert sum(line.count("98.77%") for line in accuracies) == count


def test_a_wide_terminal_has_all_runs_in_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown([row(f"photos-thompson-{number}") for number in range(7)], 200, monkeypatch)
    assert len([line for line in lines if line.startswith("seed")]) == 1


def test_a_long_place_of_images_takes_more_lines_and_not_more_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = "/home/somebody/pictures/" + "deeper/" * 15
    lines = shown([row("a", place), row("b")], 80, monkeypatch)
    assert max(map(len, lines)) <= 80
    folded = "".join(line.split("│")[1].strip() for line in lines if "/" in line and "│" in line)
    assert folded == place
