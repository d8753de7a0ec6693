"""Numbers and names as a person writes them: 98.6 %, 12,345, 1 min 20 s, sep conv 3×3."""

import math
import re
from typing import Any

from ardor.architecture import Family

# Names of families in the legend of a drawing; the keys are classes in drawing.css.
FAMILIES: dict[Family, str] = {
    "separable": "separable convolution",
    "dilated": "dilated convolution",
    "conv": "full convolution",
    "pool": "pooling",
    "skip": "skip connection",
    "none": "no connection",
    "noise": "noise",
    "other": "other operation",
}
# The name of a module that was given in a script: its class, and what tells it from others.
_AT_HAND = re.compile(r"^__main__\.(\w+)_[0-9a-f]{8}$")
_TERMS = {
    "accuracy": "accuracy",
    "nll": "negative log-likelihood, nats per image",
    "loss": "loss, what is minimised",
    "certainty": "certainty",
    "ece": "calibration error",
    "entropy": "entropy of the gates",
    "teacher": "distance from the teacher's answers, its share of the loss",
    "kl_weights": "KL of the weights",
    "kl_gates": "KL of the gates",
    "kl_operations": "KL of the operations",
    "kl_edges": "KL of the edges",
    "skip_share": "skip connections among kept operations",
    "pool_share": "pools among kept operations",
    "none_share": "edges where no connection is strongest",
    "op_entropy": "variety of kept operations, nats",
    "curvature": "curvature of the held-out loss in the gates",
}


def said(network: str) -> str:
    """The name of a network as a person says it; of a module given in a script, its class."""
    return _AT_HAND.sub(r"\1", network)


def operation(name: str) -> str:
    """The name of an operation in words: sep_conv_3x3 as "sep conv 3×3"."""
    return re.sub(r"(?<=\d)x(?=\d)", "×", name.replace("_", " ").strip()) or name


def term(name: str) -> str:
    """A logged term in plain words."""
    return _TERMS.get(name, name.replace("_", " "))


def number(value: Any) -> float | None:
    """The value as a float if it is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def percent(share: float, digits: int = 0) -> str:
    """0.714 as "71 %"; "<1 %" or ">99 %" where rounding would give 0 or 100."""
    step = 10.0**-digits
    if 0.0 < share < step / 200:
        return f"<{step:g} %"
    if 1.0 - step / 200 < share < 1.0:
        return f">{100 - step:g} %"
    return f"{100 * share:.{digits}f} %"


def count(value: float) -> str:
    """12345 as "12,345"."""
    return f"{value:,.0f}"


def short(value: float) -> str:
    """Three digits with k, M or G, for the ticks of an axis."""
    size = abs(value)
    for limit, scale, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= limit:
            return f"{value / scale:.3g} {unit}"
    return scientific(value) if 0 < size < 1e-3 else f"{value:.4g}"


def scientific(value: float) -> str:
    """1.2e-06 as "1.2 × 10⁻⁶"; numbers that are short enough without a power."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    digits, power = f"{value:.1e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits.removesuffix('.0')}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10{raised}"


def duration(seconds: float) -> str:
    """80 as "1 min 20 s"."""
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def setting(value: Any) -> str:
    """A value of a config file in words; long lists are shortened."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        shown = ", ".join(map(setting, value[:20]))
        return f"{shown}, … {len(value) - 20} more" if len(value) > 20 else shown or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
