"""The command line: each command reads its options and makes one call."""

import functools
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ardor.errors import Interrupted, unknown

if TYPE_CHECKING:
    from ardor.config import Config
    from ardor.run import Run
    from ardor.terminal import Screen

# Libraries are imported inside the commands: 'ardor --help' must not wait for torch.

Command = Callable[..., None]
FOLDER = click.Path(path_type=Path)
LISTS = ["methods", "spaces", "data", "presets", "settings", "benches"]


class Commands(click.Group):
    """Suggests the nearest command for one that is not known, and lists them as they are used."""

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
    ardor predict runs/photos-vinnas-1 new.png
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def answering(command: Command) -> Command:
    """The options of every command that answers."""
    as_json = click.option("--json", "as_json", is_flag=True, help="The result as one JSON object.")
    quiet = click.option("--quiet", is_flag=True, help="No progress, only the result.")
    return as_json(quiet(command))


def creating(command: Command) -> Command:
    """The options that make a new run."""
    options = (
        click.argument("source", metavar="DATA"),
        click.option("--run", "folder", type=FOLDER, help="New folder. [runs/DATA-METHOD-N]"),
        click.option("--preset", help="Settings to start from; see 'ardor list presets'."),
        click.option("--config", "file", type=FOLDER, help="Settings from a TOML file."),
        click.option("--method", help="How to search; see 'ardor list methods'. [vinnas]"),
        click.option("--space", help="What to search; see 'ardor list spaces'. [cells]"),
        click.option("--epochs", type=int, help="Passes over the images, in search and training."),
        click.option(
            "--time",
            metavar="20m",
            help="Longest time of the search, e.g. 90s or 1h30m; it decides the number of epochs, "
            "which is at most --epochs where both are given.",
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
        click.option(
            "--dry-run",
            is_flag=True,
            help="Only check everything, time a few steps, and say how long it would take.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return answering(command)


changing = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any setting, e.g. --set search.batch=32; see 'ardor list settings'.",
)
existing = click.argument("folder", type=FOLDER, metavar="RUN")


@cli.command()
@creating
def run(as_json: bool, quiet: bool, **options: Any) -> None:
    """Search, train, prune, export, evaluate and report in one go.

    DATA is a folder with a folder of images for each class, a folder with MNIST's or CIFAR-10's
    files, an .npz file, or a known name such as 'digits'.
    """
    from ardor.run import STAGES

    _begin(options, STAGES, as_json, quiet)


@cli.command()
@creating
def search(as_json: bool, quiet: bool, **options: Any) -> None:
    """Search for an architecture only; go on with 'ardor train'."""
    _begin(options, ("search",), as_json, quiet)


def _begin(options: dict[str, Any], stages: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """A new run as the options say; or, asked for a dry run, how long it would take."""
    from ardor.config import resolve
    from ardor.run import Run

    given = {name: value for name, value in options.items() if value is not None}
    layers = _layers(given)
    folder = given.get("folder") or _free_folder(resolve(*layers))
    if given["dry_run"]:
        _estimate(folder, layers, stages, _screen(as_json, quiet))
    else:
        _work(Run.create(folder, *layers, command=_command(), stages=stages), as_json, quiet)


def _layers(given: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The settings of a new run; each layer goes over those before it."""
    from ardor import config

    layers = [config.preset(given["preset"])] if "preset" in given else []
    layers += [config.read(given["file"])] if "file" in given else []
    return (*layers, functools.reduce(config.merge, _typed(given), {}))


def _estimate(
    folder: Path, layers: tuple[dict[str, Any], ...], stages: tuple[str, ...], screen: "Screen"
) -> None:
    """Says how long a run would take, and makes none."""
    from ardor.estimate import estimate
    from ardor.run import check_free
    from ardor.terminal import estimate_table

    check_free(folder)
    found = estimate(layers, stages, screen.say)
    screen.result(found, estimate_table(found))


def _typed(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings on the command line, each option's by itself."""
    from ardor.config import assignment

    layers: list[dict[str, Any]] = []
    layers += [{name: given[name]} for name in ("seed", "device") if name in given]
    layers += [{name: {"name": given[name]}} for name in ("method", "space") if name in given]
    if "epochs" in given:
        layers.append({stage: {"epochs": given["epochs"]} for stage in ("search", "train")})
    if "shrink" in given:
        patience = 0 if given["shrink"] == "off" else given["shrink"]
        layers.append({"search": {"shrink": patience}})
    if "stop" in given:
        layers.append({"search": {"stop_on_collapse": given["stop"]}})
    if "time" in given:
        layers.append({"search": {"time": given["time"]}})
    layers.append({"data": {"source": given["source"]}})
    return layers + [assignment(change) for change in given["changes"]]


def _free_folder(config: "Config") -> Path:
    """The first of runs/DATA-METHOD-1, -2, ... that is free."""
    data, number = os.path.basename(os.path.abspath(config.data.source)), 1
    while (folder := Path("runs") / f"{data}-{config.method['name']}-{number}").exists():
        number += 1
    return folder


def _command() -> str:
    return shlex.join(["ardor", *sys.argv[1:]])


def _work(run: "Run", as_json: bool, quiet: bool, stages: tuple[str, ...] | None = None) -> None:
    """Does the stages, or those that are left, showing progress; prints what came out."""
    from ardor.run import typed
    from ardor.stages import do
    from ardor.terminal import metrics_table

    screen = _screen(as_json, quiet)
    run.watch = screen.progress
    screen.say(f"run folder: {run.folder}")
    with _continued_by(typed("resume", run.folder)):
        for stage in run.stages_left() if stages is None else stages:
            if stage == "search":
                for note in run.dataset.notes:
                    screen.say(f"images: {note}")
            screen.say(f"{stage} ...")
            with screen.watching(stage):
                do(run, stage)
    screen.result({"run": str(run.folder), **run.metrics}, metrics_table(run.metrics))
    if run.done("report"):
        screen.say(f"report: {run.folder / 'report.html'}")


@contextmanager
def _continued_by(command: str) -> Iterator[None]:
    """Has an interrupt say how to go on."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as error:
        said = str(error) or "interrupted"
        raise Interrupted(said, f"nothing is lost: go on with '{command}'") from error


def _screen(as_json: bool, quiet: bool) -> "Screen":
    from ardor.terminal import Screen

    return Screen(as_json=as_json, quiet=quiet)


@cli.command()
@existing
@answering
def resume(folder: Path, as_json: bool, quiet: bool) -> None:
    """Continue a run that was stopped, from its newest checkpoint."""
    from ardor.run import Run

    _work(Run.open(folder), as_json, quiet)


@cli.command()
@existing
@click.option("--epochs", type=int, help="Passes over the training images.")
@changing
@answering
def train(
    folder: Path, epochs: int | None, changes: tuple[str, ...], as_json: bool, quiet: bool
) -> None:
    """Train the architecture that RUN's search found, from scratch."""
    from ardor.config import assignment
    from ardor.run import Run

    layers = [{"train": {"epochs": epochs}}] if epochs is not None else []
    run = Run.open(folder).changed("train", *layers, *map(assignment, changes))
    _work(run, as_json, quiet, ("train",))


@cli.command()
@existing
@click.option("--threshold", type=float, help="log(sigma^2 / mu^2) that leaves. [3]")
@click.option(
    "--keep-accuracy",
    type=float,
    metavar="PERCENT",
    help="Take the smallest network with this accuracy on the validation images.",
)
@click.option(
    "--max-params", type=int, help="Take the most accurate with at most so many parameters."
)
@click.option("--fine-tune", type=int, metavar="EPOCHS", help="Train what is left. [0]")
@click.option("--curve", is_flag=True, help="Show accuracy against parameters; change nothing.")
@changing
@answering
def prune(
    folder: Path, curve: bool, changes: tuple[str, ...], as_json: bool, quiet: bool, **options: Any
) -> None:
    """Zero the weights of the trained network that are only noise, and take out what does nothing.

    The network becomes smaller, faster and stays as accurate: channels and operations that have no
    effect leave it for good. What was trained is kept, and can be pruned otherwise at any time.
    """
    from ardor.config import assignment
    from ardor.run import Run

    layers = [*_pruning(options), *map(assignment, changes)]
    if curve and not layers:
        _show_curve(Run.open(folder), as_json, quiet)
    else:
        _work(Run.open(folder).changed("prune", *layers), as_json, quiet, ("prune",))


def _pruning(options: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings that were given: a threshold, or what it is to follow from."""
    given = {name: value for name, value in options.items() if value is not None}
    asked = {name: given[name] for name in ("keep_accuracy", "max_params") if name in given}
    if asked and "threshold" in given:
        raise click.UsageError(
            "--threshold says what leaves; with --keep-accuracy or --max-params, that follows"
        )
    if asked or "threshold" in given:
        given = {"keep_accuracy": 0.0, "max_params": 0, **given}
    return [{"prune": given}] if given else []


def _show_curve(run: "Run", as_json: bool, quiet: bool) -> None:
    """Measures the pruning curve, keeps it in the run folder and prints it."""
    from ardor.pruning import measure_curve
    from ardor.terminal import curve_table

    screen = _screen(as_json, quiet)
    run.watch = screen.progress
    with screen.watching("curve"):
        content = measure_curve(run, run.trained())
    screen.result(content, curve_table(content))


def _stage_command(stage: str, words: str) -> None:
    """A command that does one stage of a run and has no settings of its own."""

    @cli.command(stage, help=words)
    @existing
    @answering
    def command(folder: Path, as_json: bool, quiet: bool) -> None:
        from ardor.run import Run

        _work(Run.open(folder), as_json, quiet, (stage,))


_stage_command("export", "Write the network as ONNX, and check that it computes the same.")
_stage_command("evaluate", "Measure the network on the test images.")
_stage_command("report", "Write one HTML page of the run.")


@cli.command()
@existing
@click.argument("images", nargs=-1, required=True, type=FOLDER)
@answering
def predict(folder: Path, images: tuple[Path, ...], as_json: bool, quiet: bool) -> None:
    """Labels and probabilities for image files, or folders of them."""
    from ardor.predict import predict as predictions
    from ardor.run import load
    from ardor.terminal import predictions_table

    found = predictions(load(folder), images)
    _screen(as_json, quiet).result([p.to_json() for p in found], predictions_table(found))


@cli.command()
@click.argument("path", type=FOLDER, metavar="RUN|ARCHITECTURE")
@click.option("--all", "every", is_flag=True, help="Every candidate, not only what was kept.")
@click.option(
    "--runners-up",
    "count",
    type=click.IntRange(1),
    metavar="N",
    help="The N most likely other architectures too, and in what they differ.",
)
@answering
def show(path: Path, every: bool, count: int | None, as_json: bool, quiet: bool) -> None:
    """The cells that were found, and how sure the search is of each choice."""
    from ardor.files import read_json
    from ardor.show import shown

    content = read_json(path / "architecture.json" if path.is_dir() else path)
    _screen(as_json, quiet).result(content, shown(content, every=every, runners_up=count))


@cli.command()
@click.argument("source", metavar="DATA")
@changing
@answering
def check(source: str, changes: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """What is found in the data, and what would be wrong with it."""
    from ardor.config import assignment, resolve
    from ardor.data import load
    from ardor.data.check import check as summarise
    from ardor.terminal import summary_table

    config = resolve({"data": {"source": source}}, *map(assignment, changes))
    found = summarise(load(seed=config.seed, **config.data.model_dump()))
    _screen(as_json, quiet).result(asdict(found), summary_table(found))


@cli.command("list")
@click.argument("what", type=click.Choice(LISTS))
@answering
def list_(what: str, as_json: bool, quiet: bool) -> None:
    """What there is to choose from."""
    from ardor.catalogue import catalogue
    from ardor.terminal import table

    known = catalogue(what)
    _screen(as_json, quiet).result(known, table("", (what, ""), list(known.items())))


@cli.command()
@click.argument("folders", nargs=-1, required=True, type=FOLDER, metavar="RUN...")
@answering
def compare(folders: tuple[Path, ...], as_json: bool, quiet: bool) -> None:
    """Runs side by side."""
    from ardor.bench import compared
    from ardor.terminal import rows_table

    rows = compared(folders)
    _screen(as_json, quiet).result(rows, rows_table(rows))


@cli.command()
@click.argument("name")
@click.option("--seeds", type=click.IntRange(1), help="Runs of each kind. [as the bench says]")
@click.option("--data", "source", help="Other images than the bench's own.")
@click.option(
    "--random", "chance", type=click.IntRange(0), help="Random architectures. [as the bench says]"
)
@click.option("--also", multiple=True, metavar="METHOD", help="A further method, set alike.")
@click.option("--so-far", is_flag=True, help="Run nothing: the table of what is finished.")
@click.option("--folder", type=FOLDER, default=Path("runs/bench"), show_default=True)
@answering
def bench(name: str, folder: Path, as_json: bool, quiet: bool, **asked: Any) -> None:
    """A table of results; a bench can be stopped, and goes on where it was.

    'digits' is a table of methods and seeds, mean ± std. One named after a preset of a paper is the
    paper's table on --data, beside what is printed: 'vinnas-mnist' searches once a seed, trains
    what each of two rules selects, and as many random architectures as --random says. 'speed' times
    steps and rankings against a plain DARTS supernet, in as many rounds as there are seeds, with
    their memory and how both grow; leave the machine alone meanwhile. 'shrink' is VINNAS with
    candidates leaving the supernet and without, on --data. 'ardor list benches' shows them all.
    """
    from ardor.bench import bench as measure
    from ardor.terminal import bench_table

    screen = _screen(as_json, quiet)
    with _continued_by(_command()):
        result = measure(
            name, folder, **asked, command=_command(), say=screen.say, watch=screen.progress
        )
    screen.result(result, bench_table(result))
