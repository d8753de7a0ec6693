"""The real command: interrupted, without an output, and for machines."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from standins.user import SET, TINY, Said, done

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-c", "from ardor.__main__ import main; main()"]


def test_interrupted_it_says_how_to_go_on_and_does(data: Path) -> None:
    folder = Path("a run")
    command = [*COMMAND, "search", str(data), "--run", str(folder), *TINY]
    process = subprocess.Popen(
        [*command, "--set", "search.epochs=80"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (folder / "log.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    said = Said(process.returncode, "", err)
    assert said.code == 130, said
    assert "search stopped in epoch" in said.line("error")
    assert said.line("hint") == "hint: nothing is lost: go on with 'ardor resume 'a run''"
    assert not (folder / "architecture.json").exists()
    before = json.loads((folder / "metrics.json").read_text())["stages"]["search"]["seconds"]
    assert before > 0
    done("resume", folder)
    assert (folder / "architecture.json").exists()
    assert json.loads((folder / "metrics.json").read_text())["stages"]["search"]["seconds"] > before


def test_help_does_not_wait_for_torch() -> None:
    code = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules));"
    asked = [sys.executable, "-c", f"{code} from ardor.__main__ import main; main()", "--help"]
    answer = subprocess.run(asked, check=True, capture_output=True, text=True)
    assert answer.stdout.startswith("Usage: ardor")
    assert answer.stdout.endswith("False\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_takes_nothing_is_an_error() -> None:
    with open("/dev/full", "w") as output:
        ended = subprocess.run(
            [*COMMAND, "--help"], stdout=output, stderr=subprocess.PIPE, text=True, check=False
        )
    said = Said(ended.returncode, "", ended.stderr)
    assert said.code == 1
    assert said.line("error") == "error: cannot go on: No space left on device"
    assert said.err.splitlines() == [said.line("error"), said.line("hint")]


def test_json_is_all_there_is_on_stdout(
    data: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    picture = data / "a" / "0.png"
    commands: list[tuple[object, ...]] = [
        *(("list", what) for what in ("methods", "spaces", "data", "presets", "settings")),
        ("check", data),
        ("search", data, "--run", "new", *TINY),
        ("train", "new"),
        ("prune", "new"),
        ("evaluate", "new"),
        ("report", "new"),
        ("resume", "new"),
        ("export", run),
        ("show", run),
        ("compare", run, "new"),
        ("predict", run, picture),
    ]
    for command in commands:
        said = done(*command, "--json")
        assert said.out.count("\n") == 1, command
        assert json.loads(said.out), command


def test_a_bench_in_json_can_be_given_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f'{name} = "{value}"' for name, value in SET.items()]
    grid = tomllib.loads(
        "seeds = 1\n[settings]\nsearch.epochs = 1\ntrain.epochs = 1\n"
        f'data.source = "{data}"\n'
        + "\n".join(lines)
        + '\n[methods.random.method]\nname = "random"'
    )
    monkeypatch.setattr("ardor.bench.grid.file_of", lambda name: grid)
    first = json.loads(done("bench", "tiny", "--json").out)
    assert [row["method"] for row in first["table"]] == ["random"]
    Path("runs/bench/tiny/random-0/metrics.json").unlink()
    again = json.loads(done("bench", "tiny", "--json").out)
    assert again["table"][0]["test_accuracy"] == first["table"][0]["test_accuracy"]
    assert again["table"][0]["params"] is None
