"""Ground truth: the table of NAS-Bench-201 (Dong and Yang 2020), accuracies of all its cells.

One row for each of the 15,625 cells: what it reaches after full training on CIFAR-10. Searches
choose by the validation columns; a table reports the test column, `TEST`.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ardor.errors import ArdorError, reason
from ardor.runtime.files import read_bytes

CELL = "arch"
VALIDATION = "cifar10_valid_200"  # trained on 25,000 images, looked at on the other 25,000
TEST = "cifar10_test_200"  # trained on all 50,000
SECONDS = "train_seconds_cifar10half_200"  # what one training took on the table's GPU
OPERATION = re.compile(r"(\w+)~\d")  # in the name of a cell
NEEDED = (CELL, VALIDATION, TEST, SECONDS)
LARGEST = 256 * 2**20  # bytes of its text, whatever it was compressed to


@dataclass(frozen=True)
class Truth:
    """The cells of the table, in its order, and its columns."""

    cells: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, path: Path) -> "Truth":
        """The table in a CSV file, compressed or not."""
        try:
            names, *rows = csv.reader(text_of(read_bytes(path)).splitlines())
        except (OSError, EOFError, UnicodeDecodeError, ValueError, csv.Error, zlib.error) as error:
            raise no_table(path, reason(error)) from error
        if missing := [name for name in NEEDED if name not in names]:
            raise no_table(path, f"it has no column '{missing[0]}'")
        if not rows or any(len(row) != len(names) for row in rows):
            raise no_table(path, "it has no rows, or rows of different lengths")
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        return cls(columns[CELL], columns)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """A column of numbers."""
        try:
            return np.array(self.columns[column], dtype=np.float64)
        except (KeyError, ValueError) as error:
            raise ArdorError(
                f"the table has no numbers in '{column}'", f"it needs {', '.join(NEEDED)}"
            ) from error

    @cached_property
    def validation(self) -> NDArray[np.float64]:
        """Validation accuracies, by which a search may choose, in percent."""
        return self.numbers(VALIDATION)

    @cached_property
    def test(self) -> NDArray[np.float64]:
        """Test accuracies, which tables report, in percent."""
        return self.numbers(TEST)

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Cell -> its row."""
        return {cell: row for row, cell in enumerate(self.cells)}

    @cached_property
    def operations(self) -> tuple[tuple[str, ...], ...]:
        """The operations of each cell, edge by edge."""
        return tuple(tuple(OPERATION.findall(cell)) for cell in self.cells)

    @cached_property
    def by_operations(self) -> Mapping[tuple[str, ...], int]:
        """The operations of a cell -> its row."""
        return {operations: row for row, operations in enumerate(self.operations)}

    def row_of(self, cell: str) -> int:
        """The row of a cell."""
        if cell not in self.place:
            raise ArdorError(
                f"the table has no cell '{cell}'", "it must be the whole table of NAS-Bench-201"
            )
        return self.place[cell]

    def rank(self, row: int) -> int:
        """Its place among all cells on the test images: 1 is the best."""
        return 1 + int((self.test > self.test[row]).sum())


def text_of(content: bytes) -> str:
    """The text of a file, compressed or not, with any name."""
    if content.startswith(b"\x1f\x8b"):
        content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST:,} bytes")
    return content.decode()


def no_table(path: Path, why: str) -> ArdorError:
    """The error for a file that is not the table."""
    return ArdorError(
        f"cannot read '{path}' as the table of NAS-Bench-201: {why}",
        f"it must be a CSV file with the columns {', '.join(NEEDED)}, a row for each cell",
    )
