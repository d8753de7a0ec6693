"""ONNX by the torch.export path, and proof that it computes the same."""

import contextlib
import io
import logging
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

# onnxruntime phones home unless told not to before its import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor

from ardor.errors import ArdorError
from ardor.layers.operations import Noise
from ardor.models.model import Model
from ardor.runtime.files import write

OPSET = 20
TOLERANCE = 1e-4  # of the largest logit, or of 1 where all are smaller: float32 rounds so
TIMED, WARMUP = 60, 10  # rounds, and those of them that do not count


def export(model: Model, path: Path, images: Tensor) -> float:
    """Writes the ONNX file; the largest difference of logits that onnxruntime found."""
    if any(isinstance(module, Noise) for module in model.modules()):
        raise ArdorError(
            "the network draws noise, which no ONNX file can repeat",
            "go on without: ardor evaluate RUN, then ardor report RUN",
        )
    content = to_onnx(model)
    difference, largest = largest_difference(model, content, images)
    allowed = TOLERANCE * max(1.0, largest)
    if not difference < allowed:
        raise ArdorError(
            f"the ONNX network differs from the trained one by {difference:.2g}; "
            f"it must be less than {allowed:.2g}",
            "nothing was written; please report the architecture.json of this run",
        )
    write(path, content)
    return difference


def to_onnx(model: Model) -> bytes:
    """The network as ONNX: "pixels" (batch, channels, height, width) in 0..255 -> "logits"."""
    model = model.cpu().eval()
    example = torch.zeros(2, *model.shape)
    with quiet():
        program = torch.onnx.export(
            model,
            (example,),
            dynamo=True,
            opset_version=OPSET,
            input_names=["pixels"],
            output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
        )
    assert program is not None
    proto = program.model_proto
    strip_(proto)
    onnx.checker.check_model(proto, full_check=True)
    return bytes(proto.SerializeToString())


def strip_(proto: "onnx.ModelProto") -> None:
    """Removes the exporter's notes: they hold the local paths of source files."""
    graphs = [proto.graph, *proto.functions]
    for graph in graphs:
        for node in graph.node:
            del node.metadata_props[:]
            node.doc_string = ""
        del graph.metadata_props[:]
        for value in [*graph.value_info, *getattr(graph, "initializer", [])]:
            del value.metadata_props[:]
    for value in [*proto.graph.input, *proto.graph.output]:
        del value.metadata_props[:]
    del proto.metadata_props[:]


def largest_difference(model: Model, content: bytes, images: Tensor) -> tuple[float, float]:
    """The largest difference of logits between torch and onnxruntime, and the largest logit."""
    pixels = images.float().cpu()
    (theirs,) = session_of(content).run(["logits"], {"pixels": pixels.numpy()})
    with torch.no_grad():
        ours = model(pixels)
    return float((ours - torch.from_numpy(theirs)).abs().max()), float(ours.abs().max())


def session_of(content: bytes, threads: int = 0) -> Any:
    """An ONNX file in onnxruntime, on as many threads; 0 leaves their number to it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def latencies(files: Sequence[bytes], shape: tuple[int, int, int]) -> list[float]:
    """Milliseconds in which each ONNX file sees one image, on one thread: medians of many rounds.

    The files take turns, so that whatever else the machine does slows them alike.
    """
    sessions = [session_of(content, threads=1) for content in files]
    pixels = {"pixels": np.zeros((1, *shape), np.float32)}
    times: list[list[float]] = [[] for _ in files]
    for _ in range(TIMED):
        for session, seconds in zip(sessions, times, strict=True):
            begin = time.perf_counter()
            session.run(["logits"], pixels)
            seconds.append(time.perf_counter() - begin)
    return [round(1000 * median(seconds[WARMUP:]), 4) for seconds in times]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the exporter's chatter off the terminal."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
