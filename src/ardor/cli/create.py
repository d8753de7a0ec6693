"""Commands that make a run and go on with it."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ardor import discover
from ardor.cli.options import (
    FOLDER,
    Command,
    answering,
    bounding,
    bounds_of,
    changing,
    cli,
    existing,
    moving,
    teacher_of,
    teaching,
    trusting,
)
from ardor.cli.work import architecture_of, command, screen_of, work
from ardor.runtime.progress import clock_from_now

if TYPE_CHECKING:
    from ardor.architecture import Architecture
    from ardor.cli.screen import Screen
    from ardor.pipeline.plan import Layers


# A network that a person has named stays as large as it is, unless they ask for less.
AS_IT_IS = {"train": {"max_weights": 0}, "prune": {"within": 0.0}}


def creating(made: Command) -> Command:
    """The options that make a new run."""
    options = (
        click.argument("source", metavar="DATA"),
        click.option("--run", "folder", type=FOLDER, help="New folder. [runs/DATA-METHOD-N]"),
        click.option("--preset", help="Settings to start from; see 'ardor list presets'. [photos]"),
        click.option("--config", "file", type=FOLDER, help="Settings from a TOML file."),
        click.option("--method", help="How to search; see 'ardor list methods'. [thompson]"),
        click.option("--space", help="What to search; see 'ardor list spaces'. [blocks]"),
        click.option("--epochs", type=int, help="Passes over the images, in search and training."),
        click.option(
            "--time",
            metavar="20m",
            help="Time of the whole command, e.g. 90s or 1h30m, from loading to the report. "
            "[at most 15m]",
        ),
        click.option(
            "--shrink",
            metavar="N|off",
            help="Take candidates given up for N epochs in a row out of the search. [3]",
        ),
        click.option(
            "--stop-on-collapse",
            "stop",
            is_flag=True,
            default=None,
            help="End the search when its cells fill with skip connections or pools, with the "
            "architecture from before.",
        ),
        click.option("--seed", type=int, help="Of everything random. [0]"),
        click.option("--device", help="auto, cpu, cuda or mps. [auto]"),
        changing,
        trusting,
        click.option(
            "--dry-run",
            is_flag=True,
            help="Only check everything, time a few steps, and say how long it would take.",
        ),
    )
    for option in reversed(options):
        made = option(made)
    return answering(made)


@cli.command()
@click.option(
    "--architecture",
    type=FOLDER,
    metavar="RUN|FILE|NAME",
    help="Train this one, found on whatever images, and search none: of 'ardor list "
    "architectures', 'ardor list networks', or a module of yours, lab.nets:build.",
)
@bounding
@teaching
@creating
def run(as_json: bool, quiet: bool, **options: Any) -> None:
    """Search, train, prune, export, evaluate and report in one go.

    DATA is a folder with a folder of images for each class, a folder with MNIST's or CIFAR's
    files, an .npz file, or a known name such as 'digits'.
    """
    from ardor.pipeline.run import STAGES

    stages = STAGES if options["architecture"] is None else STAGES[1:]
    _begin(options, stages, as_json, quiet)


@cli.command()
@creating
def search(as_json: bool, quiet: bool, **options: Any) -> None:
    """Search for an architecture only; go on with 'ardor train'."""
    _begin(options, ("search",), as_json, quiet)


def _begin(options: dict[str, Any], stages: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Makes and does a new run; with --dry-run only estimates how long it would take."""
    clock = clock_from_now()  # before torch is loaded, which takes seconds
    from ardor.pipeline.run import Run

    given = {name: value for name, value in options.items() if value is not None}
    found = _architecture(given["architecture"]) if "architecture" in given else None
    layers, folder = _layers(given, found), given.get("folder")
    if given["dry_run"]:
        _estimate(folder, layers, stages, screen_of(as_json, quiet), found)
    else:
        run = Run.create(
            folder, *layers, command=command(), stages=stages, given=found, clock=clock
        )
        work(run, as_json, quiet)


def _architecture(path: Path) -> "Architecture":
    """The architecture in a run folder or a file, or of a name."""
    from ardor.architecture import Architecture

    return Architecture.from_json(architecture_of(path))


def _where_found(found: "Architecture | None") -> list[dict[str, Any]]:
    """The space of an architecture, without settings that follow from its images."""
    from ardor.pipeline.resolve import SIZES

    if found is None:
        return []
    settings = {name: value for name, value in found.settings if name not in SIZES}
    own: dict[str, Any] = {
        "space": {"name": found.space, **settings},
        "train": {"start": "scratch"},
    }
    return [own] if found.kept else [own, AS_IT_IS]


def _layers(given: dict[str, Any], found: "Architecture | None" = None) -> "Layers":
    """The settings of a new run; each layer goes over those before it."""
    from ardor.pipeline.resolve import over_usual
    from ardor.settings.merge import merge, read
    from ardor.settings.presets import preset

    network = found is not None and not found.kept
    layers = [preset(given["preset"])] if "preset" in given else []
    if network:  # of a preset, its space is of no use
        layers = [_without_space(layer) for layer in layers]
    layers += [read(given["file"])] if "file" in given else []
    typed: dict[str, Any] = functools.reduce(merge, _typed(given), {})
    discover.trust(_modules(typed))
    layers.append(typed)
    # Settings of a network's space are no sign that another space or method is searched.
    usual = over_usual(*(_without_space(layer) if network else layer for layer in layers))
    return (*usual[: -len(layers)], *_where_found(found), *layers)


def _without_space(layer: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in layer.items() if name not in ("space", "network")}


def _modules(typed: dict[str, Any]) -> list[str]:
    """The modules typed as method, space or export format: typing a name is trusting it."""
    places = (("method", "name"), ("space", "name"), ("export", "formats"))
    sections = [(typed.get(section), key) for section, key in places]
    named = [section.get(key) for section, key in sections if isinstance(section, dict)]
    each = [one for names in named for one in (names if isinstance(names, list) else [names])]
    return [name for name in each if discover.is_dotted(name)]


def _estimate(
    folder: Path | None,
    layers: "Layers",
    stages: tuple[str, ...],
    screen: "Screen",
    given: "Architecture | None",
) -> None:
    """Shows how long a run would take, without making one."""
    from ardor.cli.tables import estimate_table
    from ardor.pipeline.estimate import estimate
    from ardor.pipeline.folder import check_free

    if folder is not None:
        check_free(folder)
    found = estimate(layers, stages, screen.say, given)
    screen.result(found, estimate_table(found))


def _typed(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings on the command line, each option's by itself."""
    from ardor.settings.merge import assignment, bounded

    layers: list[dict[str, Any]] = []
    layers += [{name: given[name]} for name in ("seed", "device") if name in given]
    layers += [{"method": {"name": given["method"]}}] if "method" in given else []
    layers += [{"space": {"name": discover.module_of(given["space"])}}] if "space" in given else []
    if "epochs" in given:
        layers.append({stage: {"epochs": given["epochs"]} for stage in ("search", "train")})
    if "shrink" in given:
        patience = 0 if given["shrink"] == "off" else given["shrink"]
        layers.append({"search": {"shrink": patience}})
    if "stop" in given:
        layers.append({"search": {"stop_on_collapse": given["stop"]}})
    if "time" in given:
        layers.append({"time": given["time"]})
    layers.append(bounded(bounds_of(given)))
    layers.append(teacher_of(given))
    layers.append({"data": {"source": given["source"]}})
    return layers + [assignment(change) for change in given["changes"]]


@cli.command()
@existing
@moving
@answering
def resume(folder: Path, place: Path | None, as_json: bool, quiet: bool) -> None:
    """Continue a run that was stopped, from its newest checkpoint."""
    from ardor.pipeline.changes import moved
    from ardor.pipeline.run import Run

    work(moved(Run.open(folder), place), as_json, quiet)
