"""Every figure shown comes from a file of results."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import page  # noqa: E402


def test_the_pages_are_what_the_results_say() -> None:
    results = page.load()
    assert results
    assert (page.RESULTS / "README.md").read_text() == page.page(results)
    text = (ROOT / "README.md").read_text()
    assert page.MARKED.search(text)
    assert page.readme(text, results) == text
    assert set(results) == {found[2] for found in page.MARKED.finditer(text)}


def test_results_carry_what_made_them() -> None:
    for result in page.load().values():
        assert result["command"].startswith(("ardor ", "python benchmarks/"))
        assert result["versions"]["torch"]
        assert len(result["commit"]) >= 12
        assert result["settings"]
        assert all("seed" in run for run in result["runs"])
