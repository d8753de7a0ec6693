"""Tensors on disk come back bit for bit, or not at all; random states and signals."""

import os
import random
import signal
import struct
import time
from mmap import mmap
from pathlib import Path

import numpy as np
import pytest
import torch

from ardor.errors import ArdorError
from ardor.runtime.cost import measured
from ardor.runtime.device import Runtime, find_device
from ardor.runtime.seeds import random_states, restore_random_states
from ardor.runtime.tensors import load, save


def tensors() -> dict[str, torch.Tensor]:
    return {
        "plain": torch.randn(3, 4),
        "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "scalar": torch.tensor(3.0),
        "bytes": torch.arange(7, dtype=torch.uint8),
        "empty": torch.empty(0, 2),
    }


def test_saved_tensors_come_back_with_their_layout(tmp_path: Path) -> None:
    path, facts = tmp_path / "x.safetensors", {"sums": {"a": 0.1 + 0.2}, "list": [1, None, "é"]}
    before = tensors()
    save(path, before, facts)
    after, told = load(path)
    assert told == facts
    assert set(after) == set(before)
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor)
        assert after[name].stride() == tensor.stride()


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    content = tensors()
    for name in ("a", "b"):
        save(tmp_path / name, content, {"b": 1, "a": 2})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("where", [0, 9, 60, -1, -20])
def test_a_changed_byte_is_noticed(where: int, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save(path, tensors(), {"epoch": 3})
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ArdorError):
        load(path)


def test_an_edited_fact_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save(path, tensors(), {"epoch": 3})
    edited = path.read_bytes().replace(rb"epoch\\\": 3", rb"epoch\\\": 4")
    assert edited != path.read_bytes()
    path.write_bytes(edited)
    with pytest.raises(ArdorError, match="checksum"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"x", b"\x80\x04N.", struct.pack("<Q", 2**40)])
def test_what_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(ArdorError, match="cannot read"):
        load(path)


def test_every_random_state_can_be_put_back() -> None:
    def draws() -> tuple[float, float, float]:
        return torch.rand(1).item(), float(np.random.rand()), random.random()

    np.random.randn()  # leaves half of a pair behind
    random.gauss(0, 1)
    states = random_states()
    first = draws()
    draws()
    restore_random_states(*states)
    assert draws() == first


def test_shuffles_depend_on_seed_and_epoch_alone() -> None:
    a, b = Runtime(seed=1), Runtime(seed=2)
    torch.rand(5)
    assert torch.equal(a.shuffled(50, 0), Runtime(seed=1).shuffled(50, 0))
    assert not torch.equal(a.shuffled(50, 0), a.shuffled(50, 1))
    assert not torch.equal(a.shuffled(50, 0), b.shuffled(50, 0))
    assert sorted(a.shuffled(50, 3).tolist()) == list(range(50))


def test_one_signal_asks_and_a_second_ends() -> None:
    runtime, before = Runtime(), signal.getsignal(signal.SIGTERM)
    with runtime.signals():
        os.kill(os.getpid(), signal.SIGTERM)
        assert runtime.stopping
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_device_that_is_not_there_is_named() -> None:
    assert find_device("cpu").type == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises(ArdorError, match="cuda"):
            find_device("cuda")


def test_peak_memory_is_that_of_the_stage() -> None:
    with measured() as large, mmap(-1, 160 * 2**20) as block:  # malloc might reuse what is free
        block.write(bytes([1]) * len(block))
    with measured() as small:
        pass
    assert large.peak_memory_mb > small.peak_memory_mb + 100
    assert large.seconds > 0


def test_cores_that_wait_for_others_take_no_core_time() -> None:
    with measured() as waiting:
        time.sleep(0.2)
    assert waiting.seconds >= 0.2
    assert waiting.core_seconds < 0.1
    begin = time.process_time()
    with measured() as working:
        while time.process_time() < begin + 0.05:
            sum(range(1000))
    assert working.core_seconds >= 0.05
