"""Schedules as functions of progress in [0, 1], so that one serves a run of any length."""

import math


def cosine(progress: float) -> float:
    """From 1 down to 0 along half a cosine (Loshchilov and Hutter 2017, without restarts)."""
    return 0.5 * (1 + math.cos(math.pi * progress))


def constant(progress: float) -> float:
    """1 throughout."""
    return 1.0


def ramp(progress: float, *, start: float = 0.0) -> float:
    """0 until `start`, then linearly up to 1 at the end."""
    return max(0.0, progress - start) / (1 - start)


RATES = {"cosine": cosine, "constant": constant}
