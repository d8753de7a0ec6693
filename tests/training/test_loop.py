"""The log of a stage: a line for each epoch, also after a resume, and events beside it."""

import json
from pathlib import Path

import pytest
import torch
from conftest import Clock
from torch import nn

from ardor.errors import ArdorError
from ardor.runtime.device import Runtime
from ardor.runtime.progress import Progress
from ardor.training.loop import ResumableLoop
from ardor.training.timetable import Timetable


def make(run: Path, epochs: int = 3, **runtime: object) -> ResumableLoop:
    net = nn.Linear(2, 2)
    return ResumableLoop(
        "train",
        run,
        Runtime(**runtime),
        modules={"net": net},
        optimisers={"weights": torch.optim.Adam(net.parameters())},
        timetable=Timetable(epochs, 2),
    )


def work(stage: ResumableLoop, until: int = 99) -> None:
    for epoch in stage.epochs_left():
        if epoch == until:
            return
        for step in stage.steps_left():
            stage.add("train", {"nll": float(epoch + step)})
        stage.finish_epoch(certainty=0.5)


def lines(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_a_line_holds_the_means_of_its_epoch(tmp_path: Path) -> None:
    work(make(tmp_path))
    assert [line["train"] for line in lines(tmp_path)] == [{"nll": 0.5}, {"nll": 1.5}, {"nll": 2.5}]


def test_resuming_drops_lines_that_will_come_again(tmp_path: Path) -> None:
    work(make(tmp_path), until=2)
    log = tmp_path / "log.jsonl"
    later = {"stage": "train", "epoch": 3, "note": "logged, then killed before the checkpoint"}
    other = {"stage": "search", "epoch": 9}
    log.write_text(log.read_text() + json.dumps(later) + "\n" + json.dumps(other) + '\n{"sta')
    work(make(tmp_path))
    found = [(line["stage"], line["epoch"]) for line in lines(tmp_path)]
    assert found == [("train", 1), ("train", 2), ("search", 9), ("train", 3)]
    assert "note" not in lines(tmp_path)[-1]


def test_two_checkpoints_are_kept(tmp_path: Path) -> None:
    work(make(tmp_path, epochs=5))
    kept = sorted(p.name for p in (tmp_path / "checkpoint").iterdir())
    assert kept == ["train-00004-000000.safetensors", "train-00005-000000.safetensors"]


def test_a_checkpoint_of_another_net_is_refused(tmp_path: Path) -> None:
    work(make(tmp_path, epochs=1))
    net = nn.Linear(3, 3)
    with pytest.raises(ArdorError, match="does not fit"):
        ResumableLoop(
            "train",
            tmp_path,
            Runtime(),
            modules={"net": net},
            optimisers={},
            timetable=Timetable(1, 2),
        )


def test_progress_tells_the_time_left(tmp_path: Path) -> None:
    told: list[Progress] = []
    clock = Clock()
    stage = make(tmp_path, report=told.append, clock=clock)
    for _ in stage.epochs_left():
        for step in stage.steps_left():
            clock.now += 2.0
            stage.add("train", {"nll": float(step)})
        clock.now += 1.0  # as long as a validation takes
        stage.finish_epoch()
    assert [round(p.done, 3) for p in told] == [0.167, 0.333, 0.5, 0.667, 0.833, 1.0]
    assert [p.seconds_left for p in told] == pytest.approx([10, 8, 8, 6, 3, 1])
    assert told[0].terms == {"nll": 0.0}


def test_progress_tells_the_accuracy_on_held_out_images_also_after_a_resume(tmp_path: Path) -> None:
    told: list[float | None] = []
    for until in (1, 2):
        stage = make(tmp_path, report=lambda progress: told.append(progress.held_out_accuracy))
        for epoch in stage.epochs_left():
            if epoch == until:
                break
            for _ in stage.steps_left():
                pass
            stage.finish_epoch(held_out={"accuracy": 0.5 + epoch / 4})
    assert told == [None, None, 0.5, 0.5]


def test_events_hold_the_scalars_of_the_log(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    work(make(tmp_path), until=2)
    work(make(tmp_path))
    events = accumulator.EventAccumulator(str(tmp_path / "events" / "train"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/nll")] == [
        (1, 0.5),
        (2, 1.5),
        (3, 2.5),
    ]
    assert [e.value for e in events.Scalars("certainty")] == [0.5, 0.5, 0.5]
