"""The bench of speed, at a size that takes no time: what it tells follows from what it measured."""

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from ardor.bench.speed import speed
from ardor.bench.speed.contenders import CONTENDERS, Size
from ardor.bench.speed.plain_darts import PlainDarts
from ardor.cli.bench_tables import bench_table
from ardor.errors import ArdorError
from ardor.spaces.cells import Cells

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import page  # noqa: E402

TINY = Size(batch=2, channels=8, cells=3, pixels=8)
GROWTH = {
    "batch": ((2, 4), ("darts step", "vinnas step")),
    "candidates": ((2, 8), ("darts step",)),
}


def measure(folder: Path, said: list[str]) -> dict[str, Any]:
    return speed.speed(
        folder, 2, command="ardor bench speed", say=said.append, size=TINY, growth=GROWTH
    )


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], list[str]]:
    """A whole bench, all of it in this process: a new one for each row would take a minute."""
    said: list[str] = []
    folder = tmp_path_factory.mktemp("speed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speed, "in_own_process", speed.alone)
        patch.setattr(speed, "REPEATS", 1)
        return folder, measure(folder, said), said


Bench = tuple[Path, dict[str, Any], list[str]]


def test_every_ratio_comes_from_what_was_measured(bench: Bench) -> None:
    _, result, _ = bench
    assert [row["name"] for row in result["table"]] == [c.name for c in speed.COMPARISONS]
    cpu = {
        name: [run["times"][name]["cpu_seconds"] for run in result["runs"]] for name in CONTENDERS
    }
    rows = {row["name"]: row for row in result["table"]}
    fast, costly = rows["darts step"], rows["local reparametrisation"]
    plain, darts = cpu["plain step"], cpu["darts step"]
    assert fast["ratio"] == min(plain) / min(darts)
    assert fast["ratio_low"] == min(a / b for a, b in zip(plain, darts, strict=True))
    assert costly["ratio"] == min(cpu["vinnas step"]) / min(cpu["vinnas step, plain weights"])
    assert rows["data preparation"]["ratio"] == min(cpu["preparation"]) / min(darts)
    for row in result["table"]:
        assert row["ratio_low"] <= row["ratio_high"]
        assert {row["ours"], row["other"]} <= result["costs"].keys()


def test_costs_are_of_the_best_round(bench: Bench) -> None:
    _, result, _ = bench
    for name, cost in result["costs"].items():
        wall = min(run["times"][name]["seconds"] for run in result["runs"])
        assert cost["images_per_second"] == TINY.batch / wall
        flops = 2 * CONTENDERS[name].multiply_adds(TINY) / wall
        assert cost["of_peak"] == pytest.approx(flops / 1e9 / result["peak_gflops"])
        assert cost["memory_mb"] >= 0


def test_growth_has_a_row_for_each_size(bench: Bench) -> None:
    _, result, _ = bench
    found = [(row["step"], row["along"], row["size"]) for row in result["growth"]]
    expected = [(s, k, v) for k, (values, steps) in GROWTH.items() for s in steps for v in values]
    assert found == expected
    assert [line["step"] for line in result["lines"]] == ["darts step", "vinnas step"]
    by_batch = [r["multiply_adds"] for r in result["growth"] if r["along"] == "batch"]
    assert by_batch[1] == 2 * by_batch[0]
    assert by_batch[2] == 2 * by_batch[0]  # means and variances


def test_what_is_measured_is_not_measured_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, result, said = bench
    assert len(said) == len(set(said))
    again: list[str] = []
    monkeypatch.setattr(speed, "timed", pytest.fail)
    monkeypatch.setattr(speed, "in_own_process", pytest.fail)
    assert measure(folder, again) == result
    assert again == []


def test_a_bench_that_was_stopped_measures_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    speed.SavedTimings(path, lambda line: None).of("one", lambda: {"seconds": 1.0})
    said: list[str] = []
    kept = speed.SavedTimings(path, said.append)
    assert kept.of("one", lambda: {"seconds": 9.0}) == {"seconds": 1.0}
    assert kept.of("two", lambda: {"seconds": 2.0}) == {"seconds": 2.0}
    assert said == ["two ..."]
    assert json.loads(path.read_text()).keys() == {"one", "two"}


def test_a_result_is_told_on_the_terminal_and_on_the_page(bench: Bench) -> None:
    folder, result, _ = bench
    assert json.loads((folder / "results.json").read_text()) == result
    console = Console(file=StringIO(), width=200)
    console.print(bench_table(result))
    written = console.file.getvalue()  # type: ignore[attr-defined]
    kinds = ("results", "costs", "made")
    marks = "".join(f"<!-- {kind}: speed -->\n<!-- end -->\n" for kind in kinds)
    text = page.renewed(marks, {"speed": result})
    for row in result["table"]:
        assert row["name"] in written
        assert f"{row['ratio']:.3g}" in written
        assert f"| {row['ratio']:.3g} |" in text
    for row in result["growth"]:
        assert f"{row['along']} {row['size']}" in written
        assert f"| {row['step']} | {row['along']} {row['size']} |" in text
    assert page.ratios(result) in text


def test_memory_is_that_of_a_process_of_its_own() -> None:
    held = torch.ones(50_000_000)  # 200 MB here, which the other process knows nothing of
    found = speed.in_own_process("darts step", Size(batch=16, channels=8, cells=3, pixels=32))
    assert 5 < found["memory_mb"] < 200
    assert found["cpu_seconds"] > 0
    assert len(held) > 0


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(ArdorError, match="cannot measure 'darts step': .*at least two"):
        speed.in_own_process("darts step", Size(candidates=1))


def test_a_line_is_found_where_there_is_one() -> None:
    exact = speed.line([16, 32, 64], [3 + 2 * n for n in (16, 32, 64)])
    assert exact["level"] == pytest.approx(3)
    assert exact["slope"] == pytest.approx(2)
    assert exact["largest_deviation"] == pytest.approx(0, abs=1e-12)
    bent = speed.line([1, 2, 3, 4], [1, 4, 9, 16])
    assert bent["largest_deviation"] > 0.1


def test_sizes_are_those_of_darts() -> None:
    assert Size().layout == "NNRNNRNN"
    assert Size(cells=20).layout.count("R") == 2
    assert Size().space.operations[0] == "none"
    assert all(len(Size(candidates=n).space.operations) == n for n in (2, 4, 8))


def test_the_plain_darts_that_speed_is_measured_against_is_darts() -> None:
    space = Cells(layout="NRN", states=4, channels=8, ops="darts")
    ours, theirs = space.build().double(), PlainDarts(channels=8, layout="NRN").double()
    assert sum(p.numel() for p in PlainDarts().parameters()) == 1_930_618
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        other.data = mine.data.clone()
    gates = {
        kind: torch.rand(14, 8, dtype=torch.double).softmax(-1) for kind in ("normal", "reduce")
    }
    edges = [(source, node) for node in range(2, 6) for source in range(node)]
    named = {
        f"{kind}/{source}>{node}": rows[number][None, None]
        for kind, rows in gates.items()
        for number, (source, node) in enumerate(edges)
    }
    images = torch.randn(3, 3, 16, 16, dtype=torch.double)
    mine, other = ours(images, named), theirs(images, gates["normal"], gates["reduce"])
    assert torch.allclose(mine, other, rtol=1e-9, atol=0)
    slopes = [
        torch.autograd.grad(logits.square().sum(), list(net.parameters()))
        for net, logits in ((ours, mine), (theirs, other))
    ]
    for a, b in zip(*slopes, strict=True):
        assert (a - b).abs().max() <= 1e-9 * b.abs().max()
