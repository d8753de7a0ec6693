"""What fell with what, from a search to the screen: files, 'ardor show', figures and JSON."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from standins.user import Said, done, pictures

from ardor.cli import cli

FALLING = "standins.falling"
TINY = ("space.layout=R", "space.states=2", "space.channels=2", "export.formats=[]")
OPS = ["skip_connect", "max_pool_3x3"]
WORDS = "6 of 15 operations and edges, 4 of them only because what they depend on was pruned"


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Said, Path]:
    """A search in which the first edge into each of two nodes is closed."""
    folder = tmp_path_factory.mktemp("falling")
    settings = (*TINY, f"space.ops={','.join(OPS)}")
    changes = [word for setting in settings for word in ("--set", setting)]
    images, run = pictures(folder / "data", "a", "b"), folder / "run"
    return done("search", images, "--run", run, "--method", FALLING, "--epochs", 2, *changes), run


def content(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "architecture.json").read_text())
    return found


def shown(run: Path, *options: str, columns: int = 80) -> list[str]:
    """The lines of 'ardor show' in a terminal of so many columns."""
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, ["show", str(run), *options])
    assert result.exit_code == 0, result.exception
    return [line.rstrip() for line in result.stdout.splitlines()]


def test_it_stands_in_the_architecture_and_for_each_epoch_in_the_log(
    searched: tuple[Said, Path],
) -> None:
    _, run = searched
    fell = {
        f"reduce/0>{node}": dict.fromkeys(OPS, f"reduce/>{node}: 0") for node in (2, 3)
    }  # what is behind a closed gate
    assert content(run)["fell_with"] == fell
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [line["fell_with"] for line in lines] == [fell, fell]
    assert (run / "architecture.svg").read_text().count('class="fell none"') == 2


def test_the_figures_count_it_in_words_and_as_numbers(searched: tuple[Said, Path]) -> None:
    said, run = searched
    assert f"pruned by the search {WORDS}" in " ".join(said.out.replace("│", " ").split())
    again = json.loads(done("report", run, "--json", "--trust", FALLING).out)
    assert again["pruned"] == {"operations": 10, "edges": 5, "pruned": 6, "fell": 4}
    assert f"Pruned by the search: {WORDS}." in (run / "report.html").read_text()


def test_show_counts_it_and_names_the_quantities(searched: tuple[Said, Path]) -> None:
    lines = shown(searched[1])
    assert [name.strip() for name in lines[0].split("┃")] == [
        *("cell", "state", "from", "operation", "certainty", "switch", "gamma", "entropy")
    ]
    rows = [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]
    assert ["reduce", "2", "1", "skip_connect", "94%", "1", "1", "1.42"] in rows
    assert len(rows) == 6  # two operations from 1 into 2, and from 1 and 2 into 3
    assert lines[-1] == f"pruned: {WORDS}"


def test_every_candidate_has_a_line_in_80_columns_and_what_fell_says_so(
    searched: tuple[Said, Path],
) -> None:
    lines = shown(searched[1], "--all")
    assert max(map(len, lines[:-2])) <= 80
    rows = [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]
    assert len(rows) == 10 + 5
    assert ["reduce", "3", "0", "edge", "15%", "1", "0.01", "-0.884"] in rows
    assert ["reduce", "3", "2", "edge", "94% ✓", "1", "1", "1.42"] in rows
    assert [row[3:5] for row in rows if row[2] == "0" and row[3] != "edge"] == [
        [operation, "14% fell"] for _ in range(2) for operation in OPS
    ]


def test_an_older_file_has_nothing_that_fell(searched: tuple[Said, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(searched[1], tmp_path / "run"))
    old = {k: v for k, v in content(run).items() if k not in ("fell_with", "strengths")}
    (run / "architecture.json").write_text(json.dumps(old))
    assert not any("pruned" in line for line in shown(run))
    assert "fell" not in "".join(shown(run, "--all"))


@pytest.mark.parametrize("broken", [3, [], {"reduce/0>2": "x"}, {"reduce/0>2": {"a": 1}}])
def test_what_is_no_name_of_a_choice_is_refused(
    searched: tuple[Said, Path], tmp_path: Path, broken: Any
) -> None:
    path = tmp_path / "architecture.json"
    path.write_text(json.dumps({**content(searched[1]), "fell_with": broken}))
    result = CliRunner().invoke(cli, ["show", str(path)])
    error = "fell_with of the architecture must be names of choices, by choice and option"
    assert str(result.exception) == error
