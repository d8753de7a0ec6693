"""Choices inside the options of other choices: which those are, and where they are drawn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from torch import nn

from ardor.architecture import Choice, Options, Place
from ardor.layers.choices import Decision, LayerChoice

NETWORK = Place("network", "network", "network")
Inside = tuple[str, str]  # a choice, and an option of it


def enclosing(module: nn.Module) -> dict[str, Inside | None]:
    """The choices of a module, and the nearest option that all copies of each stand in."""
    found: dict[str, list[tuple[Inside, ...]]] = {}
    for name, around in walked(module):
        found.setdefault(name, []).append(around)
    return {name: nearest(positions) for name, positions in found.items()}


def walked(
    module: nn.Module, around: tuple[Inside, ...] = ()
) -> Iterator[tuple[str, tuple[Inside, ...]]]:
    """Every choice wherever it stands, with the options around it, the outermost first."""
    if isinstance(module, Decision):
        yield module.name, around
    if isinstance(module, LayerChoice):
        for option, candidate in module.mixed.candidates.items():
            yield from walked(candidate, (*around, (module.name, option)))
    else:
        for part in module.children():
            yield from walked(part, around)


def nearest(positions: Sequence[tuple[Inside, ...]]) -> Inside | None:
    """The innermost of the options that are around all positions."""
    levels = zip(*positions, strict=False)
    common = [level[0] for level in takewhile(lambda level: len({*level}) == 1, levels)]
    return common[-1] if common else None


def within_reach(choices: Iterable[Choice], kept: Options) -> dict[str, tuple[str, ...]]:
    """What is kept, and nothing of choices that stand inside an option that is left out."""
    found = {**kept}
    for choice in choices:  # outer ones stand before those inside them
        if choice.name in found and not choice.is_reached(found):
            found[choice.name] = ()
    return found


def groups(choices: Iterable[Choice]) -> list[list[Choice]]:
    """Each outermost choice with all that stand inside it, near or far."""
    found: list[list[Choice]] = []
    of: dict[str, list[Choice]] = {}  # choice -> its group
    for choice in choices:
        if choice.inside is None:
            found.append([])
        of[choice.name] = found[-1] if choice.inside is None else of[choice.inside[0]]
        of[choice.name].append(choice)
    return found


def placed(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """The choices with their places, sources and targets.

    Those with nothing inside stand in a row, the network. One with others inside it is a place of
    its own: an option leads to the first choice inside it, and the last one there to where the
    option would have led.
    """
    places: dict[Place, list[Choice]] = {}
    for group in groups(choices):
        name = group[0].name
        place = NETWORK if len(group) == 1 else Place(name, name, name)
        places.setdefault(place, []).extend(group)
    found = {}
    for place, there in places.items():
        links = linked([choice for choice in there if choice.kind == "op"])
        for choice in there:
            source, target = links.get(choice.name, (None, None))
            found[choice.name] = replace(choice, place=place, source=source, target=target)
    return tuple(found[choice.name] for choice in choices)


def linked(choices: Sequence[Choice]) -> Mapping[str, tuple[int, int]]:
    """The nodes that each choice reads and leads to, so that every link runs forward."""
    rows: dict[Inside | None, list[Choice]] = {}
    for choice in choices:
        rows.setdefault(choice.inside, []).append(choice)
    inwards = list(depth_first(rows, None))
    sources = {choice.name: node for node, choice in enumerate(inwards)}
    targets: dict[str, int] = {}
    for choice in inwards:
        *_, last = row = rows[choice.inside]
        if choice is not last:
            targets[choice.name] = sources[row[row.index(choice) + 1].name]
        else:
            targets[choice.name] = targets[choice.inside[0]] if choice.inside else len(inwards)
    return {name: (source, targets[name]) for name, source in sources.items()}


def depth_first(
    rows: Mapping[Inside | None, Sequence[Choice]], inside: Inside | None
) -> Iterator[Choice]:
    """The choices of a row, each followed by those inside its options."""
    for choice in rows.get(inside, ()):
        yield choice
        for option in choice.options:
            yield from depth_first(rows, (choice.name, option))
