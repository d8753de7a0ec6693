"""One ONNX file, which onnxruntime and most other runtimes read; timed on one thread."""

import json
import os
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

# onnxruntime phones home unless told not to before its import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from ardor.models.exporters._base import Exporter, Files, facts, quiet
from ardor.models.model import Model

OPSET = 20
TIMED, WARMUP = 60, 10  # rounds, and those of them that do not count


class Onnx(Exporter):
    """By the torch.export path; "pixels" (batch, channels, height, width) -> "logits".

    Its metadata has the classes, and how a picture becomes pixels.
    """

    file = "model.onnx"
    tolerance = 1e-4  # onnxruntime sums in another order

    def write(self, model: Model) -> Files:
        return {self.file: to_onnx(model)}

    def run(self, files: Files, pixels: Tensor) -> Tensor:
        (logits,) = session_of(files[self.file]).run(["logits"], {"pixels": pixels.numpy()})
        return torch.from_numpy(logits)

    def latencies(self, versions: Sequence[Files], shape: tuple[int, int, int]) -> list[float]:
        """On one thread: medians of many rounds.

        The files take turns, so that whatever else the machine does slows them alike.
        """
        sessions = [session_of(files[self.file], threads=1) for files in versions]
        pixels = {"pixels": np.zeros((1, *shape), np.float32)}
        times: list[list[float]] = [[] for _ in versions]
        for _ in range(TIMED):
            for session, seconds in zip(sessions, times, strict=True):
                begin = time.perf_counter()
                session.run(["logits"], pixels)
                seconds.append(time.perf_counter() - begin)
        return [round(1000 * median(seconds[WARMUP:]), 4) for seconds in times]


def to_onnx(model: Model) -> bytes:
    """The network as ONNX, for any number of images at once."""
    proto = exported(model.cpu(), model.shape)
    onnx.helper.set_model_props(proto, {name: as_text(fact) for name, fact in facts(model).items()})
    onnx.checker.check_model(proto, full_check=True)
    return bytes(proto.SerializeToString())


def exported(module: nn.Module, shape: tuple[int, int, int]) -> "onnx.ModelProto":
    """Any module of images as an ONNX graph from "pixels" to "logits", without local paths."""
    with quiet():
        program = torch.onnx.export(
            module.eval(),
            (torch.zeros(2, *shape),),
            dynamo=True,
            opset_version=OPSET,
            input_names=["pixels"],
            output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
        )
    assert program is not None
    proto = program.model_proto  # made anew at every look
    strip_(proto)
    return proto


def as_text(fact: Any) -> str:
    """A fact for the file's metadata: text as it is, all else as JSON."""
    return fact if isinstance(fact, str) else json.dumps(fact)


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


def session_of(content: bytes, threads: int = 0) -> Any:
    """An ONNX file in onnxruntime, on as many threads; 0 leaves their number to it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what fails is raised, and need not be printed as well
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
