"""Gates, data and noise of a search: what one draws is the same whatever the others do."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import stopping_at
from standins.toy import Toy
from torch import Tensor

from ardor import methods
from ardor.bayes import Gates
from ardor.data import Images
from ardor.errors import Interrupted
from ardor.methods.rsps import Rsps
from ardor.runtime import tensors
from ardor.runtime.device import Runtime
from ardor.runtime.seeds import Streams
from ardor.searching.loop import SearchLoop, halves
from ardor.settings.sections import SearchConfig, TrainConfig
from ardor.training.train import TrainLoop

BASE = SearchConfig(epochs=2, batch=8, warmup=0.0, rate=0.05, gate_rate=0.05, shrink=1)


def loop_of(
    images: Images, folder: Path, name: str, runtime: Runtime | None = None, **changes: Any
) -> SearchLoop:
    config = BASE.model_copy(update=changes)
    runtime = runtime or Runtime.start("cpu", 0)
    torch.manual_seed(0)
    method = methods.make(name, Toy(), {})
    return SearchLoop(Toy(), method, halves(images, config, 0), config, folder, runtime)


def drawn_gates(loop: SearchLoop, monkeypatch: pytest.MonkeyPatch) -> list[Gates]:
    """The gates of a whole search by a method that draws without having learned."""
    found, sample = [], Rsps.sample

    def watched(self: Rsps, batch: int, progress: float) -> Gates:
        found.append(sample(self, batch, progress))
        return found[-1]

    with monkeypatch.context() as patch:
        patch.setattr(Rsps, "sample", watched)
        loop.run()
    return found


def prepared(loop: SearchLoop, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The augmented images of a whole search."""
    found, batch = [], SearchLoop.batch

    def watched(self: SearchLoop, *arguments: Any, **settings: Any) -> Any:
        of = batch(self, *arguments, **settings)
        found.append(of.images)
        return of

    with monkeypatch.context() as patch:
        patch.setattr(SearchLoop, "batch", watched)
        loop.run()
    return found


def same(ours: list[Gates], theirs: list[Gates]) -> bool:
    return len(ours) == len(theirs) > 8 and all(
        torch.equal(a[name], b[name]) for a, b in zip(ours, theirs, strict=True) for name in a | b
    )


def test_gates_are_the_same_bits_under_other_data_and_noise(
    bright: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for at, (gates, others) in enumerate([(1, 2), (1, 3), (4, 2)]):
        loop = loop_of(bright, tmp_path / str(at), "rsps")
        loop.runtime.streams.__init__(torch.device("cpu"), gates=gates, data=others)
        torch.manual_seed(others)
        found.append(drawn_gates(loop, monkeypatch))
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


def test_augmentation_does_not_move_the_gates(
    bright: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        drawn_gates(loop_of(bright, tmp_path / str(i), "rsps", augment=names), monkeypatch)
        for i, names in enumerate([(), ("crop", "flip")])
    ]
    assert same(*found)


def test_gates_and_noise_do_not_move_the_augmentation(
    bright: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [  # the one draws no gates, the other gates and weights
        prepared(loop_of(bright, tmp_path / name, name), monkeypatch)
        for name in ("darts", "vinnas")
    ]
    assert all(map(torch.equal, *found))


def test_a_training_augments_by_the_data_and_leaves_the_noise_alone(
    bright: Images, tmp_path: Path
) -> None:
    architecture = Toy().architecture({"look": ("signal",), "through": ("left", "right")})
    losses, noise = [], []
    for at, (data, names) in enumerate([(1, ("crop",)), (1, ("crop",)), (2, ("crop",)), (1, ())]):
        runtime = Runtime.start("cpu", 0)
        runtime.streams = Streams(runtime.device, gates=0, data=data)
        config = TrainConfig(epochs=1, batch=8, augment=names)
        parts = [bright, bright[:0]]
        loop = TrainLoop(architecture, parts, config, tmp_path / str(at), runtime)
        loop.step(bright[torch.arange(8)])
        losses.append(loop.stage.sums["train/nll"])
        noise.append(torch.get_rng_state())
    assert losses[0] == losses[1] != losses[2]
    assert all(torch.equal(noise[0], other) for other in noise)


@pytest.mark.parametrize("name", ["vinnas", "standins.semi_implicit"])
@pytest.mark.parametrize("step", [2, 5])
def test_stopped_within_an_epoch_all_three_go_on_to_the_same_bits(
    name: str, step: int, bright: Images, tmp_path: Path
) -> None:
    loop = loop_of(bright, tmp_path / "whole", name)
    loop.run()
    found = loop.found()
    with pytest.raises(Interrupted):
        loop_of(bright, tmp_path / "cut", name, stopping_at(step)).run()
    loop = loop_of(bright, tmp_path / "cut", name)
    loop.run()
    assert loop.found() == found
    whole, cut = (
        tensors.load(tmp_path / folder / "checkpoint" / "search-00002-000000.safetensors")[0]
        for folder in ("whole", "cut")
    )
    assert {"random/gates-cpu", "random/data-cpu", "random/torch"} <= whole.keys()
    assert whole.keys() == cut.keys()
    assert all(torch.equal(tensor, cut[key]) for key, tensor in whole.items())


def test_a_checkpoint_of_one_stream_is_gone_on_with_and_says_so(
    bright: Images, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Interrupted):
        loop_of(bright, tmp_path, "vinnas", stopping_at(5)).run()
    (path,) = (tmp_path / "checkpoint").glob("*-000001.safetensors")
    states, facts = tensors.load(path)
    old = {key: tensor for key, tensor in states.items() if not key.endswith("-cpu")}
    tensors.save(path, old, facts)
    with caplog.at_level(logging.WARNING, "ardor"):
        loop = loop_of(bright, tmp_path, "vinnas")
    assert [record.getMessage() for record in caplog.records] == [
        f"'{path}' has no random states of gates and data: they begin anew"
    ]
    loop.run()
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]
