"""Shrinking: options that the posterior has given up for some epochs leave the supernet."""

from collections.abc import Sequence

from torch import nn
from torch.optim import Optimizer

from ardor.architecture import Choice
from ardor.layers.operations import ZERO
from ardor.methods import Epochs, Method
from ardor.spaces import Net, mean_score


def in_a_row(method: Method, before: Epochs) -> Epochs:
    """How many epochs in a row each option is given up: `before`, counted on by this epoch.

    Single channels of a width never leave: removing one would make nothing faster.
    """
    now = method.given_up()
    rows = {}
    for choice in method.choices("op", "edge"):
        if choice.name in now:
            given = now[choice.name].flatten(0, -2).all(0).tolist()  # in all copies
            past = before.get(choice.name, {})
            options = [choice.options[at] for at in method.remaining(choice) if given[at]]
            rows[choice.name] = {option: past.get(option, 0) + 1 for option in options}
    return rows


def leaving(method: Method, rows: Epochs, patience: int) -> list[tuple[Choice, str]]:
    """The options given up for `patience` epochs; of most methods all but a choice's likeliest.

    Zero stays too: it has no weights, and removing it would make nothing faster. What stands inside
    an option leaves with it.
    """
    shares = method.probabilities()
    found = []
    for choice in method.choices("op", "edge"):
        there = [at for at in method.remaining(choice) if choice.options[at] != ZERO]
        ripe = {o for o, epochs in rows.get(choice.name, {}).items() if epochs >= patience}
        if ripe:
            likeliest = max(there, key=mean_score(shares[choice.name]).__getitem__)
            options = [choice.options[at] for at in there if method.empties or at != likeliest]
            found += [(choice, option) for option in options if option in ripe]
    return found + inside(found, method)


def inside(left: Sequence[tuple[Choice, str]], method: Method) -> list[tuple[Choice, str]]:
    """All options of the choices that stand inside options that leave, and have not left before."""
    gone = {(choice.name, option) for choice, option in left}
    found = []
    for choice in method.space.choices:
        if choice.inside in gone:
            there = [option for option in choice.options if (choice.name, option) not in gone]
            gone |= {(choice.name, option) for option in there}
            past = method.removed.get(choice.name, {})
            found += [(choice, option) for option in there if option not in past]
    return found


def still_there(method: Method, rows: Epochs) -> str:
    """How many of the options that could leave are in the supernet: "80 of 112"."""
    choices = [choice for choice in method.choices("op", "edge") if choice.name in rows]
    remaining = sum(len(method.remaining(choice)) for choice in choices)
    return f"{remaining} of {remaining + sum(map(len, method.removed.values()))}"


def with_removed(removed: Epochs, left: Sequence[tuple[Choice, str]], epoch: int) -> Epochs:
    """`removed` with the options that left after `epoch`; sorted, as read from a checkpoint."""
    options = {name: dict(epochs) for name, epochs in removed.items()}
    for choice, option in left:
        options.setdefault(choice.name, {})[option] = epoch
    return {name: dict(sorted(epochs.items())) for name, epochs in sorted(options.items())}


def left_in(removed: Epochs, epoch: int) -> list[str]:
    """What left in an epoch, as the log has it."""
    found = [(choice, option) for choice, options in removed.items() for option in options]
    return [f"{choice}: {option}" for choice, option in found if removed[choice][option] == epoch]


def take_out_(net: Net, choices: Sequence[Choice], removed: Epochs) -> None:
    """Takes removed options out of a supernet."""
    for choice in choices:
        for option in removed.get(choice.name, {}):
            net.take_out(choice, option)


def hold_only_(optimiser: Optimizer, parameters: Sequence[nn.Parameter]) -> None:
    """Removes all other parameters from an optimiser; these keep their order."""
    held = set(parameters)
    for group in optimiser.param_groups:
        group["params"] = [p for p in group["params"] if p in held]
    for parameter in [p for p in optimiser.state if p not in held]:
        del optimiser.state[parameter]
