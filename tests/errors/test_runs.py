"""Folders of runs: what is wrong with one is named, and it stays as it was."""

import os
import shutil
from pathlib import Path

import pytest
from standins.user import TINY, Edit, done, edit, files, pictures, put, refused, without


def test_a_folder_that_exists_is_never_written_to(data: Path, run: Path) -> None:
    before = files(run)
    Path("file").write_text("mine")
    Path("folder").mkdir()
    refused("run", data, "--run", run, *TINY, error="exists already", hint="ardor resume")
    refused("search", data, "--run", "file", *TINY, error="'file' exists already", hint="--run")
    refused("search", data, "--run", "folder", *TINY, error="'folder' exists already")
    refused("search", data, "--run", "file/new", *TINY, error="cannot write 'file/new': Not a dir")
    assert files(run) == before
    assert Path("file").read_text() == "mine"
    assert not list(Path("folder").iterdir())


@pytest.mark.parametrize("place", ["/proc/nowhere/run", "/dev/null/run"])
def test_a_place_that_cannot_be_written_to_is_named(data: Path, place: str) -> None:
    refused("search", data, "--run", place, *TINY, error=f"cannot write '{place}'", hint="write to")


def test_what_is_no_run_is_refused_by_every_command(data: Path) -> None:
    Path("file").write_text("mine")
    Path("empty").mkdir()
    stages = ("resume", "train", "prune", "export", "evaluate", "report", "compare")
    for place in ("nowhere", "file", "empty", data):
        for command in stages:
            refused(command, place, error="it has no config.json", hint="'ardor search'")
        refused("predict", place, data, error="it has no config.json")
    refused("show", "nowhere", error="no file 'nowhere'")
    refused("show", "empty", error="no file 'empty/architecture.json'")
    refused("show", "file", error="cannot read 'file'", hint="JSON")
    assert not list(Path("empty").iterdir())


def test_a_run_that_is_not_far_enough_is_told_what_comes_first(
    tmp_path: Path, searched: Path, data: Path, begun: Path
) -> None:
    folder = Path(shutil.copytree(searched, tmp_path / "a run"))
    before = files(folder)
    for command in ("prune", "export", "evaluate"):
        refused(command, folder, error="has no trained network yet", hint="ardor train '")
    refused("prune", folder, "--threshold", "1", error="has no trained network yet")
    refused("predict", folder, data, error="has no trained network yet")
    assert files(folder) == before
    before = files(begun)
    refused("train", begun, error="has no architecture yet", hint=f"ardor resume {begun}")
    refused("train", begun, "--epochs", "2", error="has no architecture yet")
    refused("show", begun, error="architecture.json'")
    assert files(begun) == before


def test_settings_come_too_late_or_are_wrong_and_the_run_stays(
    tmp_path: Path, run: Path, searched: Path
) -> None:
    before = files(run)
    refused("train", run, error="is trained already", hint="new folder")
    refused("train", run, "--epochs", "3", error="is trained already")
    refused("prune", run, "--threshold", "nan", error="prune.threshold = nan must be")
    assert files(run) == before
    folder = Path(shutil.copytree(searched, tmp_path / "searched"))
    before = files(folder)
    for change, error in {
        "search.epochs=9": "'search' cannot change any more",
        "space.channels=9": "'space' cannot change any more",
        "trian.epochs=3": "unknown setting 'trian'",
        "train.epochs=-3": "train.epochs = -3 must be",
        "network.chanels=3": "unknown setting 'network.chanels'",
        "network.states=2": "does not belong to this space",
    }.items():
        refused("train", folder, "--set", change, error=error)
    assert files(folder) == before


ARCHITECTURES: list[tuple[Edit, str]] = [
    (put("kept", "reduce/0>2", value=["conv_9x9"]), "reduce/0>2 has no option 'conv_9x9'"),
    (without("kept", "reduce/0>2"), "choice 'reduce/0>2' is not in both"),
    (put("kept", "reduce/0>2", value=[]), "keeps other edges than those with operations"),
    (put("kept", value=3), "not an architecture"),
    (put("settings", "channels", value=7), "not those in config.json"),
    (put("space", value="other"), "not those in config.json"),
    (put("format", value=2), "format 2; this version reads 1"),
    (lambda content: [content], "not an architecture"),
]


@pytest.mark.parametrize(("change", "error"), ARCHITECTURES, ids=[a[1] for a in ARCHITECTURES])
def test_an_architecture_changed_by_hand_is_not_trained(
    tmp_path: Path, searched: Path, change: Edit, error: str
) -> None:
    folder = Path(shutil.copytree(searched, tmp_path / "run"))
    edit(folder / "architecture.json", change)
    before = files(folder)
    refused("train", folder, error=error)
    refused("train", folder, "--epochs", "2", error=error)
    assert files(folder) == before


def test_an_architecture_of_another_run_or_no_json_is_not_trained(
    tmp_path: Path, searched: Path, data: Path
) -> None:
    folder = Path(shutil.copytree(searched, tmp_path / "run"))
    done("search", data, "--run", "other", *TINY, "--set", "space.channels=3")
    shutil.copy("other/architecture.json", folder)
    refused("train", folder, error="not those in config.json")
    (folder / "architecture.json").write_text('{"format": 1,')
    for command in ("train", "show", "report"):
        refused(command, folder, error="architecture.json'")
    edit(Path("other/architecture.json"), put("probabilities", value={"reduce/0>2": "all"}))
    refused("show", "other", error="probabilities of the architecture must be numbers")


CONFIGS: list[tuple[Edit, str]] = [
    (put("search", "batch", value=0), "search.batch = 0 must be greater"),
    (put("search", "bach", value=8), "unknown setting 'search.bach'"),
    (put("search", value=[]), "search = [] must be settings by name"),
    (put("serch", value={}), "unknown setting 'serch'"),
    (put("seed", value="x"), "seed = 'x' must be a whole number"),
    (put("stages", value=["search", "sleep"]), "hold 'sleep'; must be of search, train"),
    (put("stages", value="search"), "hold 'search'; must be of search, train"),
    (put("stages", value=[]), "hold none; must be of search, train"),
    (put("space", "channels", value=2**63), "cannot read"),
    (put("space", "image", value=[3, 8, 10**9]), "space.image.2 = 1000000000 must be"),
    (put("format", value=7), "has format 7; this version reads 1"),
    (put("method", "name", value="vinas"), "unknown method 'vinas'"),
    (put("method", "kl_gates", value=-1), "method.kl_gates = -1 must be greater"),
    (put("space", "channels", value="two"), "space.channels = 'two' must be a whole number"),
    (put("space", "classes", value=5), "is 2; this run was made for 5"),
    (put("space", "image", value=[1, 8, 8]), "is (3, 8, 8); this run was made for (1, 8, 8)"),
    (put("network", value={"states": 4}), "change the choice"),
    (put("data", "source", value="gone"), "no such file or folder: 'gone'"),
    (lambda content: [content], "must hold a JSON object"),
]


@pytest.mark.parametrize(("change", "error"), CONFIGS, ids=[c[1] for c in CONFIGS])
def test_a_config_changed_by_hand_is_named(begun: Path, change: Edit, error: str) -> None:
    shutil.rmtree(begun / "checkpoint")
    edit(begun / "config.json", change)
    before = files(begun)
    refused("resume", begun, error=error)
    assert files(begun) == before


def test_a_config_that_is_no_json_is_named(begun: Path) -> None:
    (begun / "config.json").write_text("{")
    refused("resume", begun, error="config.json'", hint="JSON")
    (begun / "config.json").unlink()
    (begun / "config.json").mkdir()
    refused("resume", begun, error="config.json': Is a directory")


METRICS: list[tuple[Edit, str]] = [
    (without("stages"), "must hold numbers"),
    (put("stages", value=3), "must hold numbers"),
    (put("stages", "prune", value=3), "must hold numbers"),
    (put("test_accuracy", value="good"), "must hold numbers"),
    (put("test_accuracy", value={"a": 1}), "must hold numbers"),
    (put("test_accuracy", value=True), "must hold numbers"),
    (put("test_accuracy", value=10**400), "a whole number of 1329 bits is too large"),
    (put("stages", "search", "seconds", value=[]), "must hold numbers"),
    (put("format", value=9), "has format 9"),
    (lambda content: [content], "must hold a JSON object"),
]


@pytest.mark.parametrize(("change", "error"), METRICS)
def test_metrics_changed_by_hand_are_named(run: Path, change: Edit, error: str) -> None:
    edit(run / "metrics.json", change)
    before = files(run)
    for command in ("prune", "resume", "compare", "evaluate", "report"):
        refused(command, run, error=error)
    assert files(run) == before


READERS = {
    "config.json": "resume",
    "metrics.json": "compare",
    "architecture.json": "show",
    "curve.json": "report",
    "evaluation.json": "report",
    "log.jsonl": "report",
    "trained/config.json": "prune",
    "trained/model.safetensors": "prune",
}


def test_a_stage_does_not_wait_for_a_pipe_either(run: Path, in_time: None) -> None:
    (run / "metrics.json").unlink()
    os.mkfifo(run / "metrics.json")
    refused("report", run, error="metrics.json': it is no regular file")


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_or_a_device_for_a_file_is_told_and_not_waited_for(
    run: Path, name: str, in_time: None
) -> None:
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    refused(READERS[name], run, error=f"{name}': it is no regular file")
    (run / name).unlink()
    (run / name).symlink_to("/dev/null")
    alone = READERS[name] == "show"  # which reads one file, and no run
    refused(READERS[name], run, error="it is no regular file" if alone else "leads out of")


def test_a_file_too_large_to_be_one_is_not_read(run: Path) -> None:
    with (run / "metrics.json").open("wb") as file:
        file.truncate(2**30)  # of nothing: it takes no disk
    refused("compare", run, error="it has 1,073,741,824 bytes; must be at most 67,108,864")


DEEP = ["[" * 100_000, '{"a":' * 100_000, "[" * 300 + "]" * 300]


@pytest.mark.parametrize("text", DEEP, ids=["lists", "objects", "whole"])
def test_lists_in_lists_in_lists_are_told(run: Path, text: str) -> None:
    (run / "log.jsonl").write_text(f'{text}\n{{"stage": "train", "epoch": {text}}}\n')
    done("report", run)  # a line that is none was cut off
    for name, command in {"curve.json": "report", "architecture.json": "show"}.items():
        (run / name).write_text(text)
        refused(command, run, error=f"cannot read '{run / name}'", hint="JSON")


def test_a_line_of_the_log_that_no_epoch_wrote_is_left_out(run: Path) -> None:
    huge = f'{{"stage": "train", "epoch": 1, "seconds": {"9" * 400}}}'
    other = '{"stage": 3, "epoch": 1}\n{"stage": "train", "epoch": []}\n[]\n'
    (run / "log.jsonl").write_text(f"{huge}\n{other}")
    done("report", run)


def test_images_that_are_no_longer_the_same_are_noticed(tmp_path: Path, whole: Path) -> None:
    photos = pictures(Path("photos"), "cat", "dog")
    done("search", photos, "--run", "run", *TINY)
    done("train", "run")
    (photos / "dog").rename(photos / "fox")
    error = "classes of 'photos' are cat, fox; the network was trained for cat, dog"
    refused("evaluate", "run", error=error)
    pictures(photos, "dog")
    refused("evaluate", "run", error="classes of 'photos' is 3; this run was made for 2")
    shutil.rmtree(photos)
    refused("evaluate", "run", error="no such file or folder: 'photos'")
