"""A teacher: any ONNX classifier of images, opened without running code of its own, and asked."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor

from ardor.data.pixels import recoloured, resized
from ardor.errors import ArdorError, reason
from ardor.models.exporters.onnx import session_of
from ardor.runtime.files import read_bytes

LARGEST = 2**31  # bytes of a file: a protobuf has no more
BATCH, PIXELS = 64, 2**20  # images at a time, or fewer that have so many pixels together
# What is taken off pixels in 0..1, and what they are divided by. The last is of ImageNet's images.
SCALINGS: dict[str, tuple[Any, Any]] = {
    "pixels": (0.0, 1 / 255),
    "unit": (0.0, 1.0),
    "centred": (0.5, 0.5),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
KINDS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
# Operators that come with onnxruntime; any others are code of somebody's.
BUILT_IN = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
EXPORT = "an image classifier has one input of images: export it so"


@dataclass(frozen=True)
class Input:
    """The images that a model takes; 0 is any number."""

    name: str
    kind: Any  # of its numbers, as numpy has it
    batch: int
    channels: int
    height: int
    width: int
    last: bool  # channels come last


class Teacher:
    """An opened model: pixels to what it says of them, a row of outputs for each image."""

    def __init__(self, path: Path) -> None:
        try:
            content = read_bytes(path, LARGEST)
        except OSError as error:
            raise ArdorError(
                f"cannot read the teacher '{path}': {reason(error)}",
                "it must be an ONNX file, such as export/model.onnx of a run, and stay where it is",
            ) from error
        self.path, self.digest = path, hashlib.sha256(content).hexdigest()
        check(path, content)
        try:
            self.session = session_of(content)
        except Exception as error:  # of a kind of its own for whatever is wrong
            raise broken(path, error) from error
        self.input = input_of(path, self.session)
        facts = self.session.get_modelmeta().custom_metadata_map
        self.exported = "ardor" in facts  # by Ardor, and takes pixels as they are
        self.names = names_in(facts.get("classes", ""))

    def scalings(self, asked: str) -> tuple[str, ...]:
        """How pixels may have to be brought to it: as asked, or where that is "auto" all ways."""
        colours = self.input.channels == 3
        whole = self.input.kind is np.uint8
        if asked == "auto":
            if self.exported or whole:
                return ("pixels",)
            return ("imagenet", "unit", "centred", "pixels") if colours else ("unit", "pixels")
        if (asked == "imagenet" and not colours) or (whole and asked != "pixels"):
            raise ArdorError(
                f"teacher.input = '{asked}' does not suit '{self.path}', which takes "
                f"{self.input.channels} channels of {self.input.kind.__name__}",
                "leave out teacher.input, or give 'pixels'",
            )
        return (asked,)

    def parts(self, pixels: Tensor) -> Iterator[Tensor]:
        """The pixels, (images, channels, height, width), in as many as it is asked at a time."""
        side = self.input.height or pixels.shape[2], self.input.width or pixels.shape[3]
        most = max(1, min(BATCH, PIXELS // (side[0] * side[1])))
        yield from torch.split(pixels, self.input.batch or most)

    def outputs(self, pixels: Tensor, scaling: str) -> Tensor:
        """Its outputs for a part of the images, float32 (images, outputs)."""
        given = self.prepared(pixels, scaling)
        lacking = max(0, self.input.batch - len(given))
        if lacking:
            given = np.concatenate([given, np.zeros_like(given[:1]).repeat(lacking, 0)])
        try:
            found = self.session.run(None, {self.input.name: given})
        except Exception as error:
            raise broken(self.path, error) from error
        rows = [each for each in found if getattr(each, "ndim", 0) == 2 and len(each) == len(given)]
        if not rows or rows[0].dtype.kind != "f":
            raise ArdorError(
                f"the teacher '{self.path}' gives no row of numbers for each image, but "
                f"{', '.join(str(getattr(each, 'shape', 'a list')) for each in found)}",
                "its first output of two dimensions must be (images, classes)",
            )
        answers = torch.from_numpy(rows[0][: len(pixels)].astype(np.float32))
        if not answers.isfinite().all():
            raise ArdorError(
                f"the teacher '{self.path}' gives numbers that are not finite",
                "teacher.input says how pixels are brought to it; see 'ardor list settings'",
            )
        return answers

    def prepared(self, pixels: Tensor, scaling: str) -> Any:
        """Pixels as it takes them: its size, its colours, its range and its order."""
        own = self.input
        if own.height or own.width:
            pixels = resized(pixels, own.height or own.width)
        pixels = recoloured(pixels, own.channels)
        values = pixels.numpy()
        if own.kind is not np.uint8:
            off, by = (np.array(one, np.float32).reshape(-1, 1, 1) for one in SCALINGS[scaling])
            values = ((values.astype(np.float32) / 255 - off) / by).astype(own.kind)
        return np.ascontiguousarray(values.transpose(0, 2, 3, 1) if own.last else values)


def check(path: Path, content: bytes) -> None:
    """An ArdorError where a file is no ONNX, or needs other files or code of somebody's."""
    try:
        proto = onnx.load_model_from_string(content)
        graphs = [proto.graph, *proto.functions]
    except Exception as error:
        raise broken(path, error) from error
    if not proto.graph.node:
        raise broken(path, ValueError("it has no graph"))
    own = BUILT_IN | {function.domain for function in proto.functions}
    for node in (node for graph in graphs for node in nodes_of(graph)):
        if node.domain not in own:
            raise ArdorError(
                f"the teacher '{path}' has an operator '{node.op_type}' of '{node.domain}', "
                "which onnxruntime does not have",
                "export it with operators of ONNX alone: custom ones would run foreign code",
            )
    outside = onnx.TensorProto.EXTERNAL
    if any(tensor.data_location == outside for graph in graphs for tensor in tensors_of(graph)):
        raise ArdorError(
            f"the teacher '{path}' keeps its weights in other files, which are not read",
            "save it as one file: onnx.save(onnx.load('model.onnx'), 'whole.onnx')",
        )


def nodes_of(graph: Any) -> Iterator[Any]:
    """All nodes of a graph, and of those inside them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for below in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from nodes_of(below)


def tensors_of(graph: Any) -> Iterator[Any]:
    """All tensors that a graph and those inside it hold."""
    yield from getattr(graph, "initializer", [])
    for sparse in getattr(graph, "sparse_initializer", []):
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            for below in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from tensors_of(below)


def input_of(path: Path, session: Any) -> Input:
    """What images a model takes; an ArdorError where it takes something else."""
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(each.name for each in inputs)
        raise ArdorError(
            f"the teacher '{path}' has {len(inputs)} inputs: {names}; must be 1", EXPORT
        )
    (one,) = inputs
    shape = [size if isinstance(size, int) and size > 0 else 0 for size in one.shape]
    colours = [at for at in (1, 3) if len(shape) == 4 and shape[at] in (1, 3)]
    if len(shape) == 4 and not colours and not shape[1]:
        colours, shape[1] = [1], 3
    if not colours or one.type not in KINDS:
        raise ArdorError(
            f"the teacher '{path}' takes {one.type} {one.shape}; must be images (n, channels, "
            "height, width) or (n, height, width, channels), float or uint8, with 1 or 3 channels",
            EXPORT,
        )
    last = colours[0] == 3
    height, width = shape[1:3] if last else shape[2:]
    if height and width and height != width:
        raise ArdorError(
            f"the teacher '{path}' takes images of {height}x{width} pixels; must be square ones",
            EXPORT,
        )
    return Input(one.name, KINDS[one.type], shape[0], shape[colours[0]], height, width, last)


def names_in(text: str) -> tuple[str, ...]:
    """The names of classes in a file's metadata, as Ardor writes them; none where it has none."""
    try:
        names = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return ()
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if listed and len(set(names)) == len(names) else ()


def broken(path: Path, error: Exception) -> ArdorError:
    """The error for a file that onnx or onnxruntime cannot use."""
    said = next(iter(str(error).splitlines()), "") or type(error).__name__
    return ArdorError(
        f"the teacher '{path}' cannot be used: {said[:200]}",
        "it must be a whole ONNX file that onnxruntime can run: export it anew",
    )
