"""A search that has decided little says so: no step of the gates, nothing left out, or no favour.

It has decided nothing where nine tenths of the uncertainty are left that it began with: the entropy
of the options of a choice, summed over choices, against that of options that are all as likely. A
kept option may then have several times an even share, and still be the best by chance alone: of
nine options 24 % for one, and the rest for the others alike, are 97 % of the uncertainty.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ardor.architecture import Choice, Options, Probabilities
from ardor.bayes.divergences import entropy

UNCERTAIN = 0.9  # of the uncertainty that a search begins with
NO_STEP = (
    "the search was all warm-up: nothing was learned of what to keep, and chance has decided; "
    "search for more epochs or a longer time, or with a lower search.warmup"
)
ALL_KEPT = (
    "nothing is left out: the gates have had too few steps; search for more epochs, "
    "or with a higher search.gate_rate"
)
ALL_RULED_OUT = (
    "the search has ruled everything out, and what it held least unlikely was kept; search with a "
    "lower method.sparsity, or for fewer epochs"
)
PRIOR_ALONE = (
    "nothing was searched: the architecture that is likeliest by what was found on other images "
    "was taken"
)
NO_FAVOUR = (
    "the search has decided nothing: of most choices all options are still about as likely; "
    "search for more epochs, or with a higher search.gate_rate"
)


def undecided(
    choices: Sequence[Choice],
    kept: Options,
    probabilities: Probabilities,
    gate_steps: int | None,
    ruled_out: Sequence[Tensor] = (),
) -> list[str]:
    """What there is to say; `gate_steps` is None where nobody has counted.

    To rule out some options, and leave the others alike, is a decision.
    """
    if gate_steps == 0:
        return [NO_STEP]
    if keeps_all((choice for choice in choices if choice.kind != "edge"), kept):
        return [ALL_KEPT]
    if ruled_out and all(options.all() for options in ruled_out):
        return [ALL_RULED_OUT]
    if any(options.any() for options in ruled_out):
        return []
    return [NO_FAVOUR] if uncertainty(choices, probabilities) >= UNCERTAIN else []


def keeps_all(choices: Iterable[Choice], kept: Options) -> bool:
    """Whether every option is kept, of choices that have several to keep."""
    there = {choice.name: connections(choice) for choice in choices}
    several = any(len(options) > 1 for options in there.values())
    return several and all({*options} <= {*kept[name]} for name, options in there.items())


def uncertainty(choices: Iterable[Choice], probabilities: Probabilities) -> float:
    """The entropy of the options of all choices, as a share of the largest there could be."""
    left, most = 0.0, 0.0
    for choice in choices:
        known = probabilities.get(choice.name, {})
        shares = torch.tensor([known.get(o, 0.0) for o in connections(choice)], dtype=torch.double)
        if len(shares) > 1 and shares.sum() > 0:
            left += entropy(shares / shares.sum()).item()
            most += math.log(len(shares))
    return left / most if most else 0.0


def connections(choice: Choice) -> list[str]:
    """The options of a choice but "no connection", which most rules never keep."""
    return [option for option in choice.options if choice.family(option) != "none"]
