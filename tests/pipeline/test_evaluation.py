"""What is kept of the answers to the test images: counts by class, and the worst mistakes."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ardor.data import Images
from ardor.pipeline.evaluation import keep
from ardor.reporting.evaluation import Evaluation, read_evaluation

CLASSES = ("cat", "dog", "eel")
LABELS = torch.tensor([0, 0, 1, 1, 2])
LOGITS = torch.tensor([[9, 0, 0], [0, 1, 0], [0, 9, 0], [0, 0, 8], [2, 0, 0]]).float()


def images(*shape: int) -> Images:
    values = np.random.default_rng(0).integers(0, 256, (5, *shape), dtype=np.uint8)
    return Images(torch.from_numpy(values), LABELS)


def kept(run: Path, seen: Images) -> Evaluation:
    keep(run, CLASSES, LOGITS, seen, held_out=False)
    found = read_evaluation(run)
    assert found is not None
    return found


def test_answers_are_counted_by_true_and_predicted_class(tmp_path: Path) -> None:
    found = kept(tmp_path, images(1, 8, 8))
    assert (found.held_out, found.classes) == (False, CLASSES)
    assert found.confusion == {
        "cat": {"cat": 1, "dog": 1}, "dog": {"dog": 1, "eel": 1}, "eel": {"cat": 1}
    }  # fmt: skip


@pytest.mark.parametrize("channels", [1, 3])
def test_the_surest_mistakes_come_first_with_their_pictures(tmp_path: Path, channels: int) -> None:
    seen = images(channels, 8, 8)
    found = kept(tmp_path, seen).mistakes
    assert [(m.true, m.predicted) for m in found] == [
        ("dog", "eel"),
        ("eel", "cat"),
        ("cat", "dog"),
    ]
    shares = LOGITS.double().softmax(1).amax(1)
    assert [m.probability for m in found] == pytest.approx(shares[[3, 4, 1]].tolist())
    for mistake, number in zip(found, (3, 4, 1), strict=True):
        with Image.open(io.BytesIO(base64.b64decode(mistake.png)), formats=["PNG"]) as picture:
            pixels = torch.from_numpy(np.array(picture)).reshape(8, 8, channels)
        assert pixels.equal(seen.pixels[number].permute(1, 2, 0))


def test_at_most_twelve_small_pictures_are_kept(tmp_path: Path) -> None:
    pixels = torch.zeros(20, 3, 200, 100, dtype=torch.uint8)
    logits = torch.tensor([[0.0, 1, 0]]).repeat(20, 1)
    keep(tmp_path, CLASSES, logits, Images(pixels, torch.zeros(20).long()), held_out=True)
    found = read_evaluation(tmp_path)
    assert found is not None
    assert found.held_out
    assert len(found.mistakes) == 12
    with Image.open(io.BytesIO(base64.b64decode(found.mistakes[0].png))) as picture:
        assert picture.size == (48, 96)


def test_without_images_nothing_is_kept(tmp_path: Path) -> None:
    seen = images(1, 8, 8)
    kept(tmp_path, seen)
    none = torch.arange(0)
    keep(tmp_path, CLASSES, LOGITS[none], seen[none], held_out=True)
    assert read_evaluation(tmp_path) is None
