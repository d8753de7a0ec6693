"""One process has a folder at a time; who has it is told, and the dead have none."""

import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from ardor.errors import ArdorError
from ardor.runtime.files import write
from ardor.runtime.lock import SILENT, hold, stamp


def locks(folder: Path) -> list[str]:
    return [path.name for path in folder.glob(".lock-*")]


def put(folder: Path, name: str, *, silent: float = 0.0) -> Path:
    """The file of someone else, who gave no sign of life for so many seconds."""
    path = folder / f".lock-{name}-1"
    path.write_text('{"host": "there", "process": 7, "since": "noon"}')
    then = path.stat().st_mtime - silent
    os.utime(path, (then, then))
    return path


def test_it_nests_and_is_gone_at_the_end(tmp_path: Path) -> None:
    with hold(tmp_path), hold(tmp_path):
        assert len(locks(tmp_path)) == 1
    assert not locks(tmp_path)


def test_who_has_it_is_told(tmp_path: Path) -> None:
    path = put(tmp_path, stamp())  # of another thread: this process is alive
    with pytest.raises(ArdorError) as refused, hold(tmp_path):
        pass
    assert str(refused.value) == f"'{tmp_path}' is in use by process 7 on 'there', since noon"
    assert f"delete '{path}'" in refused.value.hint
    assert locks(tmp_path) == [path.name]


def test_the_dead_hold_nothing(tmp_path: Path) -> None:
    machine, number, start = stamp().split("-")
    ended = subprocess.Popen(["true"])
    ended.wait()
    put(tmp_path, f"{machine}-{ended.pid}-1")
    put(tmp_path, f"{machine}-{number}-{int(start) + 1}")  # the number is another process's by now
    with hold(tmp_path):
        assert len(locks(tmp_path)) == 1


def test_another_machine_is_dead_once_it_is_silent_for_long(tmp_path: Path) -> None:
    path = put(tmp_path, "00000000-1-1", silent=SILENT / 2)
    with pytest.raises(ArdorError, match="in use by process 7"), hold(tmp_path):
        pass
    put(tmp_path, "00000000-1-1", silent=2 * SILENT)
    with hold(tmp_path):
        assert not path.exists()


def test_of_many_that_come_at_once_one_has_it(tmp_path: Path) -> None:
    together, over = threading.Barrier(6), threading.Barrier(6)
    said: list[str] = []

    def come() -> None:
        together.wait()
        try:
            with hold(tmp_path):
                said.append("mine")
                over.wait()
        except ArdorError as error:
            said.append(re.sub(r".* is in use by process (\d+) .*", r"\1", str(error)))
            over.wait()

    threads = [threading.Thread(target=come) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == [str(os.getpid())] * 5 + ["mine"]


@pytest.mark.parametrize("change", [lambda f: f.rename(f.with_name("new")), lambda f: f.rmdir()])
def test_a_folder_that_is_gone_is_not_made_again(tmp_path: Path, change: object) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    assert callable(change)
    with hold(folder):
        for name in locks(folder) if "rmdir" in change.__code__.co_names else ():
            (folder / name).unlink()
        change(folder)
        with pytest.raises(ArdorError, match="deleted, renamed or taken over"):
            write(folder / "checkpoint" / "file", "")
    assert not folder.exists()
