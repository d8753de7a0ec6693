"""Commands that work on the run of a finished search."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ardor import discover
from ardor.cli.options import (
    FOLDER,
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
from ardor.cli.work import screen_of, work

if TYPE_CHECKING:
    from ardor.pipeline.run import Run


@cli.command()
@existing
@click.option("--epochs", type=int, help="Passes over the training images.")
@teaching
@moving
@changing
@answering
def train(
    folder: Path,
    epochs: int | None,
    place: Path | None,
    changes: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Train the architecture that RUN's search found."""
    from ardor.pipeline.changes import changed, moved
    from ardor.pipeline.run import Run
    from ardor.settings.merge import assignment

    layers = [{"train": {"epochs": epochs}}] if epochs is not None else []
    layers += [teacher] if (teacher := teacher_of(options)) else []
    run = moved(Run.open(folder), place)
    with run.held():
        new = changed(run, "train", *layers, *map(assignment, changes))
        work(new, as_json, quiet, ("train",))


@cli.command()
@existing
@click.option(
    "--threshold",
    type=float,
    help="log(sigma^2 / mu^2) that leaves. [3; plain weights: none leaves]",
)
@bounding
@click.option("--fine-tune", type=int, metavar="EPOCHS", help="Train what is left. [0]")
@click.option("--curve", is_flag=True, help="Show accuracy against parameters; change nothing.")
@moving
@changing
@answering
def prune(
    folder: Path,
    curve: bool,
    place: Path | None,
    changes: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Zero the weights of the trained network that are only noise, and take out what does nothing.

    Plain weights are noise where they are small: sigma^2 is the mean square of their layer.

    The network becomes smaller, faster and stays as accurate: channels and operations that have no
    effect leave it for good. What was trained is kept, and can be pruned otherwise at any time.
    """
    from ardor.pipeline.changes import changed, check_pruned_by_itself, moved
    from ardor.pipeline.run import Run
    from ardor.settings.merge import assignment

    layers = [*_pruning(options), *map(assignment, changes)]
    run = moved(Run.open(folder), place)
    with run.held():
        if curve and not layers:
            check_pruned_by_itself(run, "prune")
            _show_curve(run, as_json, quiet)
        else:
            work(changed(run, "prune", *layers), as_json, quiet, ("prune",))


def _pruning(options: dict[str, Any]) -> list[dict[str, Any]]:
    """The given settings: a threshold, or the accuracy or size from which it follows."""
    from ardor.settings.merge import bounded

    given = {name: value for name, value in options.items() if value is not None}
    epochs = given.pop("fine_tune", None)
    if "threshold" in given and bounds_of(given):
        raise click.UsageError(
            "--threshold says what leaves; with --keep-accuracy, --max-params or --max-macs, "
            "that follows"
        )
    layers = [bounded(given)] if given else []
    return layers if epochs is None else [*layers, {"prune": {"fine_tune": epochs}}]


def _show_curve(run: "Run", as_json: bool, quiet: bool) -> None:
    """Measures the pruning curve, keeps it in the run folder and prints it."""
    from ardor.cli.tables import curve_table
    from ardor.pipeline.prune_stage import measure_curve

    screen = screen_of(as_json, quiet)
    run.on_progress = screen.progress
    with screen.watching("curve"):
        content = measure_curve(run, run.trained())
    screen.result(content, curve_table(content))


def _stage_command(stage: str, words: str) -> None:
    """A command that does one stage of a run and has no settings of its own."""

    @cli.command(stage, help=words)
    @existing
    @moving
    @answering
    def command(folder: Path, place: Path | None, as_json: bool, quiet: bool) -> None:
        from ardor.pipeline.changes import moved
        from ardor.pipeline.run import Run

        work(moved(Run.open(folder), place), as_json, quiet, (stage,))


@cli.command()
@existing
@click.option(
    "--format",
    "formats",
    multiple=True,
    metavar="NAME",
    help="In this format, or in several; see 'ardor list exporters'. [onnx]",
)
@moving
@answering
def export(
    folder: Path, formats: tuple[str, ...], place: Path | None, as_json: bool, quiet: bool
) -> None:
    """Write the network for other programs, and check that it computes the same there."""
    from ardor.pipeline.changes import changed, moved
    from ardor.pipeline.run import Run

    layers = [{"export": {"formats": formats}}] if formats else []
    discover.trust(filter(discover.is_dotted, formats))
    run = moved(Run.open(folder), place)
    with run.held():
        work(changed(run, "export", *layers), as_json, quiet, ("export",))


_stage_command("evaluate", "Measure the network on the test images, or on held-out ones.")
_stage_command("report", "Write one HTML page of the run.")


@cli.command()
@click.argument("folder", type=FOLDER, metavar="FOLDER")
@click.argument("images", nargs=-1, required=True, type=FOLDER)
@click.option(
    "--ensemble",
    "count",
    type=click.IntRange(1),
    default=1,
    metavar="K",
    help="The mean of K networks, of as many as search.ensemble has kept. [1]",
)
@trusting
@answering
def predict(folder: Path, images: tuple[Path, ...], count: int, as_json: bool, quiet: bool) -> None:
    """Labels and probabilities for image files, or folders of them.

    FOLDER is that of a run, or of a model: a run's model/, wherever it was copied to.
    """
    from ardor.cli.tables import predictions_table
    from ardor.models.predict import predict as predictions
    from ardor.pipeline.open import networks_in

    screen = screen_of(as_json, quiet)
    ensemble, which = networks_in(folder, count)
    found = predictions(ensemble, images)
    if count > 1:
        screen.say(f"by {count} networks of {folder} together")
    elif which:
        more = "" if which == "pruned" else ", as nothing was pruned yet"
        screen.say(f"by the {which} network of {folder}{more}")
    screen.result([p.to_json() for p in found], predictions_table(found))
