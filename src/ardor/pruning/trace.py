"""How channels flow through a network: its steps, and the effect of each on the channels.

A network is run once, on one blank image, and every function of torch that it calls is noted: no
space need describe its nets a second time. A function that is not known here is opaque: it is
assumed to read all of its inputs, and none of its channels is ever removed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ardor.layers.choices import Mask, Zeros

Kind = Literal[
    "input", "conv", "depthwise", "norm", "mask", "zeros", "relu", "same", "add", "cat", "opaque"
]
Layer = nn.Conv2d | nn.Linear | nn.BatchNorm2d | Mask | Zeros

# Functions that may treat every channel on its own and leave constant ones as they are.
POOLS = ("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "pad", "mean", "flatten", "dropout")
# Functions of each number by itself that leave zeros as they are.
CURVES = ("relu6", "hardtanh", "hardswish", "silu", "gelu", "leaky_relu")
SCALES = ("mul", "div")  # by a number
SUMS = ("add", "__add__", "__radd__", "__iadd__", "add_")


@dataclass(frozen=True)
class Step:
    """One function of the network, and the steps whose outputs it takes."""

    kind: Kind  # a linear map is a "conv"; "same" leaves channels as they are, as a pool does
    inputs: tuple[int, ...]
    width: int  # channels of its output
    layer: str = ""  # the module that has its weights
    still: bool = True  # a constant channel stays constant; otherwise only a zero one does


def trace(net: nn.Module, shape: Sequence[int]) -> tuple[Step, ...]:
    """The steps of a network in evaluation, in order; the last is opaque and reads its output."""
    recorder = Recorder(net)
    net.eval()
    image = torch.zeros(1, *shape, dtype=next(net.parameters()).dtype)
    recorder.note(image, Step("input", (), image.shape[1]))
    with torch.no_grad(), recorder:
        output = net(image)
    recorder.note(output.clone(), recorder.opaque([output], output))
    uses = Counter(step.layer for step in recorder.steps)
    return tuple(
        replace(s, kind="opaque") if s.layer and uses[s.layer] > 1 else s for s in recorder.steps
    )


class Recorder(TorchFunctionMode):
    """Notes every function that makes a tensor."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.layers = {id(m.weight): (name, m) for name, m in layers_of(net).items()}
        self.steps: list[Step] = []
        self.places: dict[int, int] = {}  # id of a tensor -> the step that made it
        self.held: list[Tensor] = []  # kept alive, so that no other tensor gets their ids

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = [(given, given._version) for given in tensors([*args])]
        result = func(*args, **(kwargs or {}))
        # What is changed in place is another tensor from then on.
        changed = [given for given, version in before if given._version > version]
        new = [made for made in tensors(result) if id(made) not in self.places]
        for made in {id(made): made for made in [*changed, *new]}.values():
            self.note(made, self.step(func, args, kwargs or {}, made))
        return result

    def note(self, made: Tensor, step: Step) -> None:
        """Adds a step."""
        self.places[id(made)] = len(self.steps)
        self.held.append(made)
        self.steps.append(step)

    def step(self, func: Any, args: Any, kwargs: Any, made: Tensor) -> Step:
        """The step for a call of a function of torch."""
        given = list(tensors([*args, *kwargs.values()]))
        step = self.opaque(given, made)
        for weight in given:
            if id(weight) in self.layers:
                return self._of_layer(step, *self.layers[id(weight)])
        name, widths = func.__name__, {self.steps[i].width for i in step.inputs}
        if name == "cat" and made.shape[1] == sum(t.shape[1] for t in given):
            return replace(step, kind="cat")
        if widths != {step.width} or len(step.inputs) != len(given):
            return step
        if name in SUMS and len(given) == 2 and not kwargs:
            return replace(step, kind="add")
        if name in ("relu", "relu_"):
            return replace(step, kind="relu")
        if name in SCALES and len(given) == 1:
            return replace(step, kind="same", still=False)
        if name in CURVES and not func(torch.zeros_like(made), *args[1:], **kwargs).any():
            return replace(step, kind="same", still=False)
        return pooled(step, func, args, kwargs) if name in POOLS else step

    def opaque(self, given: Sequence[Tensor], made: Tensor) -> Step:
        """A step of which only its inputs are known."""
        inputs = tuple(self.places[id(t)] for t in given if id(t) in self.places)
        return Step("opaque", inputs, made.shape[1] if made.dim() > 1 else 0)

    def _of_layer(self, step: Step, name: str, layer: Layer) -> Step:
        """A step with weights."""
        kind = kind_of(layer)
        if len(step.inputs) != (0 if kind == "zeros" else 1):
            kind = "opaque"
        padded = isinstance(layer, nn.Conv2d) and layer.padding not in ((0, 0), "valid")
        return replace(step, kind=kind, layer=name, still=not padded)


def layers_of(net: nn.Module) -> dict[str, Layer]:
    """The layers with weights, by name."""
    return {name: m for name, m in net.named_modules() if isinstance(m, Layer)}


def kind_of(layer: Layer) -> Kind:
    """The kind of step for a layer with weights."""
    if isinstance(layer, (Mask, Zeros)):
        return "mask" if isinstance(layer, Mask) else "zeros"
    if isinstance(layer, nn.BatchNorm2d):
        return "norm" if layer.affine and layer.track_running_stats else "opaque"
    if not is_depthwise(layer):
        return "conv"
    return "depthwise" if layer.weight.shape[:2] == (layer.groups, 1) else "opaque"


def is_depthwise(layer: nn.Module) -> bool:
    """Whether each output of a convolution reads inputs of its own."""
    return isinstance(layer, nn.Conv2d) and layer.groups > 1


def pooled(step: Step, func: Any, args: Any, kwargs: Any) -> Step:
    """A step that treats every channel on its own, if it does: tried on maps that differ."""
    values = torch.arange(1, step.width + 1, dtype=args[0].dtype)
    ramp = torch.ones_like(args[0]) * values[:, None, None]
    made = func(ramp, *args[1:], **kwargs)
    if made.dim() not in (2, 4):
        return step
    each = made[0].reshape(step.width, -1)  # (channels, pixels)
    if not torch.allclose(each.amax(1), values):
        return step
    return replace(step, kind="same", still=torch.allclose(each.amin(1), values))


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors among arguments or results, also in lists."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
