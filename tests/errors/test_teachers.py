"""Teachers that cannot teach: refused in a line, before a folder is made."""

from pathlib import Path

import pytest
from standins.teachers import teacher
from standins.user import TINY, done, pictures, refused


@pytest.fixture
def rgb(tmp_path: Path) -> Path:
    """A teacher of pictures in colour."""
    return teacher(tmp_path / "big.onnx", shape=("n", 3, 8, 8))


def test_files_that_are_no_teacher_of_these_classes_are_refused(data: Path, rgb: Path) -> None:
    def no(*given: object, error: str, hint: str = "") -> None:
        refused("run", data, "--run", "new", *TINY, *given, error=error, hint=hint)
        assert not Path("new").exists()

    no("--teacher", "nowhere.onnx", error="cannot read the teacher 'nowhere.onnx': No such file")
    no("--teacher", data, error="cannot read the teacher", hint="must be an ONNX file")
    Path("text.onnx").write_text("no model")
    no("--teacher", "text.onnx", error="the teacher 'text.onnx' cannot be used", hint="export it")
    three = teacher(Path("three.onnx"), rows=[(1.0, 0.0)] * 3, shape=("n", 3, 8, 8))
    no("--teacher", three, error="has 3 outputs; must be 2: a, b", hint="--teacher-classes FILE")
    named = teacher(Path("named.onnx"), names=("a", "c"))
    no("--teacher", named, error="does not know class 'b', but a, c", hint="281")
    Path("map.toml").write_text('0 = "a"\n')
    mapped = ["--teacher", three, "--teacher-classes", "map.toml"]
    no(*mapped, error="no output is mapped to class 'b' in 'map.toml'")
    no("--unlabelled", data, error="teacher.unlabelled = ", hint="--teacher FILE")
    no("--teacher-classes", "map.toml", error="teacher.classes = 'map.toml' needs a teacher")
    no("--teacher", rgb, "--unlabelled", "no", error="teacher.unlabelled = 'no' does not exist")
    no("--teacher", rgb, "--unlabelled", data, error="is among the labelled ones")
    no("--teacher", rgb, "--set", "teacher.input=8bit", error="teacher.input = '8bit' must be")
    no("--teacher", rgb, "--set", "teacher.share=1.5", error="teacher.share = 1.5 must be")
    no("--teacher", rgb, "--set", "teacher.temperature=0", error="teacher.temperature = 0 must")
    no("--teacher", rgb, "--set", "data.size=9", "--set", "teacher.inputs=x", error="teacher.inp")


def test_a_dry_run_refuses_it_as_well(data: Path) -> None:
    refused("run", data, "--dry-run", *TINY, "--teacher", "no.onnx", error="cannot read the teach")


def test_a_training_takes_a_teacher_as_long_as_it_has_not_begun(data: Path, rgb: Path) -> None:
    done("search", pictures(Path("own"), "a", "b"), "--run", "run", *TINY)
    said = done("train", "run", "--epochs", "1", "--teacher", rgb)
    assert "labelled training images" in said.err
    refused("train", "run", "--teacher", rgb, error="'run' is trained already")
