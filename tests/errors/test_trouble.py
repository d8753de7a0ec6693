"""A disk that is full, memory that is short, a hand that stops it."""

import errno
import os
import time
from pathlib import Path

import pytest
from standins.user import TINY, files, refused


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_on_a_full_disk_all_stays_as_it_was(
    run: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    before = files(tmp_path)
    monkeypatch.setattr(os, call, full)
    refused("search", data, "--run", "new", *TINY, error="No space left on device", hint="free")
    for command in ("prune", "evaluate", "report"):
        refused(command, run, error="No space left on device", hint="free some space")
    refused("prune", run, "--threshold", "1", error="No space left on device")
    assert files(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_network_that_cannot_be_replaced_stays(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def refuse(source: Path, target: Path) -> None:
        """No room for the new one; the old one may go back."""
        if Path(target).name == "model" and (Path(source) / "config.json").stat().st_mtime > now:
            full()
        rename(source, target)

    before, now = files(run), time.time()
    monkeypatch.setattr(os, "rename", refuse)
    refused("prune", run, error="No space left on device")
    assert files(run) == before


@pytest.mark.parametrize(
    "failure",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to")],
)
def test_short_memory_is_told(
    data: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def search(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr("ardor.pipeline.stages.search_space", search)
    refused("search", data, *TINY, error="not enough memory", hint="search.accumulate")


def test_short_memory_where_there_are_no_batches_has_another_way_out(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ardor.data.check.check", check)
    said = refused("check", data, error="not enough memory", hint="more memory")
    assert "accumulate" not in said.err


def test_an_address_space_too_small_to_begin_with_is_told(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (600 * 2**20, -1))
    refused("check", data, error="an address space of 600 MB is too small", hint="ulimit -v")


def test_a_search_that_diverges_is_told(data: Path) -> None:
    settings = (*TINY, "--set", "search.rate=1e30", "--set", "search.epochs=2")
    refused("search", data, "--run", "new", *settings, error="diverged", hint="search.rate")
    assert not Path("new/architecture.json").exists()


def test_stopped_before_a_run_is_begun_nothing_is_left(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ardor.data.load", load)
    refused("run", data, "--run", "new", *TINY, error="interrupted", hint="again", code=130)
    assert not Path("new").exists()
