"""The table of NAS-Bench-201: read, ranked, searched; and the bench that looks cells up in it."""

import gzip
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ardor.bench import tables
from ardor.bench.nasbench201 import queries
from ardor.bench.nasbench201.truth import NEEDED, Truth
from ardor.bench.nasbench201.truths import Truths
from ardor.cli import cli
from ardor.errors import ArdorError

OPS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
FORM = "|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|"
WORTH = {"none": 0.0, "skip_connect": 1.0, "nor_conv_1x1": 2.0, "nor_conv_3x3": 4.0}


def rows() -> list[str]:
    """A table in which a cell is worth what its operations are; tests are one above validation."""
    found = [",".join(NEEDED)]
    for ops in product(OPS, repeat=6):
        worth = 60 + sum(WORTH.get(op, 0.5) for op in ops)
        found.append(f"{FORM.format(*ops)},{worth},{worth + 1},100")
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("table") / "table.csv.gz"
    file.write_bytes(gzip.compress("\n".join(rows()).encode()))
    return file


@pytest.fixture(scope="module")
def truth(path: Path) -> Truth:
    return Truth.read(path)


def test_ranks_count_what_is_better(truth: Truth) -> None:
    best, worst = (FORM.format(*[op] * 6) for op in ("nor_conv_3x3", "none"))
    assert truth.rank(truth.row_of(best)) == 1
    assert truth.rank(truth.row_of(worst)) == len(truth.cells) == 5**6
    nearly = FORM.format("nor_conv_1x1", *["nor_conv_3x3"] * 5)
    assert truth.rank(truth.row_of(nearly)) == 2  # as all six that have one 1x1 convolution


def test_a_table_need_not_be_compressed(path: Path, truth: Truth, tmp_path: Path) -> None:
    plain = tmp_path / "table.csv"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    assert Truth.read(plain) == truth


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not enough values"),
        (b"arch,cifar10_valid_200\na,1", "it has no column 'cifar10_test_200'"),
        (",".join(NEEDED).encode(), "no rows"),
        (f"{','.join(NEEDED)}\na,1,2".encode(), "different lengths"),
        (gzip.compress(b"arch", mtime=0)[:-4], "cannot read"),
        (b"\xff\xfe", "cannot read"),
    ],
)
def test_what_is_no_table_is_refused(content: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_bytes(content)
    with pytest.raises(ArdorError, match=why):
        Truth.read(file)


def test_words_where_numbers_must_be_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_text(f"{','.join(NEEDED)}\ncell,high,2,3")
    with pytest.raises(ArdorError, match="no numbers in 'cifar10_valid_200'"):
        _ = Truth.read(file).validation


def test_evolution_mutates_one_edge_and_forgets_the_oldest(truth: Truth) -> None:
    asked = queries.evolution(truth, np.random.default_rng(0))
    seen = [truth.operations[next(asked)] for _ in range(60)]
    for at, child in enumerate(seen[queries.POPULATION :], queries.POPULATION):
        alive = seen[at - queries.POPULATION : at]
        assert 1 in {sum(a != b for a, b in zip(child, p, strict=True)) for p in alive}


def test_evolution_finds_more_than_chance_with_the_same_queries(truth: Truth) -> None:
    rows = {(row["method"], row["queries"]): row["test_accuracy"] for row in queries.table(truth)}
    assert rows["regularised evolution", 1] == rows["random search", 1]
    assert rows["regularised evolution", 100] > rows["random search", 100] + 1
    assert rows["regularised evolution", 1000] == pytest.approx(85, abs=0.2)
    assert rows["random search", 1] == pytest.approx(61 + 6 * 1.5, abs=2)


def test_evolution_on_the_real_table(real_data: Path) -> None:
    real = Truth.read(real_data / "nasbench201.csv.gz")
    assert len(real.cells) == 15_625
    assert real.test.max() == pytest.approx(94.373, abs=0.001)
    rows = {(row["method"], row["queries"]): row for row in queries.table(real)}
    assert rows["regularised evolution", 100]["test_accuracy"] > 94.0
    assert rows["regularised evolution", 1000]["test_accuracy_worst"] > 94.0
    assert rows["random search", 100]["test_accuracy"] == pytest.approx(93.8, abs=0.15)


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty images of two classes, and a preset that takes seconds."""
    monkeypatch.chdir(tmp_path)
    pixels = np.arange(40 * 64).reshape(40, 8, 8) % 251
    np.savez("images.npz", x=pixels.astype(np.uint8), y=np.arange(40) % 2)
    tiny = {
        "space": {"name": "nasbench201", "channels": 2, "cells": 1},
        "search": {"epochs": 2, "batch": 8, "warmup": 0.0},
    }
    monkeypatch.setattr("ardor.bench.grid.preset", lambda name: tiny)
    monkeypatch.setattr(queries, "SEEDS", 2)


def bench(*arguments: object, code: int = 0) -> str:
    command = ["bench", "nasbench201", *map(str, arguments), "--folder", "out"]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == code, result.stderr
    return result.stdout


@pytest.mark.usefixtures("images")
def test_a_bench_looks_up_what_searches_found(path: Path, truth: Truth) -> None:
    asked = ("--data", "images.npz", "--table", path, "--methods", "vinnas,darts,random")
    result = json.loads(bench(*asked, "--seeds", 2, "--json"))
    assert [row["method"] for row in result["table"]] == ["vinnas", "darts", "random"]
    for run in result["runs"]:
        at = truth.row_of(run["cell"])
        assert run["test_accuracy"] == truth.test[at]
        assert run["rank"] == truth.rank(at)
        # Those in which gates learn: this row of DARTS warms up for a third of them.
        assert len(run["epochs"]) == {"vinnas": 2, "darts": 1, "random": 0}[run["method"]]
    vinnas = [run["test_accuracy"] for run in result["runs"] if run["method"] == "vinnas"]
    row = result["table"][0]
    assert row["test_accuracy"] == pytest.approx(np.mean(vinnas))
    assert (row["test_accuracy_best"], row["test_accuracy_worst"]) == (max(vinnas), min(vinnas))
    assert result["optimum"]["rank"] == 1
    columns, read = tables.cells(result)
    assert {"true test accuracy, %", "best", "worst", "ranks", "search"} <= set(columns)
    assert all(row["search_core_seconds"] > 0 for row in result["table"])
    assert "core s" in read[0][columns.index("search")]
    del result["runs"][0]["metrics"]["stages"]["search"]["core_seconds"]  # of an older result
    older = tables.search(Truths(truth).row("vinnas", result["runs"][:1]))
    assert older["search"].endswith(" s")
    assert "core" not in older["search"]
    assert [cells[0] for cells in read][-1] == "optimum"
    place = Path("out/nasbench201-images.npz")
    assert not (place / "vinnas-0" / "trained").exists()  # the table knows what it would reach
    assert (place / "accuracy.svg").read_text().startswith("<svg")
    assert "optimum" in bench(*asked, "--seeds", 2, "--so-far")


@pytest.mark.usefixtures("images")
def test_a_bench_of_truths_needs_the_table() -> None:
    with pytest.raises(ArdorError, match="has no table of them") as error:
        bench("--data", "images.npz")
    assert "--table FILE" in error.value.hint


@pytest.mark.usefixtures("images")
def test_searches_of_another_time_have_a_folder_of_their_own(path: Path) -> None:
    asked = ("--data", "images.npz", "--table", path, "--methods", "darts", "--seeds", 1)
    bench(*asked, "--time", "2s")
    config = json.loads(Path("out/nasbench201-images.npz-2s/darts-0/config.json").read_text())
    assert config["search"]["time"] == 2
