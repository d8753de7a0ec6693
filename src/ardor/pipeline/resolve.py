"""The settings that a person gives, completed to all settings of a run, and checked first."""

import os
from collections.abc import Collection, Mapping
from typing import Any

from ardor import data, methods, spaces
from ardor.errors import ArdorError
from ardor.models import exporters
from ardor.pipeline import teaching
from ardor.pruning import priors
from ardor.pruning.groups import check_kinds
from ardor.pruning.threshold import usual
from ardor.runtime.device import find_device
from ardor.settings.fields import complete
from ardor.settings.merge import over_defaults, resolve
from ardor.settings.presets import USUAL, preset
from ardor.settings.sections import Config

SIZES = ("image", "classes")  # settings of a space that follow from the images


def over_usual(*layers: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The layers, over the usual preset unless they name or set another space or method."""
    usual = preset(USUAL)
    for section, find in (("space", spaces.find), ("method", methods.find)):
        known = complete(section, find(usual[section]["name"]), {})
        given = [layer[section] for layer in layers if section in layer]
        if any(isinstance(own, Mapping) and not own.keys() <= known.keys() for own in given):
            return layers
    return (usual, *layers)


def resolved(
    layers: tuple[Mapping[str, Any], ...], images: data.Dataset | None = None
) -> tuple[Config, data.Dataset]:
    """All settings of a new run, and the images that some of them follow from: read, or given."""
    config = layered(layers)
    find_device(config.device)
    check_without_sizes("space", config.space)
    if images is None:
        images = data.load(seed=config.seed, **config.data.model_dump())
    images = teaching.with_unlabelled(images, config.data, config.teacher)
    sized = config.model_copy(update={"space": {**config.space, **sizes(images)}})
    return completed(sized), images


def layered(layers: tuple[Mapping[str, Any], ...]) -> Config:
    """The settings that need no images: defaults, then the method's own, then the given ones."""
    given = resolve(*layers)
    config = over_defaults(given, methods.find(given.method["name"]).search)
    return config.model_copy(update={"space": {**config.space, **asked_of_space(config)}})


def asked_of_space(config: Config) -> dict[str, Any]:
    """Settings of the space that follow from the settings of the method.

    Where the method's are given, a space that differs is an ArdorError; where they are defaults,
    given settings of the space win.
    """
    method, space = methods.find(config.method["name"]), spaces.find(config.space["name"])
    settings = complete("method", method, unnamed(config.method))
    known = complete("space", space, {})
    required = dict(
        method.space_settings({name: settings[name] for name in unnamed(config.method)})
    )
    for name, value in required.items():
        if name not in known:
            raise ArdorError(
                f"space '{config.space['name']}' has no setting '{name}', as the method's ask for",
                "use another space, or leave the settings of the method at their defaults",
            )
        given = complete("space", space, {name: config.space.get(name, value)})[name]
        if given != value:
            raise ArdorError(
                f"space.{name} = {given!r} must be {value!r} with these settings of the method",
                f"leave out space.{name}: it follows from the method",
            )
    open_ = {name: value for name, value in known.items() if name not in config.space}
    wished = method.space_settings(settings).items()
    return {**{n: value for n, value in wished if n in open_ and value != open_[n]}, **required}


def difference(made: Config, now: Config) -> str | None:
    """The first setting in which a run differs from one made now, in words; None if none does."""
    space = {**now.space, **{name: made.space[name] for name in SIZES if name in made.space}}
    new, old = (
        flat(completed(config).model_dump())
        for config in (now.model_copy(update={"space": space}), made)
    )
    old["prune.threshold"], new["prune.threshold"] = threshold_of(made), threshold_of(now)
    ignored = {"data.memory", "export.formats"}  # change no result
    if made.prune.picking:
        ignored.add("prune.threshold")  # follows from the point that was picked
    if os.path.realpath(made.data.source) == os.path.realpath(now.data.source):
        ignored.add("data.source")  # the same place under two paths
    for name in sorted((old.keys() | new.keys()) - ignored):
        if old.get(name) != new.get(name):
            return f"{name} = {old.get(name)!r}, not {new.get(name)!r}"
    return None


def threshold_of(config: Config) -> float:
    """The threshold of pruning, also where it is "auto"."""
    given = config.prune.threshold
    return usual(variational=config.train.variational) if given == "auto" else given


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their full names, such as "search.epochs"; lists become tuples."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{below}": entry for below, entry in flat(value).items()}
        else:
            found[name] = tuple(value) if isinstance(value, list) else value
    return found


def sizes(images: data.Dataset) -> dict[str, Any]:
    """The settings of a space that follow from the images."""
    return dict(zip(SIZES, (images.shape, len(images.classes)), strict=True))


def check_without_sizes(section: str, given: Mapping[str, Any]) -> None:
    """An ArdorError if a setting is given that follows from the images."""
    for name in SIZES:
        if name in given:
            raise ArdorError(
                f"{section}.{name} = {given[name]!r} must be left out: it follows from the images",
                "data.size and data.channels change the images",
            )


def check_images(config: Config, images: data.Dataset) -> None:
    """An ArdorError where a run was made for images of another size, or for other classes."""
    for name, value in sizes(images).items():
        expected = getattr(searched_space(config), name)
        if value != expected:
            raise ArdorError(
                f"{name} of '{config.data.source}' is {value}; this run was made for {expected}",
                "put the images back as they were, or begin a new run with them",
            )


def completed(config: Config) -> Config:
    """The settings with all those of space and method; an ArdorError if any does not fit."""
    searched = spaces.find(config.space["name"])
    space = complete("space", searched, unnamed(config.space))
    method = complete("method", methods.find(config.method["name"]), unnamed(config.method))
    made = searched(**space)
    made.check_size()
    check_network(config, made)
    check_start(config)
    check_ensemble(config)
    check_formats(config)
    check_kinds(config.compress.groups)
    priors.find(config.compress.prior)
    named = {
        "space": {"name": config.space["name"], **space},
        "method": {"name": config.method["name"], **method},
    }
    return config.model_copy(update=named)


def check_network(config: Config, searched: spaces.Space) -> None:
    """An ArdorError if the final network has other choices than the search."""
    before, after = (
        {choice.name: set(choice.options) for choice in space.choices}
        for space in (searched, final_space(config))
    )
    for name in sorted(before.keys() | after.keys()):
        if name not in before or not before[name] <= after.get(name, set()):
            raise ArdorError(
                f"network settings {config.network} change the choice '{name}' of the search",
                "they may change sizes such as channels, or how often a shared cell is repeated",
            )


def check_start(config: Config) -> None:
    """An ArdorError if the network begins with weights of the search, but has other sizes."""
    if config.train.start == "scratch":
        return
    searched = complete("space", spaces.find(config.space["name"]), unnamed(config.space))
    final = final_space(config)
    for name, value in searched.items():
        if name != "auxiliary" and getattr(final, name) != value:
            raise ArdorError(
                f"network.{name} = {getattr(final, name)!r} must be {value!r}, as in the search, "
                "with train.start = 'search'",
                f"leave network.{name} as it is in the search, or train from scratch: "
                "--set train.start=scratch",
            )


def check_ensemble(config: Config) -> None:
    """An ArdorError if more networks are to predict together than are drawn, or can be built."""
    count, drawn = config.search.ensemble, config.search.candidates
    if count > 1 and config.train.start == "scratch":
        raise ArdorError(
            f"search.ensemble = {count} must be 1 with train.start = 'scratch': "
            "networks predict together as their search has left them",
            "begin with its weights: --set train.start=search",
        )
    if count > drawn:
        raise ArdorError(
            f"search.ensemble = {count} must be at most search.candidates = {drawn}",
            "let more candidates be drawn: --set search.candidates=50",
        )


def check_choices(config: Config, stages: Collection[str]) -> None:
    """An ArdorError where a space is to be searched that leaves nothing to choose."""
    name = config.space["name"]
    if "search" in stages and not searched_space(config).choices:
        raise ArdorError(
            f"the space '{name}' has no choices: there is nothing to search",
            f"train it: ardor run DATA --architecture {name}; make it smaller: "
            f"ardor compress {name} --data DATA; or put an ardor.LayerChoice, InputChoice or "
            "WidthChoice into it",
        )


def check_epochs(config: Config, stages: Collection[str]) -> None:
    """An ArdorError where one of these stages is to learn something, but has no epochs."""
    found = methods.find(config.method["name"])
    needs_none = found.search.get("epochs") == 0 or found.learns_by_scores  # it has a prior
    if "search" in stages and not config.search.epochs and not needs_none:
        raise ArdorError(
            "search.epochs = 0 must be at least 1: nothing would be learned",
            "give --epochs 1 or more, or take a random architecture: --method random",
        )
    if "train" in stages and not config.train.epochs and config.train.start == "scratch":
        raise ArdorError(
            "train.epochs = 0 must be at least 1 with train.start = 'scratch'",
            "give --epochs 1 or more, or use the network as its search leaves it: "
            "--set train.start=search",
        )


def check_held_out(config: Config, stages: Collection[str]) -> None:
    """An ArdorError where a network is to keep its accuracy, and no images are there to see it."""
    if "compress" in stages and not config.compress.sized and not config.train.validation:
        raise ArdorError(
            "train.validation = 0 must be above 0: what is lost is seen on held-out images",
            "hold some out: --set train.validation=0.1; or say how small the network is to be: "
            "--times-smaller 10",
        )


def check_scratch(config: Config) -> None:
    """An ArdorError if the training begins with weights of a search, but there is no search."""
    if config.train.start == "search":
        raise ArdorError(
            "train.start = 'search' needs a search, and an architecture is given instead",
            "leave out --architecture to search, or train from scratch: --set train.start=scratch",
        )


def check_formats(config: Config) -> None:
    """An ArdorError if a format of the export is unknown."""
    for name in config.export.formats:
        exporters.find(name)


def searched_space(config: Config) -> spaces.Space:
    """The space at the size of the search."""
    return spaces.make(config.space["name"], unnamed(config.space))


def final_space(config: Config) -> spaces.Space:
    """The space at the size of the final network."""
    check_without_sizes("network", config.network)
    cls = spaces.find(config.space["name"])
    settings = {**unnamed(config.space), **config.network}
    return cls(**complete("network", cls, settings))


def unnamed(section: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a section without its entry "name"."""
    return {key: value for key, value in section.items() if key != "name"}
