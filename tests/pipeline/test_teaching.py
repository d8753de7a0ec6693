"""Runs with a teacher: asked once, its answers kept and found again, and what is said of it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import stopping_at
from PIL import Image
from standins.teachers import teacher
from standins.user import RNG, SET, done, flip, png

from ardor import run as run_verb
from ardor.data import Dataset, load, with_unlabelled
from ardor.data.check import check
from ardor.errors import ArdorError, Interrupted
from ardor.models.teacher import Teacher
from ardor.pipeline import asking, stages, teaching
from ardor.pipeline.plan import Work, planned
from ardor.pipeline.resolve import resolved
from ardor.pipeline.run import STAGES, Run
from ardor.pipeline.verbs import resume
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.settings.sections import DataConfig, TeacherConfig
from ardor.training.train import split_validation

SMALL = [*(word for name in SET for word in ("--set", f"{name}={SET[name]}")), "--epochs", "2"]


def greys(folder: Path, count: int, *classes: str) -> Path:
    """Dark pictures for the first of the classes, bright ones for the second."""
    for brightness, name in zip((0, 80), classes, strict=False):
        for number in range(count):
            values = RNG.integers(0, 50, (8, 8), dtype=np.uint8) + np.uint8(brightness)
            png(folder / name / f"{number}.png", image=Image.fromarray(values))
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return greys(tmp_path / "photos", 8, "dark", "light")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return teacher(tmp_path / "big.onnx")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many images each call of the model was given."""
    calls: list[int] = []
    outputs = Teacher.outputs

    def counted(self: Teacher, pixels: torch.Tensor, scaling: str) -> torch.Tensor:
        calls.append(len(pixels))
        return outputs(self, pixels, scaling)

    monkeypatch.setattr(Teacher, "outputs", counted)
    return iter([calls]).__next__()


def learned(
    photos: Path, folder: Path, more: str = "", runtime: Runtime | None = None, **settings: object
) -> Dataset:
    config = TeacherConfig(**{"unlabelled": more, **settings})
    images = teaching.with_unlabelled(load(str(photos)), DataConfig(), config)
    return teaching.taught(images, config, str(photos), folder, runtime or Runtime())


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob(".ardor-teacher-*"))


def test_every_image_has_the_teachers_answer_and_it_is_asked_once(
    photos: Path, model: Path, asked: list[int], tmp_path: Path
) -> None:
    more = greys(tmp_path / "more", 5, "x", "y")
    found = learned(photos, tmp_path, str(more), model=str(model))
    for part in (found.train, found.test):
        assert part.taught.answers.argmax(1).equal(part.labels)
    assert found.unlabelled.taught.answers.exp().sum(1).allclose(torch.ones(10))
    assert asked
    asked.clear()
    again = learned(photos, tmp_path / "other", str(more), model=str(model))
    assert asked == []
    for name in ("train", "test", "unlabelled"):
        assert getattr(again, name).taught.answers.equal(getattr(found, name).taught.answers)
    assert len(kept(photos)) == len(kept(more)) == 1
    assert kept(tmp_path) == []


def test_other_images_another_model_or_another_way_to_ask_are_asked_anew(
    photos: Path, model: Path, asked: list[int], tmp_path: Path
) -> None:
    learned(photos, tmp_path, model=str(model))
    for change in ("input", "model", "image"):
        asked.clear()
        if change == "image":
            png(photos / "dark" / "0.png")
        if change == "model":
            teacher(model, shares=True)
        learned(
            photos,
            tmp_path / change,
            model=str(model),
            input="unit" if change == "input" else "auto",
        )
        assert asked, change


@pytest.mark.parametrize("harm", ["flipped", "foreign", "empty"])
def test_kept_answers_that_are_damaged_or_foreign_are_asked_for_again(
    harm: str, photos: Path, model: Path, asked: list[int], tmp_path: Path
) -> None:
    before = learned(photos, tmp_path, model=str(model)).train.taught.answers
    (file,) = kept(photos)
    if harm == "flipped":
        flip(file)
    elif harm == "empty":
        file.write_bytes(b"")
    else:
        other = greys(tmp_path / "other", 8, "dark", "light")
        learned(other, tmp_path, model=str(model))
        shutil.copy(kept(other)[0], file)
    asked.clear()
    assert learned(photos, tmp_path, model=str(model)).train.taught.answers.equal(before)
    assert asked


def test_where_images_cannot_be_written_beside_answers_are_kept_in_the_run(
    photos: Path, model: Path, asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Progress] = []
    save = asking.save

    def no_room(path: Path, *content: object) -> None:
        save(photos / "no" / "0.png" / path.name if path.parent == photos else path, *content)

    (photos / "no").write_text("no folder")
    monkeypatch.setattr(asking, "save", no_room)
    learned(photos, tmp_path, runtime=Runtime(report=told.append), model=str(model))
    assert any("answers are kept in" in one.note for one in told)
    assert len(kept(tmp_path)) == 1
    asked.clear()
    learned(photos, tmp_path, model=str(model))
    assert asked == []


def test_a_teacher_that_has_changed_since_is_not_asked_halfway(
    photos: Path, model: Path, tmp_path: Path
) -> None:
    learned(photos, tmp_path, model=str(model))
    teacher(model, shares=True)
    with pytest.raises(ArdorError, match=r"big.onnx' has changed since the run asked it"):
        learned(photos, tmp_path, model=str(model))
    learned(photos, tmp_path / "new", model=str(model))


def test_what_is_kept_is_no_image_and_no_file_that_is_left_out(
    photos: Path, model: Path, tmp_path: Path
) -> None:
    before = check(load(str(photos)))
    learned(photos, tmp_path, model=str(model))
    after = check(load(str(photos)))
    assert (after.classes, after.left_out) == (before.classes, before.left_out)
    found = with_unlabelled(load("digits"), str(photos))
    assert len(found.unlabelled) == 16


@pytest.mark.parametrize(("scale", "taken"), [(255.0, "unit"), (1.0, "pixels")])
def test_of_several_ways_to_give_pixels_the_one_that_is_right_most_is_taken_and_said(
    scale: float, taken: str, photos: Path, tmp_path: Path
) -> None:
    told: list[Progress] = []
    model = teacher(tmp_path / "t.onnx", scale=scale, shape=("n", 3, 8, 8), shares=True)
    found = learned(photos, tmp_path, runtime=Runtime(report=told.append), model=str(model))
    assert found.train.taught.answers.argmax(1).equal(found.train.labels)
    (line,) = [one.note for one in told if "input" in one.note]
    assert f"input '{taken}', right for 100% of 12 images" in line
    assert "gives probabilities" in line
    assert "in the order dark, light" in line


def test_a_teacher_that_takes_larger_images_sees_the_files_as_large_as_they_are(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes: set[tuple[int, ...]] = set()
    outputs = Teacher.outputs

    def noted(self: Teacher, pixels: torch.Tensor, scaling: str) -> torch.Tensor:
        shapes.add(tuple(pixels.shape[1:]))
        return outputs(self, pixels, scaling)

    large = teacher(model, shape=("n", 3, 16, 16))
    for name in ("photos/dark", "photos/light", "more"):
        for number in range(6):
            values = RNG.integers(0, 50, (20, 20), dtype=np.uint8) + 80 * ("light" in name)
            png(tmp_path / name / f"{number}.png", image=Image.fromarray(values.astype(np.uint8)))
    given = {"model": str(large), "unlabelled": str(tmp_path / "more")}
    data = {"source": str(tmp_path / "photos"), "size": 8}
    made = Run.create(tmp_path / "run", {"data": data, "teacher": given})
    monkeypatch.setattr(Teacher, "outputs", noted)
    found = made.dataset
    assert shapes == {(3, 16, 16)}
    assert found.shape == (1, 8, 8)
    for part in (found.train, found.test):
        assert part.taught.answers.argmax(1).equal(part.labels)
    assert len(found.unlabelled.taught.answers) == 6


def test_time_left_is_told_while_it_looks_and_a_signal_stops_it(
    photos: Path, model: Path, tmp_path: Path
) -> None:
    told: list[Progress] = []
    fixed = teacher(model, shape=(2, 1, 8, 8))
    learned(photos, tmp_path, runtime=Runtime(report=told.append), model=str(fixed))
    done = [one.done for one in told if not one.note]
    assert done == sorted(done)
    assert done[-1] == 1.0
    (file,) = kept(photos)
    file.unlink()
    with pytest.raises(Interrupted, match="stopped when the teacher had seen 4 images"):
        learned(photos, tmp_path, runtime=stopping_at(2), model=str(fixed))
    assert kept(photos) == []


def test_a_teacher_that_was_stopped_goes_on_where_it_was(
    photos: Path, model: Path, asked: list[int], tmp_path: Path
) -> None:
    fixed = str(teacher(model, shape=(2, 1, 8, 8)))
    whole = learned(photos, tmp_path, model=fixed, input="unit")
    kept(photos)[0].unlink()
    with pytest.raises(Interrupted):
        learned(photos, tmp_path, runtime=stopping_at(7), model=fixed, input="unit")
    asked.clear()
    again = learned(photos, tmp_path, model=fixed, input="unit")
    assert asked == [2] * (6 + 1)  # how it takes pixels, on twelve; and two of sixteen were left
    assert again.train.taught.answers.equal(whole.train.taught.answers)
    assert again.test.taught.answers.equal(whole.test.taught.answers)
    assert kept(tmp_path) == []


def test_a_teacher_that_knows_nothing_is_said_to(photos: Path, tmp_path: Path) -> None:
    told: list[Progress] = []
    good = learned(photos, tmp_path, model=str(teacher(tmp_path / "good.onnx")))
    assert teaching.told(good.train, told.append) == {"teacher_training_accuracy": 1.0}
    assert told[-1].note == "right for 100.0% of 12 labelled training images"
    other = [(1.0, -60.0), (-1.0, 60.0)]
    model = teacher(tmp_path / "bad.onnx", rows=other)
    bad = learned(photos, tmp_path, model=str(model), input="unit")
    assert teaching.told(bad.train, told.append) == {"teacher_training_accuracy": 0.0}
    assert told[-1].note.startswith("warning: right for 0.0% of 12")
    assert "no more than chance, 50.0%; is teacher.input wrong, or the order" in told[-1].note
    assert teaching.told(load("digits").train, told.append) == {}


def test_a_whole_run_with_a_teacher_and_more_images(
    photos: Path, model: Path, asked: list[int], tmp_path: Path
) -> None:
    more, folder = greys(tmp_path / "more", 9, "x", "y"), tmp_path / "run"
    given = ["--teacher", model, "--unlabelled", more, "--run", folder]
    plain = ["--set", "prune.fine_tune=1", "--set", "export.formats=[]"]
    said = done("run", photos, *given, *SMALL, *plain)
    assert "teacher: right for 100.0% of 12 labelled training images" in said.err
    assert f"images: unlabelled: 18 of {more}" in said.err
    found = json.loads((folder / "metrics.json").read_text())
    assert found["teacher_accuracy"] == 1.0
    assert 0 <= found["teacher_agreement"] <= 1
    assert found["teacher_agreement"] == found["test_accuracy"]  # as the teacher is always right
    steps = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert {"train", "tune"} == {one["stage"] for one in steps if "teacher" in one["train"]}
    asked.clear()
    model.unlink()
    done("prune", folder, "--threshold", "2", "--set", "prune.fine_tune=1")
    assert asked == []
    assert not [name for name in Run.open(folder).metrics if name == "teacher_agreement"]
    done("evaluate", folder)
    assert Run.open(folder).metrics["teacher_accuracy"] == 1.0
    shutil.rmtree(more)
    done("evaluate", folder)
    assert Run.open(folder).metrics["teacher_accuracy"] == 1.0
    kept(photos)[0].unlink()
    assert "teacher: agreement is not measured: cannot read" in done("evaluate", folder).err
    assert "teacher_accuracy" not in Run.open(folder).metrics


def test_searches_and_held_out_images_know_no_unlabelled_ones(
    photos: Path, model: Path, tmp_path: Path
) -> None:
    more = greys(tmp_path / "more", 9, "x", "y")
    given = {"teacher": {"model": str(model), "unlabelled": str(more)}}
    data = {"data": {"source": str(photos)}, "train": {"validation": 0.2}}
    made = Run.create(tmp_path / "run", data, given)
    assert made.images.train.taught is None
    assert made.images.train.labels.min() >= 0
    learn, watch = split_validation(
        made.dataset.train, made.config.train, 0, made.dataset.unlabelled
    )
    assert len(learn) == 10 + 18
    assert watch.labels.min() >= 0
    assert len(made.dataset.test) == 4


def test_a_run_from_python_goes_on_where_it_was_stopped(
    photos: Path, model: Path, asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    greys(tmp_path / "more", 9, "x", "y")
    monkeypatch.chdir(tmp_path)
    space = {"name": "cells", **{name.removeprefix("space."): SET[name] for name in SET}}
    settings = {"space": space, "search": {"epochs": 1}, "train": {"epochs": 2, "batch": 4}}
    given = {"teacher": {"model": "big.onnx", "unlabelled": "more"}, "data": {"source": "photos"}}
    resume(Run.create("whole", settings, given, stages=("search", "train")))

    def stop(progress: Progress) -> None:
        if progress.stage == "train" and progress.epoch == 2:
            raise KeyboardInterrupt

    names = {"teacher": "big.onnx", "unlabelled": Path("more")}
    with pytest.raises(KeyboardInterrupt):
        run_verb("photos", settings, **names, folder="cut", on_progress=stop)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    model.unlink()
    asked.clear()
    stages.do(Run.open(tmp_path / "cut"), "train")
    assert asked == []
    files = [tmp_path / name / "trained" / "model.safetensors" for name in ("whole", "cut")]
    assert files[0].read_bytes() == files[1].read_bytes()
    for path in (tmp_path / "photos").glob(".ardor*"):
        path.unlink()
    with pytest.raises(ArdorError, match="cannot read the teacher '.*big.onnx'") as caught:
        _ = Run.open(tmp_path / "cut").dataset
    assert caught.value.hint


def test_plans_count_unlabelled_images_as_passes(photos: Path, model: Path, tmp_path: Path) -> None:
    more = greys(tmp_path / "more", 40, "x", "y")
    given = ["--teacher", model, "--unlabelled", more, "--set", "train.batch=4"]
    said = json.loads(done("run", photos, "--dry-run", "--json", *given, *SMALL).out)
    assert said["train"]["steps"] == (10 + 80) // 4
    assert said["search"]["steps"] == 1  # with none of them
    assert kept(photos) == kept(more) == []
    config, images = resolved(
        ({"data": {"source": str(photos)}, "teacher": {"model": str(model)}},)
    )
    more_images = teaching.with_unlabelled(images, config.data, TeacherConfig(**{
        "model": str(model), "unlabelled": str(more)
    }))  # fmt: skip
    few, many = (Work(config, found, STAGES, None, 1e-3) for found in (images, more_images))
    assert few.passes(92.0) / many.passes(92.0) == pytest.approx(92 / 12)


def test_a_teacher_that_needs_long_has_time_of_its_own_where_none_was_given(
    photos: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = ({"time": "auto", "data": {"source": str(photos)}, "teacher": {"model": str(model)}},)
    limits = []
    for long in (0.0, 40.0):
        monkeypatch.setattr(teaching, "seconds", lambda *_, long=long: long)
        plan = planned(layers, *resolved(layers), STAGES)
        limits.append(plan.config.limit)
        assert ("the teacher looks at the images for 40 s of the training" in plan.said) == (
            long > 0
        )
    assert limits == [60.0, 100.0]


def test_the_time_of_a_teacher_is_that_of_all_images(
    photos: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teaching, "timed", lambda work: 2.0)
    images, config = load(str(photos)), TeacherConfig(model=str(model))
    assert teaching.seconds(config, images) == pytest.approx(2.0 * 16 / 12)
    assert teaching.seconds(TeacherConfig(), images) == 0.0
