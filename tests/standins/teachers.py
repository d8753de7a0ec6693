"""Small ONNX classifiers, made up node by node, as strangers write them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def teacher(
    path: Path,
    *,
    rows: Sequence[Sequence[float]] = ((-1.0, 60.0), (1.0, -60.0)),
    scale: float = 255.0,
    shape: Sequence[Any] = ("n", 1, "h", "w"),
    shares: bool = False,
    names: Sequence[str] = (),
    kind: int = TensorProto.FLOAT,
    extra: Sequence[Any] = (),
    inputs: Sequence[Any] = (),
) -> Path:
    """Tells images by their mean: output k is a * mean + b for the k-th row (a, b).

    As it is, it tells pictures that are darker or brighter than 60 of 255, given pixels in 0..1.
    """
    a, b = (np.array(column, np.float32) for column in zip(*rows, strict=True))
    axes = np.array([1, 2, 3], np.int64)
    nodes = [
        helper.make_node("Cast", ["x"], ["as_float"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["as_float", "axes"], ["mean"], keepdims=0),
        helper.make_node("Unsqueeze", ["mean", "one"], ["column"]),
        helper.make_node("Mul", ["column", "scale"], ["scaled"]),
        helper.make_node("Mul", ["scaled", "a"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["y" if not shares else "logits"]),
        *([helper.make_node("Softmax", ["logits"], ["y"], axis=1)] if shares else []),
        *extra,
    ]
    given = {"a": a, "b": b, "axes": axes, "one": np.array([1]), "scale": np.float32(scale)}
    graph = helper.make_graph(
        nodes,
        "made-up",
        [helper.make_tensor_value_info("x", kind, list(shape)), *inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in given.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("some.where", 1)]
    model = helper.make_model(graph, opset_imports=opsets[: 1 + bool(extra)], ir_version=9)
    if names:
        helper.set_model_props(model, {"classes": json.dumps(list(names))})
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path
