"""What the images changed: the likeliest options before and after, in the report of a run."""

import json
from pathlib import Path
from typing import Any

import pytest
from reporting.test_page import Page, epoch_line
from standins.drawn import random_cells

from ardor.architecture import choices_to_json
from ardor.reporting import report
from ardor.reporting.prior import likeliest

SHARES = {
    "normal/0>2": ({"sep_conv_3x3": 0.2, "skip_connect": 0.7}, {"sep_conv_3x3": 0.9}),
    "normal/1>2": ({"sep_conv_3x3": 0.6, "skip_connect": 0.3}, {"sep_conv_3x3": 0.8}),
    "reduction/0>2": ({"sep_conv_3x3": 0.5, "skip_connect": 0.5}, {"skip_connect": 0.66}),
}


def write(folder: Path, *, searched: bool, quantity: str = "prior") -> str:
    architecture, choices, _ = random_cells(1, 3)
    strengths: dict[str, Any] = {
        choice: {option: {"mean": 0.1, quantity: share} for option, share in before.items()}
        for choice, (before, _) in SHARES.items()
    }
    after = {
        choice: {**dict.fromkeys(before, 0.05), **after}
        for choice, (before, after) in SHARES.items()
    }
    found = {"choices": choices_to_json(choices), "strengths": strengths, "probabilities": after}
    content = json.dumps({**architecture.to_json(), **found})
    (folder / "architecture.json").write_text(content)
    (folder / "log.jsonl").write_text(epoch_line("search" if searched else "train", 1))
    return report(folder)


def rows(html: str) -> list[str]:
    """The rows of the table, each as its text."""
    (table,) = [t for t in html.split("<table") if "Likeliest before" in t]
    return [
        Page(f"<p>{line}</p>").text for line in table.splitlines() if line.startswith("<tr><td")
    ]


def test_each_decision_has_its_likeliest_option_before_and_after(tmp_path: Path) -> None:
    html = write(tmp_path, searched=True)
    assert "Of 3 decisions, 1 has changed the likeliest option." in Page(html).text
    changed, same, decided = rows(html)
    assert "skip connect, 70 %" in changed
    assert "sep conv 3×3, 90 %" in changed
    assert changed.endswith("changed")
    assert "sep conv 3×3, 60 %" in same
    assert same.endswith("80 %")  # and no remark
    assert "several alike, 50 %" in decided
    assert decided.endswith("skip connect, 66 %no favourite before")


def test_without_a_search_the_prior_decided_alone(tmp_path: Path) -> None:
    text = Page(write(tmp_path, searched=False)).text
    assert "There was no search: the prior, which other images gave, decided alone." in text
    assert "Likeliest before" not in text


def test_a_method_without_a_prior_has_no_such_part(tmp_path: Path) -> None:
    assert "What the images changed" not in write(tmp_path, searched=True, quantity="snr")


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({"a": 0.2, "b": 0.8}, ("b", 0.8)),
        ({"a": 0.4, "b": 0.4, "c": 0.2}, (None, 0.4)),
        ({"a": 1.0}, ("a", 1.0)),
    ],
)
def test_a_favourite_is_one_option_alone(
    shares: dict[str, float], said: tuple[str | None, float]
) -> None:
    assert likeliest(shares) == said


def test_tables_of_the_architecture_stack_on_a_phone(tmp_path: Path) -> None:
    html = write(tmp_path, searched=True)
    for name in ("kept operations", "decisions before and after"):
        assert (
            f'<div class="scroll stack" tabindex="0" role="region" aria-label="Table of {name}">'
            in (html)
        )
