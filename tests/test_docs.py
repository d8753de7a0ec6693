"""README, CONTRIBUTING and docs: short, true, and about what is there."""

import re
import sys
from pathlib import Path

import pytest
from test_layering import LINE, SOURCE

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import check_docs  # noqa: E402

README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def test_links_tables_figures_and_commands_are_right() -> None:
    assert check_docs.problems(fast=True) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a](nowhere.md)", "no file 'nowhere.md'"),
        ("[a](README.md#nothing)", "no heading 'README.md#nothing'"),
        ("    ardor fly photos/", "no command 'ardor fly'"),
        ("```\nardor fly photos/\n```", "no command 'ardor fly'"),
        ("as in `ardor run photos/ --fly=1`", "'ardor run' has no option --fly"),
        ("<!-- results: digits -->\n| none |\n<!-- end -->", "'results: digits' is not what"),
        ("<!-- results: fly -->\n| none |\n<!-- end -->", "no result 'fly'"),
    ],
)
def test_what_is_wrong_is_told(text: str, problem: str) -> None:
    results = check_docs.page.load()
    found = [
        *check_docs.links(ROOT / "README.md", text),
        *check_docs.tables(text, results),
        *check_docs.options(text),
    ]
    assert [one for one in found if one.startswith(problem)], found


def test_a_figure_that_was_not_measured_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path: "an accuracy of 99.99 %, or 97.60% ± 0.54%")
    assert list(check_docs.figures({"digits": RESULT})) == ["99.99 is in no table of docs/results"]


RESULT = check_docs.page.load()["digits"]


def test_the_readme_is_short() -> None:
    assert len(README.encode()) <= 9000
    (front,) = re.findall(r"<!-- front -->\n(.*?)<!-- end -->", README, flags=re.S)
    assert len(front.splitlines()) <= 2 + 8


def test_the_map_has_every_package_and_the_line_of_who_may_import_whom() -> None:
    assert " ".join(LINE.split()) in " ".join(CONTRIBUTING.split())
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == set(re.findall(r"^\| `(\w+)/` \|", CONTRIBUTING, flags=re.M))


def test_the_walk_has_few_hops_and_each_is_there() -> None:
    walk = CONTRIBUTING.partition("## The walk of a run")[2].partition("\n## ")[0]
    assert 1 <= len(re.findall(r"^\d+\. ", walk, flags=re.M)) <= 12
    for file, function in re.findall(r"`(\w+/\w+\.py): ([\w.]+)`", walk):
        source = (SOURCE / file).read_text()
        for name in function.split("."):
            assert re.search(rf"^ *(def|class) {name}\b", source, flags=re.M), (file, name)
