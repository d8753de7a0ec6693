"""Every figure shown comes from a file of results."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import page  # noqa: E402
import torch  # noqa: E402
from plain_darts import PlainDarts  # noqa: E402

from ardor.spaces.cells import Cells  # noqa: E402


def test_the_pages_are_what_the_results_say() -> None:
    results = page.load()
    assert results
    assert (page.RESULTS / "README.md").read_text() == page.page(results)
    text = (ROOT / "README.md").read_text()
    assert page.MARKED.search(text)
    assert page.readme(text, results) == text


def test_results_carry_what_made_them() -> None:
    for result in page.load().values():
        assert result["command"].startswith("ardor ")
        assert result["versions"]["torch"]
        assert all("seed" in run for run in result["runs"])


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
    assert torch.allclose(mine, other, rtol=1e-9)
    slopes = [
        torch.autograd.grad(logits.square().sum(), list(net.parameters()))
        for net, logits in ((ours, mine), (theirs, other))
    ]
    assert all(torch.allclose(a, b, rtol=1e-6) for a, b in zip(*slopes, strict=True))
