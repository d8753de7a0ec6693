"""The ranking of candidates: ends early on what cannot win, and goes on where it was stopped."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ardor import methods, spaces
from ardor.architecture import Architecture
from ardor.data import Images
from ardor.errors import Interrupted
from ardor.models.scores import logits_of
from ardor.models.sizes import multiply_adds
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.searching.gate_gradients import frozen_statistics
from ardor.searching.loop import SearchLoop, halves, search
from ardor.searching.ranking import JUDGES, Ranking, bar
from ardor.searching.result import Candidate, SearchResult
from ardor.settings.merge import resolve
from ardor.settings.sections import Normalising, SearchConfig
from ardor.spaces import Net, Space
from ardor.spaces.cells import Cells
from ardor.training.train import train

SPACE = Cells(image=(1, 8, 8), classes=2, layout="N", states=2, channels=2, ops="darts")
CONFIG = SearchConfig(epochs=1, batch=8, augment=(), rate=0.02, candidates=20)
BATCH = 4
TINY = spaces.make("residual", {"image": (1, 8, 8), "classes": 2, "channels": 4})
ALONE = ("posterior", "candidate")


@pytest.fixture(autouse=True)
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Images are ranked four by four; how many were looked at, batch by batch."""
    sizes: list[int] = []

    def look(net: Net, images: Images, *others: object) -> Tensor:
        sizes.append(len(images))
        return logits_of(net, images, *others)

    monkeypatch.setattr(
        "ardor.searching.ranking.batch_count", lambda images, *_: max(1, images // BATCH)
    )
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


def ranked(images: Images, run: Path, top: int) -> tuple[Candidate, ...]:
    runtime = Runtime.start("cpu", 0)
    method = methods.make("rsps", SPACE, {})
    loop = SearchLoop(SPACE, method, halves(images, CONFIG, 0), CONFIG, run, runtime)
    loop.run()
    return replace(loop.ranking(method), top=top).best(CONFIG.candidates)


def test_ending_early_leaves_the_best_as_they_are(
    hard: Images, tmp_path: Path, looked: list[int]
) -> None:
    whole = ranked(hard, tmp_path / "whole", top=1000)
    at_first = looked.count(BATCH)
    assert len(whole) == 20
    for top in (1, 3):
        looked.clear()
        early = ranked(hard, tmp_path / f"early{top}", top=top)
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


def test_the_bar_is_the_worst_of_the_best() -> None:
    assert bar([], 2) == bar([[0.7, 1.0]], 2) == bar([[0.7, 1.0], []], 2) == 0.0
    assert bar([[0.7, 1.0], [], [0.9, 0.1], [0.8, 0.2]], 2) == 0.8


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


def masked(statistics: Normalising, images: Images, run: Path) -> SearchLoop:
    """After a short search by masks of channels and branches."""
    config = CONFIG.model_copy(update={"statistics": statistics, "rate": 0.05, "epochs": 2})
    method, runtime = methods.make("pgnas", TINY, {"drop": 0.4}), Runtime.start("cpu", 0)
    loop = SearchLoop(TINY, method, halves(images, config, 0), config, run, runtime)
    loop.run()
    return loop


@pytest.mark.parametrize("statistics", ALONE)
def test_a_candidate_computes_what_the_masked_supernet_does(
    statistics: Normalising, hard: Images, tmp_path: Path
) -> None:
    """By the same statistics; what it drops is not there to be computed."""
    loop = masked(statistics, hard, tmp_path)
    ranking = loop.ranking(loop.method)
    ranking.best(3)
    pixels = loop.normalise(loop.held_out.pixels)
    for architecture in loop.method.draw(4)[1:]:  # the first keeps all
        net, masks = ranking.candidate(architecture), TINY.masks(architecture)
        if statistics == "posterior":
            whole = spaces.network_of(TINY, all_of(TINY), as_searched=True)
            whole.load_state_dict({**loop.net.state_dict(), **ranking.statistics}, strict=False)
            with torch.no_grad():
                assert torch.allclose(net(pixels), whole.eval()(pixels, masks), atol=1e-5)
        else:
            train = loop.normalise(ranking.some_train.pixels)
            with frozen_statistics(loop.net, [(train, masks)]), torch.no_grad():
                assert torch.allclose(net(pixels), loop.net(pixels, masks), atol=1e-5)
        assert multiply_adds(net, TINY.image) < multiply_adds(loop.net, TINY.image)


def all_of(space: Space) -> Architecture:
    """The architecture that leaves nothing out."""
    return space.subset({c.name: torch.ones(1, 1, len(c.options)) for c in space.choices})


def test_statistics_of_the_posterior_are_those_of_images_under_its_gates(
    hard: Images, tmp_path: Path
) -> None:
    """Without drops the gates are one: what is left is the mean and variance of the images."""
    loop = masked("posterior", hard, tmp_path)
    with torch.no_grad():
        for logit in loop.method.parameters():
            logit.fill_(-60.0)
    ranking = loop.ranking(loop.method)
    ranking.best(1)
    pixels = loop.normalise(ranking.some_train.pixels)
    with torch.no_grad():
        made = loop.net.get_submodule("module.0")(pixels)
    variance, mean = torch.var_mean(made, (0, 2, 3), correction=0)
    assert torch.allclose(ranking.statistics["module.1.running_mean"], mean, atol=1e-5)
    assert torch.allclose(ranking.statistics["module.1.running_var"], variance, atol=1e-5)


@pytest.mark.parametrize("statistics", ALONE)
def test_the_hardest_images_come_first_and_change_no_result(
    statistics: Normalising,
    hard: Images,
    tmp_path: Path,
    looked: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = masked(statistics, hard, tmp_path)
    counts, found = [], []
    for order in (Ranking.images, lambda ranking, drawn: ranking.held_out.some()):
        monkeypatch.setattr(Ranking, "images", order)
        looked.clear()
        found.append(loop.ranking(loop.method).best(20)[0])
        counts.append(looked.count(BATCH))
    assert found[0].architecture == found[1].architecture
    assert found[0].accuracy == found[1].accuracy
    assert found[0].nll == pytest.approx(found[1].nll, rel=1e-5)
    # But for the looks that order them, which are worth it among more candidates.
    assert counts[0] - JUDGES * len(loop.held_out) // BATCH < counts[1]


def test_the_network_that_is_handed_on_is_the_candidate_that_won(
    hard: Images, tmp_path: Path
) -> None:
    """Statistics of the posterior go with the weights: the winner keeps its score."""
    loop = masked("posterior", hard, tmp_path)
    found = loop.found()
    config = resolve({"train": {"start": "search", "epochs": 0, "variational": False}}).train
    model = train(
        found.architecture,
        hard,
        ("dark", "bright"),
        config,
        run=tmp_path / "train",
        runtime=Runtime.start("cpu", 0),
        searched=found.weights,
    )
    with torch.no_grad():
        logits = model.net.eval()(loop.normalise(loop.held_out.pixels))
    right = (logits.argmax(1) == loop.held_out.labels).float().mean().item()
    assert right == pytest.approx(found.candidates[0].accuracy)
    assert right > 0.5


def test_the_expected_size_is_that_of_what_is_read(hard: Images, tmp_path: Path) -> None:
    """Convolutions times 1 - p; the first of a branch also times that of what reads it.

    So do the authors count; but the last block, too, gives only what the last layer reads.
    """
    space = spaces.make("residual", {"image": (1, 8, 8), "classes": 2, "branches": "whole"})
    method, runtime = methods.make("pgnas", space, {"drop": 0.3}), Runtime.start("cpu", 0)
    config, parts = CONFIG.model_copy(update={"statistics": "posterior"}), halves(hard, CONFIG, 0)
    ranking = SearchLoop(space, method, parts, config, tmp_path, runtime).ranking(method)
    ranking.best(1)
    assert ranking.expected() == {}  # what is kept more often than not is no draw
    ranking.best(9)
    count, keep = 16 * 9 + 2 * 16 + (0.7 * 64 * 2 + 2), 0.7  # first and last layer
    for inputs, outputs in ((16, 16), (16, 32), (32, 64)):
        first, second = 9 * inputs * outputs * keep**2, 9 * outputs**2 * keep
        read = keep if outputs == 64 else 1.0
        count += 2 * (first + second * read + 2 * outputs * (read + keep))
        count += (inputs * outputs * keep + 2 * outputs) * read if inputs < outputs else 0
    assert ranking.expected()["expected_params"] == pytest.approx(count, rel=0.06)  # of eight draws


def test_candidates_say_which_draw_they_were(hard: Images, tmp_path: Path) -> None:
    loop = masked("posterior", hard, tmp_path)
    with loop.runtime.streams.unchanged(), loop.runtime.streams("gates"):
        drawn = [*dict.fromkeys(loop.method.draw(20))]
    for candidate in loop.ranking(loop.method).best(20):
        assert drawn[candidate.draw] == candidate.architecture
        assert candidate.to_json()["draw"] == candidate.draw
