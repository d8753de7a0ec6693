"""How large a network may be while it gets smaller, cycle by cycle, and what is said of that."""

from math import inf

from ardor.models.sizes import Sizes
from ardor.settings.sections import CompressConfig

Points = list[dict[str, float]]  # networks on the way, with their sizes and held-out scores


def asked_size(asked: CompressConfig, whole: Sizes) -> Sizes:
    """How large a network may be in the end, where its size is asked for."""
    times = whole.params / asked.times_smaller if asked.times_smaller else inf
    params = min(asked.max_params or inf, times, whole.params)
    return Sizes(max(1, int(params)), int(min(asked.max_macs or inf, whole.macs)))


def size_in_cycle(whole: Sizes, end: Sizes, share: float) -> Sizes:
    """How large it may be after a share of the cycles.

    It gets smaller fast at first and then ever slower: the less there is, the more each group
    tells.
    """
    return whole.towards(end, 1 - (1 - share) ** 2)


def out_of_reach(end: Sizes, now: Sizes, asked: CompressConfig) -> str:
    """What there is to say where a network cannot become as small as was asked for."""
    widths = f", with widths that are multiples of {asked.multiple}" if asked.multiple > 1 else ""
    return (
        f"as small as asked, {in_words(end)}, it cannot become by its {', '.join(asked.groups)}"
        f"{widths}: the smallest has {in_words(now)}"
    )


def at_chance(accuracy: float) -> str:
    """What there is to say of a given network that knows nothing of these images."""
    return (
        f"the given network answers {accuracy:.1%} of the held-out images rightly, no more than by "
        "chance: are its classes in another order, or its normalisation another?"
    )


def below(accuracy: float, least: float) -> str:
    """What there is to say of a given network that is not as accurate as it is to be kept."""
    return (
        f"the given network answers {accuracy:.1%} of the held-out images rightly, fewer than "
        f"keep_accuracy = {least:.1%}: it gets smaller only if it learns to"
    )


def left_at_chance(accuracy: float) -> str:
    """What there is to say where as little is left as was asked for, and it is of no use."""
    return (
        f"what is left answered {accuracy:.1%} of the held-out images rightly when the last groups "
        "had left, no more than by chance: ask for less, or more epochs"
    )


def last_of(points: Points) -> str:
    """The network that the last cycle has left; before the first one it is whole."""
    now, cycle = points[-1], len(points) - 1
    return (
        f"{f'after cycle {cycle}' if cycle else 'before it gets smaller'}: "
        f"{in_words(Sizes(int(now['params']), int(now['macs'])))}, "
        f"held-out accuracy {100 * now['accuracy']:.1f} %"
    )


def in_words(sizes: Sizes) -> str:
    """A size, for reading."""
    return f"{sizes.params:,} parameters, {sizes.macs:,} multiply-adds"
