"""One readable Python file and its weights in safetensors, for torch alone: to read and change.

torch.export's own archive (.pt2) is not written: to load one, torch unpickles a part of it.
"""

import math
import runpy
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from pprint import pformat
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from ardor.data.decode import text
from ardor.errors import ArdorError, printable
from ardor.models.exporters._base import Exporter, Files, facts, quiet
from ardor.models.model import Model

TEMPLATE = '''"""Tells {count} classes of images apart; needs torch and safetensors, nothing else.

    network = Network()
    logits = network(pixels)  # (batch, {count}) of (batch, {shape}), pixels in 0..255
    label = CLASSES[logits[0].argmax()]

With Pillow, a picture becomes pixels as PREPROCESSING says:

    pixels = torch.from_numpy(pixels_of(Image.open("photo.jpg"), {shape}))[None]

Written by Ardor {ardor}. Tensors in p_... were learned by gradients, those in b_... were not.
"""

{imports}from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

CLASSES = {classes}
PREPROCESSING = {preprocessing}


{reader}

class Network(nn.Module):
    """The network as it predicts: its normalisations are fixed."""

    def __init__(self, weights: Path = Path(__file__).with_suffix(".safetensors")) -> None:
        super().__init__()
        for name, tensor in load_file(weights).items():
            if name.startswith("p_"):
                self.register_parameter(name, nn.Parameter(tensor))
            else:
                self.register_buffer(name, tensor)

    def forward(self, pixels: Tensor) -> Tensor:
{body}
'''

# ATen functions whose home in Python takes the same arguments; others are called by ATen's name.
HOMES = {
    **dict.fromkeys(("add", "batch_norm", "cat", "conv2d", "div"), "torch"),
    **dict.fromkeys(("max_pool2d", "mean", "mul", "relu", "sub"), "torch"),
    **dict.fromkeys(("avg_pool2d", "linear", "pad"), "F"),
}


class PythonFile(Exporter):
    """A torch module of one method, a line for each function that the network calls."""

    file = "network.py"
    tolerance = 1e-5  # the same functions of torch, in the same order

    def write(self, model: Model) -> Files:
        with quiet():
            program = torch.export.export(
                model,
                (torch.zeros(2, *model.shape),),
                dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
            )
        nodes = needed(program)
        lines = list(body(nodes, {*weights(program)}))
        known = facts(model)
        code = TEMPLATE.format(
            ardor=known["ardor"],
            preprocessing=pformat(known["preprocessing"], width=84, sort_dicts=False),
            reader=text(),
            count=len(model.classes),
            shape=", ".join(map(str, model.shape)),
            classes=literal(model.classes),
            imports="import operator\n" if any("= operator." in line for line in lines) else "",
            body="\n".join(f"        {line}" for line in lines),
        )
        tensors = {
            name: tensor.detach().contiguous()
            for name, tensor in weights(program).items()
            if name in {node.name for node in nodes}
        }
        return {self.file: code.encode(), "network.safetensors": save(tensors)}

    def run(self, files: Files, pixels: Tensor) -> Tensor:
        """As a stranger runs it; the code is what `write` has just made."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                Path(folder, name).write_bytes(content)
            network = runpy.run_path(str(Path(folder, self.file)))["Network"]()
        logits: Tensor = network(pixels)
        return logits


def weights(program: ExportedProgram) -> dict[str, Tensor]:
    """Parameters, buffers and constants by the names that they have in the graph."""
    known = {**program.constants, **program.state_dict}
    specs = program.graph_signature.input_specs
    return {s.arg.name: known[s.target] for s in specs if s.target is not None}


def needed(program: ExportedProgram) -> list[Node]:
    """The nodes that the logits depend on, in order, and then the output."""
    found: set[Node] = set()
    for node in reversed(program.graph.nodes):
        if node.op == "output" or not found.isdisjoint(node.users):
            found.add(node)
    return [node for node in program.graph.nodes if node in found or node.op == "output"]


def body(nodes: Iterable[Node], weights: set[str]) -> Iterator[str]:
    """The lines of `forward`, under the part of the network that each comes from."""
    before = ""
    for node in nodes:
        if node.op == "output":
            yield f"return {written(node.all_input_nodes[0], weights)}"
        elif node.op == "call_function":
            if (part := part_of(node)) != before:
                yield f"# {printable(part)}"
            before = part
            yield f"{node.name} = {call(node, weights)}"


def part_of(node: Node) -> str:
    """The module that a function was called in, by name; not a layer of torch's own."""
    stack = node.meta.get("nn_module_stack", {}).values()
    own = [path for path, kind in stack if not str(kind).startswith("torch.nn.")]
    return own[-1] if own else ""


def call(node: Node, weights: set[str]) -> str:
    """A call as Python: tensors by position, all else by name and only if it is no default."""
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload) and target.namespace == "aten":
        short = target._schema.name.removeprefix("aten::")
        home = f"{HOMES[short]}.{short}" if short in HOMES else f"torch.ops.{target}"
        return f"{home}({', '.join(arguments(node, target._schema.arguments, weights))})"
    if target.__module__ != "_operator":
        raise ArdorError(
            f"the network calls '{target}', which torch does not know by itself",
            "export it in another format: 'ardor list exporters' shows them",
        )
    given = [written(value, weights) for value in node.args]
    return f"operator.{target.__name__}({', '.join(given)})"


def arguments(node: Node, schema: Iterable[Any], weights: set[str]) -> Iterator[str]:
    """The arguments of a call, told apart by its schema."""
    by_name = False
    for given, argument in zip(node.args, schema, strict=False):
        if argument.has_default_value() and given == argument.default_value:
            by_name = True  # it is left out, and what follows has no place any more
            continue
        by_name = by_name or argument.kwarg_only
        prefix = f"{argument.name}=" if by_name else ""
        yield prefix + written(given, weights)
    for name, given in node.kwargs.items():
        yield f"{name}={written(given, weights)}"


def written(value: Any, weights: set[str]) -> str:
    """An argument as Python: a tensor by its name, a list of them, or a value."""
    if isinstance(value, Node):
        return f"self.{value.name}" if value.name in weights else value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(written(one, weights) for one in value)}]"
    return literal(value)


def literal(value: Any) -> str:
    """A value as Python that any editor can show; a device is that of the pixels."""
    if isinstance(value, torch.device):
        return "pixels.device"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return ascii(value)
