"""The command that makes a network smaller."""

from typing import Any

import click

from ardor.cli.options import (
    FOLDER,
    answering,
    bounding,
    bounds_of,
    changing,
    cli,
    teacher_of,
    teaching,
    trusting,
)
from ardor.cli.work import command, work
from ardor.runtime.progress import clock_from_now

OF_SIZE = ("max_params", "max_macs", "times_smaller")


@cli.command()
@click.argument("network", metavar="MODEL")
@click.option("--data", "source", required=True, help="Labelled images, as of 'ardor run'.")
@click.option(
    "--weights", type=FOLDER, help="A safetensors file with the weights of a module of yours."
)
@click.option("--prior", help="What says which groups leave; see 'ardor list priors'. [laplace]")
@click.option(
    "--groups",
    metavar="A,B",
    help="What leaves together, one or several of 'ardor list groups'. [filters]",
)
@bounding
@click.option(
    "--times-smaller",
    type=float,
    metavar="X",
    help="Have so many times fewer parameters that are not zero.",
)
@click.option("--run", "folder", type=FOLDER, help="New folder. [runs/DATA-NETWORK-N]")
@click.option("--epochs", type=int, help="Passes over the images. [20]")
@click.option("--time", metavar="20m", help="Time of the whole command, e.g. 90s or 1h30m.")
@click.option("--seed", type=int, help="Of everything random. [0]")
@click.option("--device", help="auto, cpu, cuda or mps. [auto]")
@teaching
@changing
@trusting
@answering
def compress(network: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Make a network that you have smaller; it is left as it is, and a smaller one is written.

    MODEL is the folder of a run or a model, a module of yours, lab.nets:build, with its --weights,
    or one of 'ardor list networks', which is trained first. It learns on while groups of its
    weights leave, channels and all; without any bound it loses at most half a percent of accuracy.
    """
    clock = clock_from_now()  # before torch is loaded, which takes seconds
    from ardor.pipeline.given import given, layers_for
    from ardor.pipeline.run import Run

    typed = {name: value for name, value in options.items() if value is not None}
    found = given(network, typed.get("weights"))
    layers = layers_for(found, _typed(typed), _seconds(typed.get("time")))
    run = Run.create(typed.get("folder"), *layers, command=command(), clock=clock, **found.creating)
    work(run, as_json, quiet)


def _seconds(time: str | None) -> float:
    """The time that was typed; 0 for none."""
    from ardor.settings.fields import checked
    from ardor.settings.sections import CompressConfig

    return 0.0 if time is None else checked("", CompressConfig, {"time": time}).time


def _typed(options: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings on the command line."""
    from ardor.settings.merge import assignment

    asked = {**bounds_of(options), **{n: options[n] for n in (*OF_SIZE, "prior") if n in options}}
    if "keep_accuracy" in asked and any(name in asked for name in OF_SIZE):
        raise click.UsageError(
            "--keep-accuracy makes the network as small as that allows; with --max-params, "
            "--max-macs or --times-smaller its size is given"
        )
    if "groups" in options:
        asked["groups"] = tuple(options["groups"].split(","))
    layers: list[dict[str, Any]] = [{"compress": asked}]
    layers += [{name: options[name]} for name in ("seed", "device") if name in options]
    if "epochs" in options:
        layers.append({stage: {"epochs": options["epochs"]} for stage in ("train", "compress")})
    layers += [teacher_of(options), {"data": {"source": options["source"]}}]
    return layers + [assignment(change) for change in options["changes"]]
