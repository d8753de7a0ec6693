"""Images without labels: read as the labelled ones, and none of these among them."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from standins.arrays import labels, pixels
from standins.user import RNG, pictures, png

from ardor.data import UNLABELLED, Dataset, Images, load, with_unlabelled
from ardor.errors import ArdorError


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    return load(str(pictures(tmp_path / "data", "a", "b")))


def test_a_folder_is_read_whole_whatever_folders_are_in_it(data: Dataset, tmp_path: Path) -> None:
    more = pictures(tmp_path / "more", ".", "x/y", ".hidden", count=3)
    png(more / "large.png", 40, 20)
    found = with_unlabelled(data, str(more))
    assert found.unlabelled is not None
    assert found.unlabelled.pixels.shape == (7, 3, 8, 8)
    assert found.unlabelled.labels.tolist() == [UNLABELLED] * 7
    assert f"unlabelled: 7 of {more}" in found.notes
    assert found.train is data.train
    assert with_unlabelled(found, "elsewhere") is found
    assert with_unlabelled(data, "") is data


def test_an_array_is_brought_to_the_size_and_colours(data: Dataset, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=pixels(5, 16, 16))
    found = with_unlabelled(data, str(tmp_path / "x.npz")).unlabelled
    assert found is not None
    assert found.pixels.shape == (5, 3, 8, 8)


def test_images_that_have_a_label_are_left_out_for_they_may_be_test_images(
    data: Dataset, tmp_path: Path
) -> None:
    more = Path(shutil.copytree(tmp_path / "data", tmp_path / "more"))
    with pytest.raises(ArdorError, match="every image in .* is among the labelled ones"):
        with_unlabelled(data, str(more))
    png(more / "new.png")
    found = with_unlabelled(data, str(more))
    assert found.unlabelled is not None
    assert len(found.unlabelled) == 1
    assert "12 left out, which are among the labelled ones" in found.notes[-1]


def test_what_is_no_place_of_images_is_refused(data: Dataset, tmp_path: Path) -> None:
    def refused(place: Path, match: str, **settings: int) -> None:
        with pytest.raises(ArdorError, match=match) as caught:
            with_unlabelled(data, str(place), **settings)
        assert "\n" not in str(caught.value)
        assert caught.value.hint

    refused(tmp_path / "nowhere", "does not exist")
    (tmp_path / "text.txt").write_text("no image")
    refused(tmp_path / "text.txt", "is neither a folder nor an .npz file")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no images found in")
    np.savez(tmp_path / "y.npz", y=labels(3))
    refused(tmp_path / "y.npz", "holds no array 'x'")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "1.png").write_bytes(b"no image")
    refused(tmp_path / "broken", "cannot read image")
    png(tmp_path / "broken" / "2.png")
    found = with_unlabelled(data, str(tmp_path / "broken"), skip_broken=True)
    assert found.unlabelled is not None
    assert len(found.unlabelled) == 1
    many = pictures(tmp_path / "many", "x", count=9)
    refused(many, "of memory; .* are allowed", memory=3000)


def test_images_that_are_not_square_must_be_as_the_labelled_ones(tmp_path: Path) -> None:
    part = Images(torch.zeros(4, 1, 8, 6, dtype=torch.uint8), torch.arange(4) % 2)
    data = Dataset("wide", part, part, ("a", "b"), ())
    np.savez(tmp_path / "x.npz", x=RNG.integers(1, 256, (5, 8, 6), dtype=np.uint8))
    np.savez(tmp_path / "z.npz", x=RNG.integers(1, 256, (5, 6, 8), dtype=np.uint8))
    assert with_unlabelled(data, str(tmp_path / "x.npz")).unlabelled is not None
    with pytest.raises(ArdorError, match=r"are \(1, 6, 8\); must be \(1, 8, 6\)"):
        with_unlabelled(data, str(tmp_path / "z.npz"))
