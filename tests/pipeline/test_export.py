"""Exporting a run: in which formats, checked, all of it or nothing, and told in one table."""

import json
import shutil
from pathlib import Path

import pytest
from standins.user import TINY, ardor, done, edit, files, pictures, refused, without

from ardor import discover
from ardor.models.exporters.python_file import PythonFile
from ardor.pipeline.run import Run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every stage done, exported in two formats."""
    place = tmp_path_factory.mktemp("whole")
    both = ["--set", 'export.formats=["onnx", "python_file"]']
    done("run", pictures(place / "data", "a", "b"), "--run", place / "run", *TINY, *both)
    return place / "run"


@pytest.fixture
def run(tmp_path: Path, whole: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def figures(run: Path) -> dict[str, float]:
    metrics = json.loads((run / "metrics.json").read_text())
    return {name: value for name, value in metrics.items() if name != "stages"}


def test_one_table_tells_of_every_format(run: Path) -> None:
    table = json.loads((run / "export" / "exports.json").read_text())["exports"]
    assert list(table) == ["onnx", "python_file"]
    for row in table.values():
        assert row["largest_difference"] < row["tolerance"]
        assert (run / "export" / row["file"]).exists()
        assert 0 < row["bytes"] <= row["trained_bytes"]
    assert table["python_file"]["tolerance"] < table["onnx"]["tolerance"]
    assert table["onnx"]["latency_ms"] > 0
    assert "latency_ms" not in table["python_file"]
    found = figures(run)
    assert found["onnx_bytes"] == table["onnx"]["bytes"]
    assert found["onnx_max_difference"] == table["onnx"]["largest_difference"]
    assert found["latency_ms"] == table["onnx"]["latency_ms"]
    assert found["trained_onnx_bytes"] == table["onnx"]["trained_bytes"]
    assert found["trained_latency_ms"] == table["onnx"]["trained_latency_ms"]
    page = (run / "report.html").read_text()
    assert "What was exported" in page
    assert "network.py" in page


def test_other_formats_replace_the_first_and_their_figures(run: Path) -> None:
    said = json.loads(done("export", run, "--format", "python_file", "--json").out)
    assert list(said["exports"]) == ["python_file"]
    names = {path.name for path in (run / "export").iterdir()}
    assert names == {"exports.json", "network.py", "network.safetensors"}
    left = figures(run)
    assert not [name for name in left if "onnx" in name or "latency" in name]
    assert "test_accuracy" in left
    assert Run.open(run).config.export.formats == ("python_file",)
    assert not Run.open(run).stages_left()
    assert "python_file" in done("export", run).out  # as it was asked for before


def test_an_unknown_format_is_refused_before_anything_is_done(run: Path) -> None:
    before = files(run)
    refused("export", run, "--format", "pyton_file", error="unknown export format 'pyton_file'")
    assert files(run) == before
    data = run.parent / "images"
    asked = ["--set", 'export.formats=["onxx"]']
    pictures(data, "a", "b")
    new = run.parent / "new"
    refused("run", data, "--run", new, *asked, error="'onxx'", hint="did you mean 'onnx'?")
    assert not new.exists()


def test_one_format_that_fails_leaves_all_as_it_was(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(run / "export"), figures(run)
    monkeypatch.setattr(PythonFile, "run", lambda self, files, pixels: pixels.sum() + 1)
    error = "the network as python_file differs"
    refused("export", run, "--format", "onnx", "--format", "python_file", error=error)
    assert (files(run / "export"), figures(run)) == before


def test_an_export_that_was_killed_is_done_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PythonFile, "write", killed)
        assert ardor("export", run, "--format", "python_file").code == 130
    assert Run.open(run).stages_left() == ["export"]
    done("resume", run)
    assert not (run / "export" / "model.onnx").exists()
    assert (run / "export" / "network.py").exists()


def test_an_older_run_has_its_onnx_file_and_no_table(run: Path) -> None:
    (run / "export" / "exports.json").unlink()
    edit(run / "config.json", without("export"))
    assert not Run.open(run).stages_left()
    done("report", run)
    assert "What was exported" not in (run / "report.html").read_text()
    assert "agrees" in (run / "report.html").read_text()
    done("export", run)
    assert list(json.loads((run / "export" / "exports.json").read_text())["exports"]) == ["onnx"]


def test_a_damaged_table_is_no_failure_of_the_report(run: Path) -> None:
    table = run / "export" / "exports.json"
    for content in ({"exports": [1]}, {"exports": {"onnx": 3, "x": {"bytes": "many"}}}, {}):
        table.write_text(json.dumps(content))
        done("report", run)
    table.write_text("[]")
    refused("report", run, error="holds no JSON object")


def test_the_formats_are_listed() -> None:
    said = json.loads(done("list", "exporters", "--json").out)
    assert set(said) == {"onnx", "python_file"}
    assert all(said.values())


def test_a_format_of_ones_own_is_exported_where_it_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discover, "_trusted", set())
    done("export", run, "--format", "standins.noted")
    assert (run / "export" / "note.txt").read_bytes() == b"ask the network"
    assert Run.open(run).typed("resume").endswith("--trust standins.noted")
    monkeypatch.setattr(discover, "_trusted", set())
    hint = "--trust standins.noted"
    refused("export", run, error="the exporter 'standins.noted' is a module", hint=hint)
    done("export", run, "--trust", "standins.noted")
