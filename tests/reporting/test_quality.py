"""The first part of a report: accuracy, classes, confusion and the worst mistakes."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ardor.errors import ArdorError
from ardor.reporting import report
from ardor.reporting.evaluation import PNG, Evaluation, Mistake, read_evaluation, wilson

EVIL = "<script>alert('x')</script>\"&]]>"
PICTURE = base64.b64encode(PNG + b"and so on").decode()


def evaluation(*classes: str, held_out: bool = False) -> Evaluation:
    """Of each class ten images, of which as many are taken for the next as its number is."""
    names = classes or ("cat", "dog", "eel")
    after = dict(zip(names, (*names[1:], names[0]), strict=True))
    confusion = {
        name: {name: 10 - number % 9, after[name]: number % 9} for number, name in enumerate(names)
    }
    mistakes = [Mistake(names[1], after[names[1]], 0.97, PICTURE)]
    return Evaluation(held_out, names, confusion, mistakes)


def page(run: Path, found: Evaluation) -> str:
    (run / "evaluation.json").write_text(json.dumps(found.to_json()))
    return report(run)


@pytest.mark.parametrize(
    ("right", "images", "interval"),
    [  # Newcombe 1998, table I, method 3
        (81, 263, (0.2553, 0.3662)),
        (15, 148, (0.0624, 0.1605)),
        (0, 20, (0.0, 0.1611)),
        (1, 29, (0.0061, 0.1718)),
    ],
)
def test_wilson_intervals(right: int, images: int, interval: tuple[float, float]) -> None:
    assert wilson(right, images) == pytest.approx(interval, abs=5e-5)
    low, high = wilson(images - right, images)
    assert (1 - high, 1 - low) == pytest.approx(interval, abs=5e-5)


@pytest.mark.parametrize(("right", "images"), [(1, 7), (40, 50), (3, 1000)])
def test_wilson_ends_are_where_a_test_would_just_refuse(right: int, images: int) -> None:
    for end in wilson(right, images):
        deviation = (end * (1 - end) / images) ** 0.5
        assert abs(right / images - end) / deviation == pytest.approx(1.959964, abs=1e-5)


def test_the_report_begins_with_accuracy_classes_confusion_and_mistakes(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"format": 1, "test_accuracy": 0.9}')
    html = page(tmp_path, evaluation())
    low, high = wilson(27, 30)
    said = f"27 of 30. The 95 % interval is {100 * low:.1f} to {100 * high:.1f} %."
    assert f"90.0 % of the test images are told right: {said}" in html
    assert html.index(said) < html.index("Test accuracy") < html.index("Each class")
    assert html.index("eel</span></th><td>8 of 10") < html.index("cat</span></th><td>10 of 10")
    assert 'title="2 of class eel taken for cat">2</td>' in html
    assert f'<img src="data:image/png;base64,{PICTURE}" alt="An image of class dog" />' in html
    assert "taken for eel, 97.0 %" in html
    assert "most often" not in html


def test_held_out_images_are_called_so(tmp_path: Path) -> None:
    html = page(tmp_path, evaluation(held_out=True))
    assert "90.0 % of the held-out images" in html
    assert "no test images" in html


def test_of_many_classes_the_most_confused_pairs_are_told(tmp_path: Path) -> None:
    html = page(tmp_path, evaluation(*(f"class{number}" for number in range(21))))
    assert 'class="matrix"' not in html
    assert html.index('<th scope="row">class8</th><td data-label="Taken for">class9<') < html.index(
        '<th scope="row">class7</th><td data-label="Taken for">class8<'
    )
    assert 'class="matrix"' in page(tmp_path, evaluation(*map(str, range(20))))


def test_a_class_without_images_is_said_to_have_none(tmp_path: Path) -> None:
    found = evaluation()
    html = page(tmp_path, Evaluation(False, (*found.classes, "yak"), found.confusion, []))
    assert "no images" in html
    assert "worst mistakes" not in html


def test_names_of_classes_are_escaped(tmp_path: Path) -> None:
    html = page(tmp_path, evaluation("a", EVIL))
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 6


def test_an_older_run_has_no_such_part(tmp_path: Path) -> None:
    assert read_evaluation(tmp_path) is None
    assert "How good it is" not in report(tmp_path)


def forgeries() -> Iterator[tuple[str, Any, str]]:
    yield "format", 2, "format"
    yield "classes", {"a": 1}, "list of names"
    yield "classes", [], "name each class once"
    yield "classes", ["cat", "cat", "dog", "eel"], "name each class once"
    yield "images", "all", "must be 'test' or 'held out'"
    yield "confusion", [[1, 2]], "must count images"
    yield "confusion", {}, "has counted no image"
    yield "confusion", {"cat": {"cat": 0}}, "has counted no image"
    yield "confusion", {"cat": {"yak": 1}}, "'yak', which is no class"
    for count in (-1, 1.5, True, "9", None):
        yield "confusion", {"cat": {"cat": count}}, "must be a whole number"
    good = vars(evaluation().mistakes[0])
    yield "mistakes", {"a": good}, "list of at most 12"
    yield "mistakes", [good] * 13, "list of at most 12"
    yield "mistakes", [7], "must be of its own"
    yield "mistakes", [{**good, "true": ["cat"]}], "must be of its own"
    yield "mistakes", [{**good, "probability": 1.1}], "must be 0 to 1"
    for picture in (
        7,
        "&&&",
        "é",
        '" onerror=""',
        base64.b64encode(b"<svg>").decode(),
        "A" * 10**6,
    ):
        yield "mistakes", [{**good, "png": picture}], "no PNG in base64|base64|padding"


@pytest.mark.parametrize(("key", "value", "said"), list(forgeries()))
def test_a_forged_file_is_one_line(tmp_path: Path, key: str, value: Any, said: str) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps({**evaluation().to_json(), key: value}))
    with pytest.raises(ArdorError, match=said) as error:
        report(tmp_path)
    assert "evaluation.json" in str(error.value)
    assert "\n" not in str(error.value)
