"""The bench of rivals: the same images and CPU seconds for all; goes on from where it stopped."""

import shlex
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

from ardor.bench.rivals import rivals as bench
from ardor.bench.rivals.contenders import CONTENDERS, KNOWN, PARTS
from ardor.bench.rivals.nets import cnn, residual
from ardor.bench.rivals.own import OWN
from ardor.bench.rivals.rivals import Job, interval, jobs, outcome, result, rivals
from ardor.bench.rivals.sets import SETS, cut, prepared
from ardor.bench.rivals.tables import means
from ardor.cli import cli
from ardor.cli.bench_tables import bench_table
from ardor.cli.create import _layers
from ardor.errors import ArdorError
from ardor.pipeline.resolve import layered

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import page  # noqa: E402


def unheard(line: str) -> None:
    """Nobody listens."""


@pytest.mark.parametrize(("side", "weights"), [(32, 24_000), (64, 61_000)])
def test_the_cnn_is_what_a_person_writes(side: int, weights: int) -> None:
    net = cnn((3, side, side), 10)
    count = sum(p.numel() for p in net.parameters())
    assert 0.9 * weights < count < 1.1 * weights
    assert net(torch.zeros(2, 3, side, side)).shape == (2, 10)


def test_the_small_residual_network_is_small() -> None:
    net = residual((3, 32, 32), 10)
    assert 30_000 < sum(p.numel() for p in net.parameters()) < 33_000
    assert isinstance(net[3].around, nn.Identity)  # the first pair keeps its size
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_seeds_share_the_test_images_alone(real_data: Path) -> None:
    first, second = (cut(SETS["fashion-6000"], seed, real_data) for seed in (0, 1))
    assert torch.bincount(first.train.labels).tolist() == [600] * 10
    assert len(first.test) == 10_000
    assert torch.equal(first.test.pixels, second.test.pixels)
    assert not torch.equal(first.train.pixels, second.train.pixels)


def test_a_contender_ends_with_its_time(tmp_path: Path) -> None:
    file = prepared("digits", 0, None, tmp_path)
    found = outcome(Job("digits", 2 / 60, "cnn", 0), file)
    assert found["accuracy"] > 0.5
    assert found["cpu_seconds"] > 1.9
    assert found["params"] >= found["nonzero_params"] > 20_000
    assert found["latency_ms"] > 0


def test_what_is_done_is_not_done_again_and_a_table_says_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def measured(job: Job, images: Path) -> dict[str, float]:
        made.append(job.name)
        if job.contender == "cnn" and made.count(job.name) == 1:
            raise KeyboardInterrupt
        return {"accuracy": 0.9, "cpu_seconds": 1.0, "test_images": 359}

    monkeypatch.setattr(bench, "in_own_process", measured)
    asked = {"images": ("digits",), "time": "1m", "seeds": 1, "command": "ardor bench rivals"}
    with pytest.raises(KeyboardInterrupt):
        rivals(tmp_path, say=unheard, **asked)
    begun = rivals(tmp_path, so_far=True, say=unheard, **asked)["table"]
    assert [row["contender"] for row in begun] == ["ardor", "random"]
    assert (tmp_path / "accuracy.svg").read_text().startswith("<svg")
    whole = rivals(tmp_path, say=unheard, **asked)["table"]
    assert made.count("digits-1m-ardor-0") == 1
    assert made.count("digits-1m-cnn-0") == 2
    assert [row["contender"] for row in whole] == ["ardor", "random", "cnn", "residual", "svm"]


def test_what_an_earlier_result_has_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def measured(job: Job, images: Path) -> dict[str, float]:
        made.append(job.name)
        return {"accuracy": 0.9, "cpu_seconds": 1.0, "test_images": 359}

    monkeypatch.setattr(bench, "in_own_process", measured)
    asked = {"images": ("digits",), "time": "1m", "seeds": 1, "say": unheard}
    first = rivals(tmp_path / "a", methods=("cnn",), command="once", **asked)
    earlier = tmp_path / "a" / "results.json"
    both = rivals(tmp_path / "b", methods=("cnn", "svm"), command="", earlier=earlier, **asked)
    assert made == ["digits-1m-cnn-0", "digits-1m-svm-0"]
    assert both["runs"][0] == first["runs"][0]
    for content in ('{"format": 1, "runs": [{"images": "digits"}]}', '{"format": 1}', "{"):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(ArdorError):
            rivals(tmp_path / "c", command="", earlier=tmp_path / "bad.json", **asked)


def test_the_plan_has_short_times_first_and_long_sets_once() -> None:
    planned = list(jobs(None, (), ("cnn",), ()))
    assert len(planned) == 2 * 2 * 5 + 1
    assert [job.minutes for job in planned[:11]] == [1.0] * 5 + [5.0] * 5 + [20.0]
    assert {job.images for job in planned} == set(SETS)


def test_the_interval_counts_the_images_and_the_seeds() -> None:
    assert interval(0.9, 10_000, [0.9]) == pytest.approx(1.96 * 0.003, rel=1e-3)
    assert 0.005 < interval(1.0, 359, [1.0]) < 0.006  # none wrong of 359 is no certainty
    assert interval(0.9, 10_000, [0.88, 0.92]) == pytest.approx(1.96 * 0.02)


@pytest.mark.parametrize("contender", sorted(OWN))
def test_what_a_person_types_makes_the_run_that_was_measured(contender: str) -> None:
    job = Job("cifar10-600", 5.0, contender, 3)
    _, verb, *words = shlex.split(job.command)
    source = {"data": {"source": "images/cifar10-600-3.npz"}, "seed": 3}
    context = cli.commands[verb].make_context(verb, words)
    typed = _layers({key: value for key, value in context.params.items() if value is not None})
    layers = OWN[contender].layers(300.0, "cifar10")
    assert layered(typed) == layered((*layers, source))


def test_no_contender_knows_the_images_from_before_and_all_have_the_same_time() -> None:
    for contender in ("ardor", "prior", "search"):
        config = layered(OWN[contender].layers(60.0, "fashion-mnist"))
        assert config.method["name"] == "thompson"
        assert config.method["without"] == ["fashion-mnist"]
        assert config.time == 60.0
    config = layered(OWN["random"].layers(60.0, "fashion-mnist"))
    assert config.method == {"name": "random"}  # with nothing of the other method's
    assert (config.space["name"], config.time) == ("blocks", 60.0)


def test_parts_lead_from_what_was_to_what_is_and_compete_only_if_asked_for() -> None:
    assert list(CONTENDERS) == ["ardor", "random", "cnn", "residual", "svm"]
    assert list(PARTS) == ["before", "space", "recipe", "prior", "search"]
    assert {job.contender for job in jobs(None, (), (), ())} == set(CONTENDERS)
    assert [job.contender for job in jobs(1, ["digits"], [*PARTS], [1.0])] == list(PARTS)
    spaces = [layered(OWN[part].layers(60.0, "digits")).space["name"] for part in PARTS]
    assert spaces == ["cells", "blocks", "blocks", "blocks", "blocks"]
    assert layered(OWN["before"].layers(100.0, "digits")).search.time == 30.0
    assert layered(OWN["prior"].layers(60.0, "digits")).search.epochs == 0
    assert layered(OWN["search"].layers(60.0, "digits")).search.epochs > 0


def test_a_rival_is_made_again_by_the_bench() -> None:
    words = shlex.split(Job("digits", 1.0, "cnn", 1).command)
    assert words[:3] == ["ardor", "bench", "rivals"]
    asked = cli.commands["bench"].make_context("bench", words[2:]).params
    assert (asked["images"], asked["methods"]) == ("digits", "cnn")
    assert (asked["time"], asked["seeds"]) == ("1m", 2)  # seeds 0 and 1
    assert Job("cifar10", 20.0, "svm", 0).command.endswith("--data DATA")


def measured(images: str, minutes: float, contender: str, accuracy: float) -> dict[str, Any]:
    sizes = {"params": 1_234_567, "nonzero_params": 1_034_567, "macs": 123_456_789}
    own = {} if contender == "svm" else {**sizes, "latency_ms": 12.345}
    run = {"images": images, "minutes": minutes, "contender": contender, "seed": 0, **own}
    return {**run, "accuracy": accuracy, "cpu_seconds": 1234.5, "test_images": 10_000}


def test_the_table_is_read_at_80_columns_and_json_has_everything() -> None:
    runs = [measured(s, m, c, 0.9) for s in SETS for m in (1.0, 20.0) for c in KNOWN]
    found = result(runs, "ardor bench rivals")
    screen = Console(width=80, file=StringIO())
    screen.print(bench_table(found))
    lines = screen.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "cifar10-6000, 20 min, 1 seed" in [line.strip() for line in lines]
    rows = [line for line in lines if line.startswith("residual") and "1,034,567" in line]
    assert len(rows) == 2 * len(SETS)  # none is folded into two lines
    for words in ("90.0% ± 0.6%", "1,234,567", "123.46", "12.35", "1234"):
        assert words in rows[0], words
    assert {"command", "interval", "macs", "cpu_seconds"} <= found["table"][0].keys()


def test_the_page_has_every_row_and_its_command() -> None:
    found = result(
        [measured("digits", 1.0, c, 0.9) for c in ("ardor", "cnn")], "ardor bench rivals"
    )
    shown, made = page.table(found), page.made("rivals", found)
    assert "**digits, 1 min, 1 seed**" in shown
    assert "| `cnn` | 90.0% ± 0.6% | 1,234,567 | 1,034,567 | 123.46 | 12.35 | " in shown
    assert "- digits, 1 min, ardor: `ardor run images/digits-0.npz --preset photos " in made
    assert "- digits, 1 min, cnn: `ardor bench rivals --images digits --methods cnn " in made
    older = {**found, "table": [{**found["table"][0]}]}
    del older["table"][0]["command"]
    assert "<details>" not in page.made("rivals", older)


def test_means_are_over_the_sets_that_all_have_and_say_what_is_between_them_and_the_cnn() -> None:
    runs = [
        *(measured(s, 1.0, "ardor", a) for s, a in (("digits", 0.9), ("signs", 0.8), ("c", 0.1))),
        *(measured(s, 1.0, "cnn", a) for s, a in (("digits", 0.8), ("signs", 0.7))),
        measured("digits", 5.0, "ardor", 0.99),
    ]
    rows = [{**run, "interval": 0.03, "seeds": 1} for run in runs]
    first, second, alone = means(rows)
    assert first["sets"] == second["sets"] == ["digits", "signs"]
    assert (first["contender"], first["accuracy"]) == ("ardor", pytest.approx(0.85))
    assert first["interval"] == pytest.approx(0.03 / 2**0.5)
    assert (alone["minutes"], alone["accuracy"]) == (5.0, 0.99)
    screen = Console(width=80, file=StringIO())
    screen.print(bench_table({"bench": "rivals", "table": rows}))
    shown = screen.file.getvalue().splitlines()
    assert [line.split("│")[-1].strip() for line in shown[3:6]] == ["+10.0", "+0.0", "-"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"images": ("digit",)}, "unknown set of images 'digit'"),
        ({"methods": ("cnnn",)}, "unknown contender 'cnnn'"),
        ({"images": ("cifar10",), "time": "1m"}, "needs a folder 'cifar10'"),
        ({"time": "soon"}, "must be a time"),
    ],
)
def test_what_is_not_there_is_told_in_a_line(
    asked: dict[str, object], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ArdorError, match=words):
        rivals(tmp_path, command="ardor bench rivals", say=unheard, **asked)
