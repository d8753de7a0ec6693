"""Every figure shown comes from a file of results."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import page  # noqa: E402


def test_the_pages_are_what_the_results_say() -> None:
    results = page.load()
    assert results
    shown: dict[str, set[str]] = {"results": set(), "made": set()}
    for path in page.pages():
        text = path.read_text()
        assert page.renewed(text, results) == text, path
        for _, kind, name, _ in page.MARKED.findall(text):
            shown.setdefault(kind, set()).add(name)
    assert shown["results"] == shown["made"] == set(results)
    assert shown["costs"] == {"speed"}
    assert "front" in shown


def test_every_plot_of_a_result_is_on_a_page_and_as_it_says() -> None:
    pages = "".join(path.read_text() for path in page.RESULTS.glob("*.md"))
    for name, result in page.load().items():
        for plot, svg in page.plots(result).items():
            assert (page.RESULTS / f"{name}-{plot}.svg").read_text() == svg
            assert f"({name}-{plot}.svg)" in pages


def test_results_carry_what_made_them() -> None:
    for result in page.load().values():
        assert result["command"].startswith(("ardor ", "python benchmarks/"))
        assert result["versions"]["torch"]
        assert len(result["commit"]) >= 12
        assert result["settings"]
        assert all("seed" in run for run in result["runs"])
