"""The command `ardor`, and options that several of its commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ardor import discover
from ardor.errors import unknown

Command = Callable[..., None]
FOLDER = click.Path(path_type=Path)


class Commands(click.Group):
    """Suggests the nearest command for an unknown one, and lists commands in order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            error = unknown("command", args[0], self.commands)
            error.code = 2
            raise error
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="ardor")
@click.pass_context
def cli(context: click.Context) -> None:
    """From labelled images to a small, sparse, trained network, by Bayesian architecture search.

    \b
    ardor run digits               search, train, prune, export, report: on built-in images
    ardor run photos/              the same on a folder with a folder of images for each class
    ardor predict runs/photos-thompson-1 new.png
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def answering(command: Command) -> Command:
    """The options of every command with a result."""
    as_json = click.option("--json", "as_json", is_flag=True, help="The result as one JSON object.")
    quiet = click.option("--quiet", is_flag=True, help="No progress, only the result.")
    return as_json(quiet(command))


def bounding(command: Command) -> Command:
    """What the pruned network must keep, or may have at most."""
    options = (
        click.option(
            "--keep-accuracy",
            type=float,
            metavar="PERCENT",
            help="Prune to the smallest network with this accuracy on the validation images.",
        ),
        click.option(
            "--max-params",
            type=int,
            metavar="N",
            help="Prune to the most accurate network with at most so many parameters.",
        ),
        click.option(
            "--max-macs",
            type=int,
            metavar="N",
            help="Prune to the most accurate with at most so many multiply-adds for an image.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def bounds_of(options: dict[str, Any]) -> dict[str, Any]:
    """The bounds of pruning among options, and nothing where they were not given."""
    names = ("keep_accuracy", "max_params", "max_macs")
    return {name: options[name] for name in names if options.get(name) is not None}


def teaching(command: Command) -> Command:
    """A pretrained model to learn from, beside the labels."""
    options = (
        click.option(
            "--teacher",
            "teacher_model",
            metavar="FILE",
            help="Learn from this ONNX classifier too, whatever its size: it is asked once for "
            "each image.",
        ),
        click.option(
            "--teacher-classes",
            metavar="FILE",
            help="Which of its outputs are which class, as TOML or JSON. [as many, in our order]",
        ),
        click.option(
            "--unlabelled",
            "teacher_unlabelled",
            metavar="MORE",
            help="Images without labels, a folder or .npz, to learn from the teacher alone.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def teacher_of(options: dict[str, Any]) -> dict[str, Any]:
    """The settings of a teacher among options, as a layer; nothing where they were not given."""
    names = ("model", "classes", "unlabelled")
    given = {name: options.get(f"teacher_{name}") for name in names}
    found = {name: value for name, value in given.items() if value is not None}
    return {"teacher": found} if found else {}


changing = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any setting, e.g. --set search.batch=32; see 'ardor list settings'.",
)
trusting = click.option(
    "--trust",
    metavar="MODULE",
    multiple=True,
    expose_value=False,
    callback=lambda context, option, modules: discover.trust(modules),
    help="Import this module of yours, e.g. lab.mine, if a run or file names it. [none]",
)
moving = click.option(
    "--data",
    "place",
    type=FOLDER,
    help="Where the images are now, if they are no longer where they were.",
)


def existing(command: Command) -> Command:
    """The run folder that a command works on, and the modules that it may import."""
    return click.argument("folder", type=FOLDER, metavar="RUN")(trusting(command))
