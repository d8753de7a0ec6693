"""How a source is found and read as asked; what `check` says of it; the real ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from standins.arrays import labels, pixels, refused

from ardor.data import Normalise, describe, load, names
from ardor.data.check import check
from ardor.errors import ArdorError


def test_every_reader_is_listed_with_a_line() -> None:
    assert names() == ["cifar", "digits", "folder", "idx", "npz"]
    assert list(describe()) == names()
    assert all(line.endswith(".") and "\n" not in line for line in describe().values())


def test_a_source_that_is_not_there_is_answered_with_the_way_out(tmp_path: Path) -> None:
    assert "did you mean 'digits'?" in refused("digit", "no such file or folder: 'digit'").hint
    assert "digits" in refused(tmp_path / "absent", "no such file or folder").hint
    assert "path" in refused("cifar", "'cifar' is a kind of data, not a place").hint
    refused("", "no such file or folder: ''")
    refused("~nobody-of-that-name/x", "no such file or folder")


def test_a_source_that_no_reader_knows_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "images.zip"
    file.write_bytes(b"PK")
    refused(file, "cannot tell what .*images.zip holds")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no images found in .*empty")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"size": 5}, "size is 5; must be 0 or at least 8"),
        ({"size": -1}, "size is -1"),
        ({"channels": 2}, "channels is 2; must be 0, 1 or 3"),
        ({"test": -0.1}, "test is -0.1; must lie between 0 and 1"),
        ({"test": 1.5}, "test is 1.5"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], match: str) -> None:
    refused("digits", match, **settings)


def test_size_and_colour_of_arrays_can_be_asked_for() -> None:
    plain, large = load("digits"), load("digits", size=16, channels=3)
    assert large.shape == (3, 16, 16)
    assert large.notes[:2] == ("resized to 16x16", "grey images repeated in RGB")
    assert large.train.pixels[:, 0].equal(large.train.pixels[:, 2])
    means = [data.train.pixels.float().mean() for data in (plain, large)]
    assert abs(means[0] - means[1]) < 3


def test_colour_becomes_grey_as_pillow_does_it(tmp_path: Path) -> None:
    from PIL import Image

    x = pixels(20, 9, 9, 3)
    np.savez(tmp_path / "a.npz", x=x, y=labels(20, 2), x_test=x[:2], y_test=labels(2))
    grey = load(str(tmp_path / "a.npz"), channels=1)
    twin = np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in x])
    assert grey.notes == ("turned grey",)
    assert np.array_equal(grey.train.pixels[:, 0].numpy(), twin)


def test_images_that_are_not_square_are_covered_and_cropped(tmp_path: Path) -> None:
    x = np.zeros((8, 10, 40), np.uint8)
    x[:, :, 15:25] = 200
    np.savez(tmp_path / "wide.npz", x=x, y=labels(8, 2))
    data = load(str(tmp_path / "wide.npz"), size=10)
    assert data.shape == (1, 10, 10)
    assert (data.train.pixels == 200).all()


def test_check_counts_classes_and_finds_nothing_wrong_with_good_data() -> None:
    summary = check(load("digits"))
    assert summary.name == "digits"
    assert summary.shape == (1, 8, 8)
    assert list(summary.classes) == list("0123456789")
    assert sum(train + test for train, test in summary.classes.values()) == 1797
    assert summary.problems == []


def test_check_warns_in_plain_words(tmp_path: Path) -> None:
    x, y = pixels(120, 9, 9), np.array([0] * 110 + [1] * 6 + [2] * 4)
    x[:3] = 7
    np.savez(tmp_path / "a.npz", x=x, y=y, x_test=x[[5, 6, 119]], y_test=[0, 0, 1])
    assert check(load(str(tmp_path / "a.npz"))).problems == [
        "strong imbalance: class '0' has 110 training images, class '2' has 4",
        "fewer than 10 images in classes '1', '2'",
        "no test images in class '2'",
        "3 of 3 test images are also in training",
        "3 images are of one single colour value",
    ]


def test_check_raises_as_load_does() -> None:
    with pytest.raises(ArdorError, match="no such file or folder"):
        check(load("/nowhere"))


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "mean", "std", "ones"),
    [("mnist", 0.1307, 0.3081, 6742), ("fashion-mnist", 0.2860, 0.3530, 6000)],
)
def test_mnist_and_fashion_are_whole(
    name: str, mean: float, std: float, ones: int, real_data: Path
) -> None:
    data = load(str(real_data / name))
    assert (len(data.train), len(data.test)) == (60000, 10000)
    assert data.shape == (1, 28, 28)
    assert int(data.train.labels.bincount()[1]) == ones
    layer = Normalise.of(data.train)
    assert layer.mean.item() / 255 == pytest.approx(mean, abs=5e-5)
    assert layer.std.item() / 255 == pytest.approx(std, abs=5e-5)


@pytest.mark.data
def test_cifar10_has_its_published_mean_and_deviation(real_data: Path) -> None:
    data = load(str(real_data / "cifar10"))
    assert (len(data.train), len(data.test)) == (50000, 10000)
    assert data.train.labels.bincount().tolist() == [5000] * 10
    layer = Normalise.of(data.train)
    expected = torch.tensor([[0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]])
    measured = torch.stack([layer.mean.flatten(), layer.std.flatten()]) / 255
    torch.testing.assert_close(measured, expected, atol=5e-5, rtol=0)
