"""What of a network keeps all its channels, in words: what is not known of, or used twice."""

from collections import Counter
from collections.abc import Mapping, Sequence

from torch import nn

from ardor.pruning.trace import Step, is_depthwise, trace
from ardor.spaces import ModuleNet

WORDS = {
    "matmul": "matrix product",
    "pad": "padding by channels",
    "sub": "subtraction",
    **dict.fromkeys(("chunk", "split"), "split into parts"),
    **dict.fromkeys(("flatten", "reshape", "view"), "reshape to a size of its own"),
}


def left_alone(net: nn.Module, shape: Sequence[int]) -> list[str]:
    """Each part through which channels cannot be followed, so that none leaves there."""
    inner = net.module if isinstance(net, ModuleNet) else net
    steps, modules = trace(inner, shape), dict(inner.named_modules())
    uses = Counter(step.layer for step in steps)
    from_image = {0}  # steps; what is made of weights alone has no channels
    found = []
    for at, step in enumerate(steps[:-1]):
        if from_image.isdisjoint(step.inputs):
            continue
        from_image.add(at)
        if step.kind == "opaque":
            found.append(words(step, modules, uses[step.layer]))
    return list(dict.fromkeys(found))


def words(step: Step, modules: Mapping[str, nn.Module], uses: int) -> str:
    """An opaque step for a person: the layer that it is, or the function and who calls it."""
    if step.layer and uses > 1:
        return f"a layer used twice: '{step.layer}'"
    name = step.layer or step.within
    kind = type(modules[name])
    if step.layer and is_depthwise(modules[name]):
        return f"{kind.__name__} '{name}', in groups"
    if step.layer or kind.__module__.startswith("torch.nn."):
        return f"{kind.__name__} '{name}'"
    what = WORDS.get(step.function, step.function) or "something outside of torch"
    if step.function == "mul":
        what = f"multiplication {'of two maps' if len(step.inputs) > 1 else 'by weights'}"
    return f"{what} in '{name}'" if name else what
