"""Layers of settings merged into one, each changing those before it, and checked."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ardor.discover import check_name
from ardor.errors import ArdorError, reason
from ardor.runtime.files import DEEPEST, plain, read_bytes, too_deep
from ardor.settings.fields import checked
from ardor.settings.sections import (
    LARGEST,
    LONGEST,
    METHOD,
    SECTIONS,
    CompressConfig,
    Config,
    PruneConfig,
    SearchConfig,
    TrainConfig,
)

# Progress at which the KL begins where weights are Gaussian to be pruned alone: they learn first.
LATE_KL = 0.5
UNBOUNDED = {"keep_accuracy": 0.0, "max_params": 0, "max_macs": 0, "within": 0.0}


def resolve(*layers: Mapping[str, Any]) -> Config:
    """The settings after merging all layers, checked."""
    merged: dict[str, Any] = {"space": {"name": "cells"}, "method": {"name": METHOD}}
    for layer in layers:
        _check_sections(layer)
    method = method_of(layers)
    for layer in layers:
        merged = merge(merged, _threshold_counts(_left_to_time(meant_for(method, layer))))
    merged["train"] = _weights_for(merged.get("prune", {}), merged.get("train", {}))
    for section, model in SECTIONS.items():
        merged[section] = checked(section, model, merged.get(section, {}))
    for section in ("space", "method"):
        check_name(section, merged[section]["name"])
    return checked("", Config, merged)


def reopened(made: Mapping[str, Any]) -> Config:
    """The settings that something was made with, as they were written then."""
    _check_sections(made)
    train, prune = made.get("train", {}), made.get("prune", {})
    if "within" not in prune and train.get("variational") is False:
        # Plain weights were left alone then, whatever the threshold.
        made = merge(made, {"prune": {"threshold": "auto"}})
    return resolve(made)


def bounded(given: Mapping[str, Any]) -> dict[str, Any]:
    """A layer with these bounds of pruning in place of those before it; an empty one with none."""
    return {"prune": {**UNBOUNDED, **given}} if given else {}


def over_defaults(config: Config, search: Mapping[str, Any]) -> Config:
    """The settings with a method's own defaults of the search, unless a value was given."""
    given = config.search.model_dump(exclude_unset=True)
    own = _left_to_time({"search": dict(search)})["search"]
    found = checked("search", SearchConfig, {**own, **given})
    return config.model_copy(update={"search": found})


def method_of(layers: Iterable[Mapping[str, Any]]) -> Any:
    """The name of the method, from the last layer that has one."""
    named = [layer["method"]["name"] for layer in layers if "name" in layer.get("method", {})]
    return named[-1] if named else METHOD


def meant_for(method: Any, layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """A layer with its settings under `methods.NAME` moved to the top, for this method alone."""
    if "methods" not in layer:
        return layer
    own = layer["methods"].get(method, {})
    _check_sections(own)
    return merge({key: value for key, value in layer.items() if key != "methods"}, own)


def _left_to_time(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The layer; where it sets a time but no epochs, with the most epochs, as time decides."""
    limits = {
        "search": checked("search", SearchConfig, _only(layer.get("search", {}), "time")).time,
        "train": checked("train", TrainConfig, _only(layer.get("train", {}), "time")).time,
        "compress": checked(
            "compress", CompressConfig, _only(layer.get("compress", {}), "time")
        ).time,
    }
    for section, limit in limits.items():
        if limit and "epochs" not in layer.get(section, {}):
            layer = merge(layer, {section: {"epochs": LONGEST}})
    return layer


def _threshold_counts(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The layer; where it sets a threshold, `within` of the layers before it is off."""
    prune = layer.get("prune", {})
    if "within" in prune or prune.get("threshold", "auto") == "auto":
        return layer
    return merge(layer, {"prune": {"within": 0.0}})


def _weights_for(prune: Mapping[str, Any], train: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of the training; Gaussian weights or plain ones, where that is "auto"."""
    if train.get("variational") != "auto":
        return train
    gaussian = checked("prune", PruneConfig, prune).bounded
    late = {"kl_start": LATE_KL} if gaussian else {}
    return {**late, **train, "variational": gaussian}


def _only(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: settings[name]} if name in settings else {}


def _check_sections(layer: Mapping[str, Any]) -> None:
    """An ArdorError if a section is a value and not settings by name."""
    if not isinstance(layer, Mapping):
        raise ArdorError(
            f"methods.NAME = {layer!r} must be settings by section",
            "for example [methods.vinnas.search] in a TOML file",
        )
    for section in sorted(layer.keys() & {*SECTIONS, "space", "method", "methods", "network"}):
        if not isinstance(layer[section], Mapping):
            raise ArdorError(
                f"{section} = {layer[section]!r} must be settings by name",
                f"name the setting as well: --set {section}.NAME=VALUE",
            )


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the entries of `change`, section by section."""
    merged = dict(base)
    for key, value in change.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def read(path: Path) -> dict[str, Any]:
    """The settings in a TOML file."""
    try:
        return parse(read_bytes(path, LARGEST).decode())
    except (OSError, ValueError) as error:
        raise ArdorError(
            f"cannot read settings from '{path}': {reason(error)}", "it must be a TOML file"
        ) from error


def assignment(text: str) -> dict[str, Any]:
    """{"search": {"batch": 32}} from "search.batch=32"; a value not in TOML is a string."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ArdorError(f"'{text}' must be NAME=VALUE", "for example --set search.epochs=10")
    try:
        parsed = parse(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    except ValueError as error:
        raise ArdorError(f"'{text}': {error}", "'ardor list settings' shows them") from error
    if name.count(".") >= DEEPEST:
        raise ArdorError(f"'{text}' names no setting", "'ardor list settings' shows them")
    for part in reversed(name.strip().split(".")):
        parsed = {part: parsed}
    return dict(parsed)


def parse(text: str) -> dict[str, Any]:
    """The content of a TOML text; a ValueError if it is not TOML, or not `plain`."""
    try:
        return dict(plain(tomllib.loads(text)))
    except RecursionError as error:
        raise too_deep() from error
