"""The log as TensorBoard events, where TensorBoard is installed."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class Events:
    """The scalars of a stage from an epoch on; later ones of an earlier process are replaced."""

    def __init__(self, folder: Path, epoch: int) -> None:
        self.folder, self.epoch = folder, epoch

    def add(self, line: Mapping[str, Any]) -> None:
        """One log line, if there is a TensorBoard to read it."""
        if find_spec("tensorboard") is None:
            return
        for name, value in scalars(line):
            self._writer.add_scalar(name, value, line["epoch"])
        self._writer.flush()

    @cached_property
    def _writer(self) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(self.folder, purge_step=self.epoch + 1)


def scalars(line: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a log line, under the path to it; without those of single options."""
    for name, value in line.items():
        if isinstance(value, Mapping) and name not in ("probabilities", "strengths"):
            yield from scalars(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)) and name not in ("epoch", "epochs"):
            yield f"{prefix}{name}", float(value)
