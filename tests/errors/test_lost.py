"""What is computed is not lost: whoever kills, shares, moves or deletes a run."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from standins.user import TINY, ardor, done, edit, files, pictures, put, refused

from ardor.pipeline import stages
from ardor.pipeline.run import resolved
from ardor.runtime.lock import stamp
from ardor.training.loop import ResumableLoop


def figures(run: Path) -> dict[str, Any]:
    """All that was measured, but for times and memory."""
    content = json.loads((run / "metrics.json").read_text())
    stages = sorted(content.pop("stages"))
    return {"stages": stages, **{k: v for k, v in content.items() if "latency" not in k}}


def killed(*_: object) -> None:
    """As far as a run can tell: nothing that comes after it happens."""
    raise KeyboardInterrupt


def test_a_search_killed_before_its_figures_are_kept_keeps_them(
    begun: Path, searched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def kill(source: str, target: Path) -> None:
        replace(source, target)
        if Path(target).name == "architecture.json":
            killed()

    (begun / "metrics.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", kill)
        assert ardor("resume", begun).code == 130
    assert (begun / "architecture.json").exists()
    refused("train", begun, error="no architecture yet", hint="ardor resume")
    done("resume", begun)
    assert figures(begun) == figures(searched)


def test_pruned_anew_and_killed_it_has_the_figures_of_what_it_is(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(run / "config.json", put("stages", value=["search", "train", "prune"]))
    other = Path(shutil.copytree(run, "other"))
    done("prune", other, "--threshold", "-1")
    with monkeypatch.context() as patch:
        patch.setattr(stages, "forget_after", killed)
        assert ardor("prune", run, "--threshold", "-1").code == 130
    done("resume", run)
    assert figures(run) == figures(other)
    assert not (run / "export" / "model.onnx").exists()


def test_what_a_killed_process_left_goes_and_what_a_living_one_has_stays(
    data: Path, run: Path
) -> None:
    machine, number, start = stamp().split("-")
    dead, living = f".{machine}-{number}-1.abcd1234.part", f".{stamp()}.abcd1234.part"
    for place in (Path(), run, run / "model"):
        (place / dead).mkdir()
    Path(living).mkdir()
    (run / f".{stamp()}.file1234.part").touch()
    (run / ".mine.part").touch()
    done("resume", run)  # though nothing is left to be done
    done("search", data, "--run", "new", *TINY)
    left = sorted(path.name for path in (*Path().glob(".*"), *run.glob(".*")))
    assert left == sorted([living, ".mine.part"])
    assert not list((run / "model").glob(".*"))


def test_a_run_in_use_is_left_to_who_has_it(run: Path, data: Path) -> None:
    owner = run / f".lock-{stamp()}-{0}"
    owner.write_text('{"host": "there", "process": 7, "since": "noon"}')
    before = files(run)
    for command in ("resume", "prune", "export", "evaluate", "report"):
        refused(command, run, error="in use by process 7 on 'there', since noon", hint="delete")
    refused("prune", run, "--threshold", "1", error="in use by process 7")
    refused("prune", run, "--curve", error="in use by process 7")
    for command in ("show", "compare"):
        done(command, run)
    assert files(run) == before


def test_a_folder_deleted_while_it_is_searched_stays_deleted(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = ResumableLoop.finish_epoch

    def deleted(stage: ResumableLoop, **facts: Any) -> None:
        shutil.rmtree("run")
        finish(stage, **facts)

    monkeypatch.setattr(ResumableLoop, "finish_epoch", deleted)
    refused("search", data, "--run", "run", *TINY, error="was deleted, renamed", hint="put it back")
    assert not Path("run").exists()


def test_of_two_new_runs_at_once_each_has_a_folder(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(layers: Any) -> Any:
        """Meanwhile someone else makes a folder of that name."""
        other.mkdir(parents=True, exist_ok=True)
        (other / "config.json").touch()
        return resolved(layers)

    monkeypatch.setattr("ardor.pipeline.run.resolved", slowly)
    other = Path("runs") / f"{data.name}-vinnas-1"
    done("search", data, *TINY)
    assert (other.with_name(f"{data.name}-vinnas-2") / "architecture.json").exists()
    other = Path("mine")
    refused("search", data, "--run", "mine", *TINY, error="'mine' exists already", hint="--run")


def test_images_are_found_from_another_folder_and_in_a_new_place(
    run: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = Path(shutil.copytree(data, "photos"))
    done("search", "photos", "--run", "made", *TINY)
    made = json.loads(Path("made/config.json").read_text())
    assert made["data"]["source"] == "photos"
    assert made["place"] == {"photos": str(photos.absolute())}
    edit(run / "config.json", put("data", "source", value="photos"))
    edit(run / "config.json", put("place", value=made["place"]))
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    done("evaluate", run)
    photos = (Path("..") / photos).rename("moved")
    refused("evaluate", run, error="no such file or folder: 'photos'", hint="--data PLACE")
    refused("evaluate", run, "--data", "gone", error="no such file or folder: 'gone'")
    other = pictures(Path("other"), "a", "b", "c")
    refused("evaluate", run, "--data", other, error="this run was made for 2")
    done("evaluate", run, "--data", photos)
    monkeypatch.chdir("..")
    done("evaluate", run)
    assert "elsewhere" not in (run / "report.html").read_text()


@pytest.mark.parametrize("wait", ["start", "log"])
def test_any_number_of_signals_ends_with_130_and_no_traceback(data: Path, wait: str) -> None:
    code = "from ardor.__main__ import main; open('start', 'w'); main()"
    command = [sys.executable, "-c", code, "search", str(data), "--run", "run", *TINY]
    process = subprocess.Popen(
        [*command, "--set", "search.epochs=9000"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    sign = Path("start" if wait == "start" else "run/log.jsonl")
    while not sign.exists():
        assert process.poll() is None
        time.sleep(0.01)
    for number in (signal.SIGINT, signal.SIGTERM) * 3:
        time.sleep(0.01)
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
