"""The settings of a run, by section, each with its type, range, default and a word on why."""

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from ardor.discover import check_name
from ardor.errors import ArdorError, reason, unknown
from ardor.runtime.files import DEEPEST, plain, read_bytes, too_deep
from ardor.settings.fields import Amount, Count, Rate, Settings, Share, Size, Time, checked

# In percent, or a share where it is at most 1, as which it is kept.
Accuracy = Annotated[float, Field(ge=0, le=100), AfterValidator(lambda x: x / 100 if x > 1 else x)]
Augmentation = Literal["crop", "flip", "erase", "cutout"]
NOTHING = 1e6  # a threshold of pruning that no weight reaches
PRESETS = "settings/presets"
METHOD = "vinnas"  # unless another is named
LARGEST = 2**20  # bytes of a TOML file
LONGEST = 99_999  # epochs: the names of checkpoints have five digits, and are sorted


class DataConfig(Settings):
    """Where the images come from."""

    source: str = "digits"  # a folder, a file or a known name
    size: int = Field(default=0, ge=0, le=1024)  # pixels a side; 0 takes it from the images
    channels: Literal[0, 1, 3] = 0  # 0 takes it from the images
    test: Share = 0.2  # of each class, where the source has no test images of its own
    skip_broken: bool = False
    memory: Size = 0  # for images, e.g. "2GB"; 0: half of what is free, 100 times what a file takes


class Fitting(Settings):
    """How weights are fitted, in the search and afterwards."""

    epochs: int = Field(default=20, ge=0, le=LONGEST)
    batch: int = Field(default=64, ge=2, le=1_000_000)
    accumulate: Count = 1  # parts a batch is computed in, to need less memory; norms see a part
    optimiser: Literal["adam", "sgd"] = "adam"
    rate: Rate = 0.001
    rate_end: Amount = 0.0  # where the schedule ends
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    rate_warmup: Share = 0.0  # of the epochs, in which the rate grows from zero
    momentum: Share = 0.9  # of sgd
    weight_decay: Amount = 3e-4
    clip: Rate = 5.0  # largest norm of the weights' gradient
    smoothing: Share = 0.0  # label smoothing
    augment: tuple[Augmentation, ...] = ("crop",)


class SearchConfig(Fitting):
    """The search: weights and gates of the supernet."""

    time: Time = 0.0  # the search ends within it, e.g. "20m"; it decides the epochs; 0: no limit
    fraction: float = Field(default=1.0, gt=0, le=1)  # of the training images
    held_out: float = Field(default=0.5, gt=0, lt=1)  # of those: for gates and ranking
    rounds: int = Field(
        default=1, ge=1, le=100
    )  # whole searches one after another, whose mean posterior is drawn from
    warmup: Share = 0.2  # of the epochs of a round, with weights alone learning
    gate_rate: Rate = 3e-4
    gate_schedule: Literal["cosine", "constant"] = "constant"
    gate_betas: tuple[Share, Share] = (0.5, 0.999)
    gate_decay: Amount = 1e-3
    keep: Literal["last", "best"] = (
        "last"  # gates of the last epoch, or of the least held-out error
    )
    stop_on_collapse: bool = False  # at the last epoch before cells fill with skips or pools
    shrink: int = Field(
        default=3, ge=0, le=LONGEST
    )  # epochs in a row given up until it leaves; 0 keeps all
    candidates: Count = 1  # drawn at the end and ranked on held-out images

    @property
    def keeps_best(self) -> bool:
        """Whether the gates of an earlier epoch may be what is drawn from."""
        return self.keep == "best" or self.stop_on_collapse


class TrainConfig(Fitting):
    """The training of the found network, from scratch."""

    epochs: int = Field(default=60, ge=0, le=LONGEST)
    rate: Rate = 0.005
    weight_decay: Amount = 0.0
    variational: bool = True  # Gaussian weights, which can be pruned; otherwise plain ones
    kl: Amount = 1.0  # 1 is the ELBO
    kl_start: Share = 0.2  # the progress at which the KL begins to grow from zero
    drop_path: Share = 0.0  # reached at the end, growing from zero
    auxiliary_weight: Amount = 0.4  # of the auxiliary head's loss, where the network has one
    validation: Share = 0.1  # of the training images, to watch by


class PruneConfig(Settings):
    """What leaves the trained network."""

    threshold: float = Field(
        default=3.0, ge=-NOTHING, le=NOTHING
    )  # log(sigma^2 / mu^2) from which a weight is only noise
    keep_accuracy: Accuracy = 0.0  # takes the smallest network as accurate as that; 0 is off
    max_params: int = Field(default=0, ge=0, le=10**12)  # the most accurate with no more; 0 is off
    multiple: Count = 4  # that widths are left at: onnxruntime is slow at others, fastest at 16
    fine_tune: int = Field(default=0, ge=0, le=LONGEST)  # epochs after pruning; zeros stay zero
    rate: Rate = 5e-4  # of fine-tuning, where it begins

    @property
    def picking(self) -> bool:
        """Whether the threshold follows from what is asked of the network."""
        return self.keep_accuracy > 0 or self.max_params > 0


class Config(Settings):
    """Everything that decides a run."""

    seed: int = Field(default=0, ge=0, lt=2**32)
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    data: DataConfig = DataConfig()
    space: dict[str, Any] = {"name": "cells"}
    method: dict[str, Any] = {"name": "vinnas"}
    search: SearchConfig = SearchConfig()
    network: dict[str, Any] = {}  # settings of the space that differ in the final network
    train: TrainConfig = TrainConfig()
    prune: PruneConfig = PruneConfig()


SECTIONS: Mapping[str, type[Settings]] = {
    "data": DataConfig,
    "search": SearchConfig,
    "train": TrainConfig,
    "prune": PruneConfig,
}


def resolve(*layers: Mapping[str, Any]) -> Config:
    """The settings after each layer has changed those before it, all of them checked."""
    merged: dict[str, Any] = {"space": {"name": "cells"}, "method": {"name": METHOD}}
    for layer in layers:
        _check_sections(layer)
    method = method_of(layers)
    for layer in layers:
        merged = merge(merged, _left_to_time(meant_for(method, layer)))
    for section, model in SECTIONS.items():
        merged[section] = checked(section, model, merged.get(section, {}))
    for section in ("space", "method"):
        check_name(section, merged[section]["name"])
    config = checked("", Config, merged)
    if config.prune.picking and not config.train.variational:
        raise ArdorError(
            "prune.keep_accuracy and prune.max_params need weights with variances",
            "leave train.variational at true",
        )
    return config


def method_of(layers: Iterable[Mapping[str, Any]]) -> Any:
    """The name of the method that the last layer which names one asks for."""
    named = [layer["method"]["name"] for layer in layers if "name" in layer.get("method", {})]
    return named[-1] if named else METHOD


def meant_for(method: Any, layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """A layer with what it says of one method alone, under `methods.NAME`, in its place."""
    if "methods" not in layer:
        return layer
    own = layer["methods"].get(method, {})
    _check_sections(own)
    return merge({key: value for key, value in layer.items() if key != "methods"}, own)


def _left_to_time(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """A layer that sets a time but no epochs leaves their number to the time."""
    given = layer.get("search", {})
    if "epochs" in given or not checked("search", SearchConfig, _only(given, "time")).time:
        return layer
    return merge(layer, {"search": {"epochs": LONGEST}})


def _only(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: settings[name]} if name in settings else {}


def _check_sections(layer: Mapping[str, Any]) -> None:
    """An ArdorError where a section is given a value in place of its settings."""
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


def presets() -> dict[str, str]:
    """Preset -> its first comment line."""
    return titles(PRESETS)


def titles(folder: str) -> dict[str, str]:
    """Each TOML file in a folder of the package -> its first comment line."""
    found = (resources.files("ardor") / folder).iterdir()
    files = {f.name[:-5]: f for f in found if f.name.endswith(".toml")}
    return {name: files[name].read_text().splitlines()[0].lstrip("# ") for name in sorted(files)}


def preset(name: str) -> dict[str, Any]:
    """The settings of a preset, on top of those of the one that it extends."""
    if name not in presets():
        raise unknown("preset", name, presets())
    own = tomllib.loads((resources.files("ardor") / PRESETS / f"{name}.toml").read_text())
    base = own.pop("extends", None)
    return merge(preset(base), own) if base else own


def read(path: Path) -> dict[str, Any]:
    """The settings in a TOML file."""
    try:
        return parse(read_bytes(path, LARGEST).decode())
    except (OSError, ValueError) as error:
        raise ArdorError(
            f"cannot read settings from '{path}': {reason(error)}", "it must be a TOML file"
        ) from error


def assignment(text: str) -> dict[str, Any]:
    """{"search": {"batch": 32}} from "search.batch=32"; what is no TOML value is a string."""
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
    """What a TOML text says; a ValueError where it is none, or not `plain`."""
    try:
        return dict(plain(tomllib.loads(text)))
    except RecursionError as error:
        raise too_deep() from error
