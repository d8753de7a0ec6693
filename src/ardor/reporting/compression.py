"""A network that was made smaller, in words: from what, by how much, and by which prior."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ardor.reporting.format import count, number, percent

STAGE = "compress"
_ENOUGH = 1.05  # times; with less, nothing to speak of has left
SIZES = {"nonzero_params": "parameters", "macs": "multiply-adds"}


def compresses(config: Mapping[str, Any]) -> bool:
    """Whether a run makes a network smaller that it was given."""
    stages = config.get("stages")
    return isinstance(stages, list) and STAGE in stages


def before(metrics: Mapping[str, Any]) -> str:
    """What came between the figures of a run and the earlier ones."""
    stages = metrics.get("stages")
    done = isinstance(stages, Mapping) and STAGE in stages
    return f"before {'compression' if done else 'pruning'}"


def times(old: float, new: float) -> str:
    """How many times smaller a size has become; nothing if it has not."""
    by = old / new if new else 0.0
    if by < _ENOUGH:
        return ""
    return f"{by:.2g}" if by < 10 else count(by)


def sentences(metrics: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    """What came out of making a network smaller, as far as it is known; nothing of other runs."""
    if not compresses(config):
        return
    known = {name: x for name, value in metrics.items() if (x := number(value)) is not None}
    sizes = [_smaller(known, name, words) for name, words in SIZES.items()]
    if not any(sizes):
        return
    yield f"Compressed: {' and '.join(filter(None, sizes))}."
    for which, words in (("test", "test"), ("held_out", "held-out")):
        old, new = (known.get(f"{of}{which}_accuracy") for of in ("trained_", ""))
        if old is not None and new is not None:
            yield f"Accuracy on {words} images: {percent(new, 1)}, before {percent(old, 1)}."
    asked = config.get(STAGE)
    if isinstance(asked, Mapping) and isinstance(asked.get("groups"), list):
        yield f"What left was decided by {decided(str(asked.get('prior')), asked['groups'])}."


def decided(prior: str, groups: Sequence[str]) -> str:
    """The prior, and what left together."""
    return f"the prior {prior}, over {' and '.join(map(str, groups))}"


def _smaller(known: Mapping[str, float], name: str, words: str) -> str:
    """A size in words; nothing where it is not known."""
    old, new = known.get(f"trained_{name}"), known.get(name)
    if old is None or new is None:
        return ""
    by = times(old, new)
    how = f"{by} times fewer" if by else "as many"
    return f"{how} {words} ({count(new)} of {count(old)})"
