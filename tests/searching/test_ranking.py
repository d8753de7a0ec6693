"""The ranking of candidates: ends early on what cannot win, and goes on where it was stopped."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ardor import methods
from ardor.data import Images
from ardor.errors import Interrupted
from ardor.models.scores import logits_of
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.searching.ranking import bar
from ardor.searching.loop import SearchLoop, halves, search
from ardor.searching.result import Candidate, SearchResult
from ardor.settings.sections import SearchConfig
from ardor.spaces import Net
from ardor.spaces.cells import Cells

SPACE = Cells(image=(1, 8, 8), classes=2, layout="N", states=2, channels=2, ops="darts")
CONFIG = SearchConfig(epochs=1, batch=8, augment=(), rate=0.02, candidates=20)
BATCH = 4


@pytest.fixture(autouse=True)
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Images are ranked four by four; how many were looked at, batch by batch."""
    sizes: list[int] = []

    def look(net: Net, images: Images, *others: object) -> Tensor:
        sizes.append(len(images))
        return logits_of(net, images, *others)

    monkeypatch.setattr("ardor.searching.ranking.batch_count", lambda images, *_: images // BATCH)
    monkeypatch.setattr("ardor.searching.ranking.logits_of", look)
    return sizes


@pytest.fixture
def hard(bright: Images) -> Images:
    """Images of two classes, a quarter of which have the wrong label."""
    labels = torch.where(torch.arange(64) % 8 < 2, 1 - bright.labels, bright.labels)
    return Images(bright.pixels, labels)


def searched(images: Images, run: Path, report: Callable[[Progress], None]) -> SearchResult:
    runtime = Runtime.start("cpu", 0, report)
    method = methods.make("rsps", SPACE, {})
    return search(SPACE, method, images, CONFIG, run=run, runtime=runtime)


def ranked(images: Images, run: Path) -> tuple[Candidate, ...]:
    runtime = Runtime.start("cpu", 0)
    method = methods.make("rsps", SPACE, {})
    loop = SearchLoop(SPACE, method, halves(images, CONFIG, 0), CONFIG, run, runtime)
    loop.run()
    return loop.ranking(method).best(CONFIG.candidates)


def test_ending_early_leaves_the_best_as_they_are(
    hard: Images, tmp_path: Path, looked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ardor.searching.ranking.TOP", 1000)
    whole = ranked(hard, tmp_path / "whole")
    at_first = looked.count(BATCH)
    assert len(whole) == 20
    for top in (1, 3):
        monkeypatch.setattr("ardor.searching.ranking.TOP", top)
        looked.clear()
        early = ranked(hard, tmp_path / f"early{top}")
        assert early[:top] == whole[:top]
        assert set(early) < set(whole)
        assert looked.count(BATCH) < at_first


@pytest.mark.parametrize("margin", [-1, 0, 1])
def test_the_bound_is_what_the_unseen_images_could_still_add(
    margin: int, hard: Images, tmp_path: Path, looked: list[int]
) -> None:
    """Measured to the end is exactly what reaches the bar, and no image more than it takes."""
    method = methods.make("rsps", SPACE, {})
    runtime = Runtime.start("cpu", 0)
    loop = SearchLoop(SPACE, method, halves(hard, CONFIG, 0), CONFIG, tmp_path, runtime)
    images, drawn = loop.held_out, method.draw(1)[0]
    found = loop.ranking(method).scored(drawn, images, bar=0.0)
    right = round(found["accuracy"] * len(images))
    looked.clear()
    again = loop.ranking(method).scored(drawn, images, bar=(right + margin) / len(images))
    assert again == (found if margin <= 0 else None)
    looked.clear()
    assert loop.ranking(method).scored(drawn, images, bar=1.0) is None
    assert 0 < sum(looked) < len(images)


def test_the_bar_is_the_worst_of_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ardor.searching.ranking.TOP", 2)
    assert bar([]) == bar([[0.7, 1.0]]) == bar([[0.7, 1.0], []]) == 0.0
    assert bar([[0.7, 1.0], [], [0.9, 0.1], [0.8, 0.2]]) == 0.8


def test_stopped_in_the_ranking_it_goes_on_from_there(
    hard: Images, tmp_path: Path, looked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    whole = searched(hard, tmp_path / "whole", lambda progress: notes.append(progress.note))
    total = looked.count(BATCH)
    assert any(note.startswith("candidates ranked: 20 of 20, ") for note in notes)
    looked.clear()
    runtime = Runtime.start("cpu", 0)

    def stop_after(net: Net, images: Images, *others: object) -> Tensor:
        looked.append(len(images))
        runtime.stopping = looked.count(BATCH) >= total // 2
        return logits_of(net, images, *others)

    with monkeypatch.context() as patch:
        patch.setattr("ardor.searching.ranking.logits_of", stop_after)
        method, broken = methods.make("rsps", SPACE, {}), tmp_path / "broken"
        with pytest.raises(Interrupted, match="of 20 candidates"):
            search(SPACE, method, hard, CONFIG, run=broken, runtime=runtime)
    before = looked.count(BATCH)
    torch.manual_seed(99)
    assert searched(hard, broken, lambda progress: None) == whole
    assert looked.count(BATCH) == total
    assert 0 < before < total
