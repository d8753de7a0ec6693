"""The true accuracies of the cells that searches choose, from the table of NAS-Bench-201."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from ardor.bench.measures import Record, Searches, TableRun, over_seeds, watched
from ardor.bench.nasbench201 import queries
from ardor.bench.nasbench201.truth import Truth
from ardor.spaces.nasbench201 import cell_string


class Truths(Searches):
    """The table's accuracies of the cells that searches end with, and had in every epoch."""

    name: ClassVar[str] = "truth"

    def __init__(self, truth: Truth) -> None:
        self.truth = truth

    @cached_property
    def queries(self) -> list[dict[str, Any]]:
        """The accuracies reached by choosing with the table itself."""
        return queries.table(self.truth)

    def of(self, cell: TableRun) -> dict[str, Any]:
        """The chosen cell and its accuracies, at the end and after each epoch."""
        row = self.truth.row_of(cell_string(cell.run.architecture.options))
        return {
            **super().of(cell),
            "cell": self.truth.cells[row],
            **self.worth(row),
            "epochs": [
                {"epoch": epoch, **self.worth(self.truth.row_of(cell_string(seen["kept"])))}
                for epoch, seen in watched(cell.run)
            ],
        }

    def worth(self, row: int) -> dict[str, Any]:
        """Accuracies in percent, and the rank among all cells by that on the test images."""
        return {
            "test_accuracy": float(self.truth.test[row]),
            "validation_accuracy": float(self.truth.validation[row]),
            "rank": self.truth.rank(row),
        }

    def row(self, name: str, runs: Sequence[Record]) -> dict[str, Any]:
        """Mean, standard deviation, best and worst over the seeds."""
        tested = [run["test_accuracy"] for run in runs]
        return {
            **super().row(name, runs),
            **over_seeds("test_accuracy", tested),
            "test_accuracy_best": max(tested),
            "test_accuracy_worst": min(tested),
            **over_seeds("validation_accuracy", [run["validation_accuracy"] for run in runs]),
            "ranks": sorted(run["rank"] for run in runs),
        }

    def extra(self) -> dict[str, Any]:
        """Accuracies reached by choosing with the table's validation ones, and the best cell."""
        best = int(self.truth.test.argmax())
        return {
            "queries": self.queries,
            "seconds_a_query": queries.seconds_a_query(self.truth),
            "optimum": {"cell": self.truth.cells[best], **self.worth(best)},
            "cells": len(self.truth.cells),
        }
