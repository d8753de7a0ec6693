"""Certainty that can be read: 'ardor show', and the same in the report, from the files alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from reporting.test_page import EVIL, Page, evil_choices

from ardor import spaces
from ardor.architecture import Architecture, choices_to_json
from ardor.cli import cli
from ardor.errors import ArdorError
from ardor.reporting import report
from ardor.reporting.runners_up import Other, others, verdict
from ardor.spaces.cells import Cells

KEPT = {
    "normal/>2": ("0", "1"),
    "normal/0>2": ("sep_conv_3x3",),
    "normal/1>2": ("skip_connect",),
}
SPACE = Cells(layout="N", states=1, ops="sep_conv_3x3,skip_connect,max_pool_3x3,none")
FOUND = SPACE.architecture(KEPT)
CHOICES = {"choices": choices_to_json(SPACE.choices)}
STRENGTHS = {
    "normal/0>2": {
        "sep_conv_3x3": {"mean": 0.51, "variance": 0.0002, "snr": 2550.0},
        "none": {"mean": -0.25, "variance": 0.004, "snr": -62.5},
    },
    "normal/1>2": {"skip_connect": {"mean": 0.125, "variance": 0.5, "snr": 0.25}},
}
RIVAL = {"kept": {**KEPT, "normal/1>2": ["max_pool_3x3"]}, "probability": 0.0931,
         "times_as_likely": 0.31, "standard_error": 0.0123}  # fmt: skip
CONTENT: dict[str, Any] = {
    **FOUND.to_json(),
    **CHOICES,
    "probabilities": {
        "normal/0>2": {"sep_conv_3x3": 0.97, "max_pool_3x3": 0.0, "none": 0.0},
        "normal/1>2": {"skip_connect": 0.75, "max_pool_3x3": 0.25},
    },
    "strengths": STRENGTHS,
    "probability": 0.3,
    "runners_up": [RIVAL],
}


def show(folder: Path, content: dict[str, Any], *options: str) -> Result:
    path = folder / "architecture.json"
    path.write_text(json.dumps(content))
    runner = CliRunner(env={"COLUMNS": "200"})
    return runner.invoke(cli, ["show", str(path), *options])


def rows(result: Result) -> list[list[str]]:
    """The cells of the table, without its head."""
    lines = result.stdout.split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]


def test_kept_operations_are_shown_with_their_strength(tmp_path: Path) -> None:
    result = show(tmp_path, CONTENT)
    assert [name.strip() for name in result.stdout.splitlines()[0].split("┃")] == [
        *("cell", "state", "from", "operation", "certainty", "mean", "variance", "SNR")
    ]
    assert rows(result) == [
        ["normal", "2", "0", "sep_conv_3x3", "97%", "0.51", "0.0002", "2550"],
        ["normal", "2", "1", "skip_connect", "75%", "0.125", "0.5", "0.25"],
    ]


def test_every_candidate_is_shown_where_all_are_asked_for(tmp_path: Path) -> None:
    assert rows(show(tmp_path, CONTENT, "--all")) == [
        ["normal", "2", "0", "sep_conv_3x3", "97% ✓", "0.51", "0.0002", "2550"],
        ["normal", "2", "0", "max_pool_3x3", "0%", "", "", ""],
        ["normal", "2", "0", "none", "0%", "-0.25", "0.004", "-62.5"],
        ["normal", "2", "1", "skip_connect", "75% ✓", "0.125", "0.5", "0.25"],
        ["normal", "2", "1", "max_pool_3x3", "25%", "", "", ""],
    ]


def test_what_is_likelier_stands_beside_what_is_kept_against_the_odds(tmp_path: Path) -> None:
    odd = {"normal/1>2": {"skip_connect": 0.004, "max_pool_3x3": 0.996}}
    content = {**CONTENT, "probabilities": {**CONTENT["probabilities"], **odd}}
    assert [row[4] for row in rows(show(tmp_path, content))] == ["97%", "0% (max_pool_3x3: 100%)"]


def test_files_without_strengths_are_shown_as_ever(tmp_path: Path) -> None:
    old = {key: CONTENT[key] for key in (*FOUND.to_json(), "probabilities")}
    assert rows(show(tmp_path, old)) == [
        ["normal", "2", "0", "sep_conv_3x3", "97%"],
        ["normal", "2", "1", "skip_connect", "75%"],
    ]
    assert [row[4] for row in rows(show(tmp_path, FOUND.to_json(), "--all"))] == ["✓", "✓"]
    plain = Architecture.of("toy", {}, {"look": ("signal",)}).to_json()
    assert rows(show(tmp_path, plain))[0][:4] == ["look", "", "", "signal"]
    result = show(tmp_path, old, "--runners-up", "5")
    assert isinstance(result.exception, ArdorError)
    assert "holds no runners-up" in str(result.exception)
    assert "vinnas" in result.exception.hint


def test_an_older_file_is_shown_as_a_new_one_is(tmp_path: Path) -> None:
    old = {key: value for key, value in CONTENT.items() if key != "choices"}
    for options in ((), ("--all",), ("--runners-up", "5")):
        assert show(tmp_path, old, *options).stdout == show(tmp_path, CONTENT, *options).stdout


def test_an_older_file_of_a_space_that_is_not_here_is_a_list(tmp_path: Path) -> None:
    old = {**FOUND.to_json(), "space": "lab.lost"}
    assert [row[:4] for row in rows(show(tmp_path, old))] == [
        ["normal/0>2", "", "", "sep conv 3×3"],
        ["normal/1>2", "", "", "skip connect"],
        ["normal/>2", "", "", "0, 1"],
    ]


@pytest.mark.parametrize("forged", [3, [{}], [[]], [{**CHOICES["choices"][1], "target": 0}]])
def test_choices_that_are_none_are_refused(tmp_path: Path, forged: Any) -> None:
    result = show(tmp_path, {**CONTENT, "choices": forged})
    assert isinstance(result.exception, ArdorError)
    assert "the choices of the architecture are broken" in str(result.exception)
    assert "\n" not in str(result.exception)


def test_strengths_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    result = show(tmp_path, {**CONTENT, "strengths": {"normal/0>2": {"none": {"mean": "much"}}}})
    assert isinstance(result.exception, ArdorError)
    assert "strengths of the architecture must be numbers" in str(result.exception)


def test_runners_up_are_told_by_how_likely_and_in_what_they_differ(tmp_path: Path) -> None:
    told = show(tmp_path, CONTENT, "--runners-up", "5").stdout
    assert "The architecture found is the likeliest, with a probability of 30.0 %." in told
    assert "0.31 ± 0.01 times as likely" in told
    assert "9.3 %" in told
    assert "normal 1 → 2: max pool 3×3, not skip connect" in told
    assert "sep conv" not in told.split("beside the one found")[1]


def test_as_json_it_is_the_file(tmp_path: Path) -> None:
    assert json.loads(show(tmp_path, CONTENT, "--runners-up", "1", "--json").stdout) == json.loads(
        json.dumps(CONTENT)
    )


@pytest.mark.parametrize(
    ("times", "error", "words", "said"),
    [
        (1.4, 0.1, "is likelier than the architecture found", "1.4 ± 0.1 times as likely"),
        (1.4, 0.3, "found is among the likeliest", "1.4 ± 0.3 times as likely"),
        (0.31, 0.0, "found is the likeliest", "0.31 times as likely"),
        (1234.5, 60.0, "is likelier", "1,234 ± 60 times as likely"),
        (1e-9, 0.0, "found is the likeliest", "10⁻⁹ times as likely"),
    ],
)
def test_what_is_likelier_by_chance_alone_is_not_called_likelier(
    times: float, error: float, words: str, said: str
) -> None:
    other = Other(times, error, None, ())
    assert words in verdict(None, [other])
    assert said in other.likelihood


def test_entries_that_make_no_sense_are_passed_over() -> None:
    numbers = ["x", float("nan"), -1, None, True]
    strange = [3, {}, {**RIVAL, "kept": 3}, *({**RIVAL, "times_as_likely": n} for n in numbers)]
    assert (
        list(others(strange, FOUND, SPACE.choices)) == list(others("x", FOUND, SPACE.choices)) == []
    )
    partly = [{**RIVAL, "kept": {"normal/0>2": 7, "normal/1>2": [["a"]]}, "standard_error": "x"}]
    (other,) = others(partly, FOUND, SPACE.choices)
    assert other.error == 0
    assert other.apart == ("normal 1 → 2: ['a'], not skip connect",)


def test_the_report_has_a_table_of_strengths_for_each_edge_and_the_runners_up(
    tmp_path: Path,
) -> None:
    (tmp_path / "architecture.json").write_text(json.dumps(CONTENT))
    text = report(tmp_path)
    page = Page(text)
    assert page.tags.count("details") == 1
    table = text.split("<details>")[1].split("</details>")[0]
    assert table.count("<tbody>") == 2
    assert 'scope="rowgroup" rowspan="3">c−2 → 2</th>' in table
    assert table.count("✓") == table.count('class="kept"') == 2
    for words in ("Mean", "Variance", "SNR", "Probability", "0.51", "2550", "-62.5", "97.0 %"):
        assert words in table, words
    for words in ("Runners-up", "is the likeliest", "0.31 ± 0.01 times as likely",
                  "normal 1 → 2: max pool 3×3, not skip connect"):  # fmt: skip
        assert words in page.text, words


def test_a_report_without_strengths_has_no_empty_tables(tmp_path: Path) -> None:
    (tmp_path / "architecture.json").write_text(json.dumps(FOUND.to_json()))
    page = Page(report(tmp_path))
    assert "details" not in page.tags
    assert "Runners-up" not in page.text


def test_a_stopped_search_shows_its_last_strengths(tmp_path: Path) -> None:
    line = {"stage": "search", "epoch": 1, "probabilities": CONTENT["probabilities"]}
    lines = [{**line, "strengths": STRENGTHS}, {**line, "epoch": 2, "strengths": "lost"}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert "2550" in Page(report(tmp_path)).text


def test_names_and_numbers_of_strangers_do_no_harm(tmp_path: Path) -> None:
    kept = {f"{EVIL}/0>2": (EVIL,), EVIL: (EVIL,)}
    numbers = {EVIL: 1.5, "mean": "<b>", "variance": None, "snr": float("inf")}
    strange = {choice: {EVIL: numbers, "x": 3} for choice in kept}
    found = {
        **Architecture.of(EVIL, {}, kept).to_json(),
        "choices": choices_to_json(evil_choices()),
        "strengths": {**strange, "y": 3},
        "probability": "<b>",
        "runners_up": [{"kept": {EVIL: [f"<b>{EVIL}"]}, "times_as_likely": 2.0}],
    }
    (tmp_path / "architecture.json").write_text(json.dumps(found))
    page = Page(report(tmp_path))
    assert not {"script", "b"} & set(page.tags)
    assert page.tags.count("details") == 2
    assert page.text.count(EVIL) >= 5
    assert "inf" not in page.text.replace("info", "")


def test_channels_are_counted_and_only_where_some_have_left(tmp_path: Path) -> None:
    space = spaces.make("blocks", {"image": (1, 8, 8), "classes": 2, "widths": [4, 4]})
    kept = {choice.name: choice.options[:1] for choice in space.choices}
    kept |= {"stage1-width": tuple("0123"), "stage2-width": ("0", "2", "3")}
    content = {
        **space.architecture(kept).to_json(),
        "choices": choices_to_json(space.choices),
        "strengths": {"stage1-block1": {"skip": {"mean": 0.5, "prior": 0.25}}},
    }
    shown = show(tmp_path, content)
    assert shown.stdout.splitlines()[0].endswith("before")
    widths = [row for row in rows(shown) if "width" in row[0]]
    assert [row[:4] for row in widths] == [["stage2-width", "", "", "3 of 4"]]
    every = [row for row in rows(show(tmp_path, content, "--all")) if "width" in row[0]]
    assert len(every) == 7
