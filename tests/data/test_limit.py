"""What images may take of the memory: told before it is taken."""

import gzip
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from data.test_folder import fill
from data.test_idx import idx, write_idx
from PIL import Image
from standins.arrays import labels, pixels, refused

from ardor.data import load
from ardor.errors import ArdorError

MB = 2**20


@contextmanager
def little() -> Iterator[None]:
    """Nothing in there may hold as much as 100 MB at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 100 * MB
    finally:
        tracemalloc.stop()


def bomb(path: Path) -> None:
    """A gigabyte of zeros in a megabyte, after a header that says so."""
    head = idx(np.zeros((0, 1024, 1024), np.uint8)).replace(bytes(4), (1024).to_bytes(4, "big"), 1)
    path.write_bytes(gzip.compress(head) + gzip.compress(bytes(16 * MB)) * 64)


def test_a_small_file_does_not_unpack_to_a_gigabyte(tmp_path: Path) -> None:
    write_idx(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").unlink()
    bomb(tmp_path / "train-images-idx3-ubyte.gz")
    with little():
        error = refused(tmp_path, "ubyte.gz, a file of 1 MB, needs 1.0 GB of memory; 6.. MB are")
        assert "--set data.memory=1GB" in error.hint
        refused(tmp_path, "needs 1.0 GB of memory; 500 MB are allowed", memory=500 * MB)


def test_a_file_is_read_no_further_than_it_says(tmp_path: Path) -> None:
    write_idx(tmp_path)
    file = tmp_path / "train-images-idx3-ubyte"
    packed = gzip.compress(file.read_bytes()) + gzip.compress(bytes(16 * MB)) * 20
    file.unlink()
    Path(f"{file}.gz").write_bytes(packed)
    with little():
        refused(tmp_path, "train-images-idx3-ubyte.gz is too long")


def test_a_large_picture_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b")
    Image.new("1", (9000, 9000)).save(tmp_path / "a" / "large.png")
    error = refused(tmp_path, "a/large.png, a file of 0 MB, needs 1.2 GB of memory; 51. MB are")
    assert "scale it down" in error.hint
    assert "--set data.memory=2GB" in error.hint
    notes = load(str(tmp_path), skip_broken=True).notes
    assert "skipped 1 broken: a/large.png" in notes


def test_all_images_together_have_a_limit(tmp_path: Path) -> None:
    fill(tmp_path / "photos", "a", "b")
    assert load(str(tmp_path / "photos"), size=64, memory=2 * MB).shape == (3, 64, 64)
    error = refused(
        tmp_path / "photos", "photos needs 60 MB of memory; 2 MB are", size=1024, memory=2 * MB
    )
    assert "data.size" in error.hint
    np.savez(tmp_path / "a.npz", x=pixels(40, 9, 9), y=labels(40))
    refused(tmp_path / "a.npz", "needs 96 MB of memory; 1 MB are", size=1024, memory=MB)
    np.savez(tmp_path / "wide.npz", x=pixels(8, 1, 60000), y=labels(8, 2))
    refused(tmp_path / "wide.npz", "GB of memory; 500 MB are", size=512, memory=500 * MB)


def test_half_of_what_is_free_may_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "a", "b")
    monkeypatch.setattr("ardor.data.limit.available_memory", lambda: 8.0 * MB)
    refused(tmp_path, "needs 60 MB of memory; 4 MB are allowed", size=1024)


@pytest.mark.parametrize("failure", [MemoryError(), RuntimeError("can't allocate memory: you")])
def test_short_memory_while_images_are_read_is_told(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def read(*_: object) -> None:
        raise failure

    monkeypatch.setattr("ardor.data.readers.digits.read", read)
    with pytest.raises(ArdorError, match="not enough memory to read digits") as caught:
        load("digits")
    assert "data.size" in caught.value.hint
