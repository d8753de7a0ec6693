"""How channels flow through a network: its steps, and the effect of each on the channels.

A network is run once, on blank images, and every function of torch that it calls is noted: no space
need describe its nets a second time. A function that is not known here is opaque: it is assumed to
read all of its inputs, and none of its channels is ever removed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ardor.errors import reported
from ardor.layers.choices import Mask, Zeros

Kind = Literal[
    "input",
    "conv",
    "depthwise",
    "norm",
    "mask",
    "zeros",
    "relu",
    "same",
    "spread",
    "add",
    "cat",
    "opaque",
]
Norm = nn.BatchNorm2d | nn.BatchNorm1d
Layer = nn.Conv2d | nn.Linear | Norm | Mask | Zeros

# The functions that layers call with their weights; in any other they are opaque.
CALLS: dict[Kind, tuple[str, ...]] = {
    "conv": ("conv2d", "linear"),
    "depthwise": ("conv2d",),
    "norm": ("batch_norm",),
    "mask": ("mul",),
    "zeros": ("expand",),
}
# Functions that may treat every channel on its own and leave constant ones as they are.
POOLS = {"max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d", "interpolate"}
POOLS |= {"pad", "mean", "amax", "__getitem__", "flatten", "view", "reshape", "squeeze"}
POOLS |= {"clone", "contiguous", "dropout", "dropout2d"}
# Functions of each number by itself that leave zeros as they are.
CURVES = {"relu6", "hardtanh", "hardswish", "silu", "gelu", "leaky_relu", "mish", "softsign", "abs"}
CURVES |= {"tanh", "elu", "selu", "celu", "clamp", "tanhshrink", "hardshrink", "softshrink"}
SCALES = ("mul", "div", "neg")  # by a number
SUMS = ("add", "__add__", "__radd__", "__iadd__")


@dataclass(frozen=True)
class Step:
    """One function of the network, and the steps whose outputs it takes."""

    # A linear map is a "conv"; "same" leaves channels as they are, as a pool does; "spread" makes
    # each of them several that stand side by side, as flatten does with a map.
    kind: Kind
    inputs: tuple[int, ...]
    width: int  # channels of its output
    layer: str = ""  # the module that has its weights
    still: bool = True  # a constant channel stays constant; otherwise only a zero one does
    function: str = ""  # of torch, whose call it is
    within: str = ""  # the module that called it


def trace(net: nn.Module, shape: Sequence[int]) -> tuple[Step, ...]:
    """The steps of a network in evaluation, in order; the last is opaque and reads its output."""
    recorder = Recorder(net)
    net.eval()
    # Two images: of one alone, squeeze would take the axis away.
    images = torch.zeros(2, *shape, dtype=next(net.parameters()).dtype)
    recorder.note(images, Step("input", (), images.shape[1]))
    with torch.no_grad(), reported("the network on blank images", BLANK), recorder.watching(net):
        output = net(images)
    recorder.note(output.clone(), recorder.opaque([output], output))
    uses = Counter(step.layer for step in recorder.steps)
    return tuple(
        replace(s, kind="opaque") if s.layer and uses[s.layer] > 1 else s for s in recorder.steps
    )


BLANK = "it must take a blank image as any other: try net.eval()(torch.zeros(2, *image))"


class Recorder(TorchFunctionMode):
    """Notes every function that makes a tensor."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.layers = {id(m.weight): (name, m) for name, m in layers_of(net).items()}
        self.own = {id(tensor) for tensor in (*net.parameters(), *net.buffers())}
        self.running: list[str] = []  # modules, the outermost first
        self.steps: list[Step] = []
        self.places: dict[int, int] = {}  # id of a tensor -> the step that made it
        self.held: list[Tensor] = []  # kept alive, so that no other tensor gets their ids

    @contextmanager
    def watching(self, net: nn.Module) -> Iterator[None]:
        """Notes what is called for a while, and by which module."""
        names = {id(module): name for name, module in net.named_modules()}

        def begin(module: nn.Module, given: Any) -> None:
            self.running.append(names[id(module)])

        def end(module: nn.Module, given: Any, made: Any) -> None:
            self.running.pop()

        hooks = [module.register_forward_pre_hook(begin) for module in net.modules()]
        hooks += [module.register_forward_hook(end) for module in net.modules()]
        try:
            with self:
                yield
        finally:
            for hook in hooks:
                hook.remove()

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
        name = func.__name__.removesuffix("_") if func.__name__[-2:] != "__" else func.__name__
        step = replace(self.opaque(given, made), function=name, within=self.place())
        for weight in given:
            if id(weight) in self.layers:
                return self._of_layer(step, given, *self.layers[id(weight)])
        if len(step.inputs) != len(given) or not given or made.dim() < 2:
            return step
        widths = [self.steps[i].width for i in step.inputs]
        if name in ("cat", "concat", "concatenate"):
            return replace(step, kind="cat") if step.width == sum(widths) else step
        if name in POOLS and len(given) == 1:
            return pooled(step, func, args, kwargs)
        if {*widths} != {step.width} or any(t.dim() != made.dim() for t in given):
            return step
        if name in SUMS and len(given) == 2 and not kwargs:
            return replace(step, kind="add")
        if name == "relu":
            return replace(step, kind="relu")
        if len(given) == 2 or name not in {*CURVES, *SCALES, *SUMS}:
            return step
        if name not in SCALES and func(torch.zeros_like(made), *args[1:], **kwargs).any():
            return step
        return replace(step, kind="same", still=False)

    def place(self) -> str:
        """The module that is running."""
        return self.running[-1] if self.running else ""

    def opaque(self, given: Sequence[Tensor], made: Tensor) -> Step:
        """A step of which only its inputs are known."""
        for tensor in given:
            if id(tensor) not in self.places and id(tensor) not in self.own:
                # Nothing that was seen has made it: it may come from everything so far.
                before = tuple(range(len(self.steps)))
                self.note(tensor, Step("opaque", before, width_of(tensor), within=self.place()))
        inputs = tuple(self.places[id(t)] for t in given if id(t) in self.places)
        return Step("opaque", inputs, width_of(made))

    def _of_layer(self, step: Step, given: Sequence[Tensor], name: str, layer: Layer) -> Step:
        """A step with weights."""
        kind = kind_of(layer)
        if len(step.inputs) != (0 if kind == "zeros" else 1) or step.function not in CALLS.get(
            kind, ()
        ):
            kind = "opaque"
        if isinstance(layer, nn.Linear) and given[0].dim() != 2:
            kind = "opaque"  # it works along the last axis, which is not that of the channels
        padded = isinstance(layer, nn.Conv2d) and layer.padding not in ((0, 0), "valid")
        return replace(step, kind=kind, layer=name, still=not padded)


def layers_of(net: nn.Module) -> dict[str, Layer]:
    """The layers with weights, by name."""
    return {name: m for name, m in net.named_modules() if isinstance(m, Layer)}


def kind_of(layer: Layer) -> Kind:
    """The kind of step for a layer with weights."""
    if isinstance(layer, (Mask, Zeros)):
        return "mask" if isinstance(layer, Mask) else "zeros"
    if isinstance(layer, Norm):
        return "norm" if layer.affine and layer.track_running_stats else "opaque"
    if not is_depthwise(layer):
        return "conv"
    return "depthwise" if layer.weight.shape[:2] == (layer.groups, 1) else "opaque"


def is_depthwise(layer: nn.Module) -> bool:
    """Whether each output of a convolution reads inputs of its own."""
    return isinstance(layer, nn.Conv2d) and layer.groups > 1


def pooled(step: Step, func: Any, args: Any, kwargs: Any) -> Step:
    """A step that treats every channel on its own, if it does: tried on maps that differ.

    They have a channel more, as a function that counts on its number may not be given fewer.
    """
    if not args or not isinstance(args[0], Tensor):
        return step
    batch, width, *sides = args[0].shape
    values = torch.arange(1, width + 2, dtype=args[0].dtype)
    ramp = values.reshape(1, -1, *[1] * len(sides)).expand(batch, -1, *sides).contiguous()
    try:
        made = func(ramp, *args[1:], **kwargs)
    except (RuntimeError, IndexError, ValueError):
        return step
    times = step.width // width
    if made.dim() < 2 or made.shape[:2] != (batch, times * (width + 1)) or not times:
        return step
    each = made[0].reshape(width + 1, -1)  # (channels, what each has become)
    if not torch.allclose(each.amax(1), values):
        return step
    still = torch.allclose(each.amin(1), values)
    if times == 1:
        return replace(step, kind="same", still=still)
    return replace(step, kind="spread") if still else step


def width_of(tensor: Tensor) -> int:
    """How many channels a tensor has; none, if it is no batch."""
    return tensor.shape[1] if tensor.dim() > 1 else 0


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors among arguments or results, also in lists."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
