"""Schedules as functions of progress in [0, 1], so that one serves a run of any length."""

import math


def cosine(progress: float) -> float:
    """From 1 down to 0 along half a cosine (Loshchilov and Hutter 2017, without restarts)."""
    return 0.5 * (1 + math.cos(math.pi * progress))


def linear(progress: float, *, last: float = 0.02) -> float:
    """From 1 down to 0 in a line; in the `last` share it falls a fifth as fast.

    As P-DARTS and PC-DARTS train on ImageNet: the line would end five epochs before the 250th, and
    these five have rates of their own. Their code changes the rate by the epoch; here the two lines
    are followed step by step, whichever is higher.
    """
    return max(1 - last - progress, (1 - progress) / 5) / (1 - last)


def exponential(progress: float) -> float:
    """From 1 down to 0.0005, by the same factor in equal times.

    As DARTS and BayesNAS train on ImageNet: 0.97 an epoch for 250 epochs, here step by step.
    """
    return 0.97 ** (250 * progress)  # type: ignore[no-any-return]


def constant(progress: float) -> float:
    """1 throughout."""
    return 1.0


def ramp(progress: float, *, start: float = 0.0) -> float:
    """0 until `start`, then linearly up to 1 at the end."""
    return max(0.0, progress - start) / (1 - start)


def warm_up(progress: float, *, until: float) -> float:
    """Linearly from 0 up to 1 at `until` (Goyal et al. 2017), 1 from there on."""
    return progress / until if progress < until else 1.0


def round_at(progress: float, rounds: int) -> tuple[int, float]:
    """The number of the round, from 0 on, and the progress in it; the end is in the last one."""
    number = min(int(progress * rounds), rounds - 1)
    return number, progress * rounds - number


RATES = {"cosine": cosine, "linear": linear, "exponential": exponential, "constant": constant}
