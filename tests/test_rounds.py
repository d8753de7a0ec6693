"""A search in rounds: weights begin anew and warm up in each of them, the gates go on."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import stopping_at
from standins.toy import Toy

from ardor import methods
from ardor.config import SearchConfig
from ardor.data import Images
from ardor.errors import Interrupted
from ardor.found import Found
from ardor.runtime import Runtime
from ardor.search import SearchLoop, halves, search
from ardor.steps import rate_at

ROUNDS = SearchConfig(
    epochs=6, rounds=3, batch=8, augment=(), warmup=0.5, rate=0.05, gate_rate=0.2, shrink=0
)


def loop_of(images: Images, folder: Path, **changes: Any) -> SearchLoop:
    config = ROUNDS.model_copy(update=changes)
    runtime = Runtime.start("cpu", 0)
    parts = halves(images, config, 0)
    return SearchLoop(Toy(), methods.make("darts", Toy(), {}), parts, config, folder, runtime)


def find(images: Images, folder: Path, runtime: Runtime, **changes: Any) -> Found:
    config = ROUNDS.model_copy(update=changes)
    method = methods.make("darts", Toy(), {})
    return search(Toy(), method, images, config, run=folder, runtime=runtime)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_every_round_warms_up_and_gates_go_on_from_where_they_were(
    bright: Images, tmp_path: Path
) -> None:
    find(bright, tmp_path, Runtime.start("cpu", 0))
    seen = lines(tmp_path)
    assert [line["warmup"] for line in seen] == [True, False] * 3
    held = [line["probabilities"] for line in seen]
    assert held[1] == held[2] != held[3] == held[4] != held[5]
    half, whole = (rate_at(ROUNDS, share) for share in (0.5, 1.0))
    assert [line["rate"] for line in seen] == pytest.approx([half, whole] * 3)


def test_weights_and_their_optimiser_begin_anew(bright: Images, tmp_path: Path) -> None:
    loop = loop_of(bright, tmp_path)
    loop.step(*(loop.batch(half, torch.arange(len(half)), 0) for half in loop.halves))
    learned = [weight.detach().clone() for weight in loop.weights]
    assert loop.optimiser.state
    loop.begin_round()
    assert all(map(torch.equal, learned, loop.weights))  # the round has begun already
    gates = [gate.detach().clone() for gate in loop.gates]
    loop.stage.epoch = 2
    loop.begin_round()
    assert not any(map(torch.equal, learned, loop.weights))
    assert all(map(torch.equal, gates, loop.gates))
    assert not loop.optimiser.state


@pytest.mark.parametrize("step", [9, 17, 21])
def test_stopped_in_any_round_it_goes_on_to_the_same_bits(
    step: int, bright: Images, tmp_path: Path
) -> None:
    whole = find(bright, tmp_path / "whole", Runtime.start("cpu", 0))
    with pytest.raises(Interrupted):
        find(bright, tmp_path / "cut", stopping_at(step))
    again = find(bright, tmp_path / "cut", Runtime.start("cpu", 0))
    assert again == whole
    drop = {"seconds", "memory_mb", "expected_memory_mb"}
    cut, same = (
        [{key: line[key] for key in line if key not in drop} for line in lines(tmp_path / name)]
        for name in ("cut", "whole")
    )
    assert cut == same


def test_what_has_left_stays_away_in_the_next_round(bright: Images, tmp_path: Path) -> None:
    loop = loop_of(bright, tmp_path)
    whole = set(loop.net.state_dict())
    loop.take_out({"look": {"noise": 1}})
    names = set(loop.net.state_dict())
    assert names < whole
    loop.stage.epoch = 2
    loop.begin_round()
    assert set(loop.net.state_dict()) == names
