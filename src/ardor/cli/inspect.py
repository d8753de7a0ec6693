"""Commands that show architectures, images and runs, lists, and benches."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Group

from ardor import discover
from ardor.cli.options import FOLDER, answering, changing, cli, trusting
from ardor.cli.work import architecture_of, command, continued_by, screen_of

LISTS = ["methods", "spaces", "architectures", "networks", "data", "exporters", "presets"]
LISTS += ["priors", "groups", "settings", "benches"]


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
    """Show the cells that were found, and how sure the search is of each choice.

    Of a run that made a network smaller also each layer, before and after.
    """
    from ardor.cli.show import shown, smaller

    content = architecture_of(path)
    found = shown(content, every=every, runners_up=count)
    screen_of(as_json, quiet).result(content, Group(found, *smaller(path)))


@cli.command()
@click.argument("source", metavar="DATA")
@changing
@answering
def check(source: str, changes: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Count the images of each class, and warn of problems."""
    from ardor.cli.tables import summary_table
    from ardor.data import load
    from ardor.data.check import check as summarise
    from ardor.settings.merge import assignment, resolve

    config = resolve({"data": {"source": source}}, *map(assignment, changes))
    found = summarise(load(seed=config.seed, **config.data.model_dump()))
    screen_of(as_json, quiet).result(asdict(found), summary_table(found))


@cli.command("list")
@click.argument("what", type=click.Choice(LISTS))
@answering
def list_(what: str, as_json: bool, quiet: bool) -> None:
    """List methods, spaces, data and whatever else has a name."""
    from ardor.cli.catalogue import catalogue
    from ardor.cli.tables import table

    known = catalogue(what)
    screen_of(as_json, quiet).result(known, table("", (what, ""), list(known.items())))


@cli.command()
@click.argument("folders", nargs=-1, required=True, type=FOLDER, metavar="RUN...")
@answering
def compare(folders: tuple[Path, ...], as_json: bool, quiet: bool) -> None:
    """Compare runs side by side."""
    from ardor.cli.tables import rows_table
    from ardor.pipeline.compare import compared

    rows = compared(folders)
    screen_of(as_json, quiet).result(rows, rows_table(rows))


@cli.command()
@click.argument("name")
@click.option("--seeds", type=click.IntRange(1), help="Runs of each kind. [as the bench says]")
@click.option("--data", "source", help="Other images than the bench's own.")
@click.option(
    "--random", "chance", type=click.IntRange(0), help="Random architectures. [as the bench says]"
)
@click.option("--methods", metavar="A,B,...", help="These rows or methods. [those of the bench]")
@click.option(
    "--time", metavar="TIME", help="The time of a search, for example 6m; of rivals, of everything."
)
@click.option("--images", metavar="A,B,...", help="Of rivals: these sets of images. [all]")
@click.option("--table", type=FOLDER, help="The table of NAS-Bench-201, a CSV file.")
@click.option("--results", type=FOLDER, help="An earlier result: what it has is not run again.")
@click.option("--so-far", is_flag=True, help="Run nothing: the table of what is finished.")
@click.option("--folder", type=FOLDER, default=Path("runs/bench"), show_default=True)
@trusting
@answering
def bench(
    name: str,
    folder: Path,
    methods: str | None,
    images: str | None,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """A table of results; a bench can be stopped, and goes on where it was.

    With --results it also goes on from a result whose runs are elsewhere.

    'digits' is a table of methods and seeds, mean ± std. One named after a preset of a paper is the
    paper's table on --data, with the published figures: 'vinnas-mnist' searches once a seed, trains
    what each of two rules selects, and as many random architectures as --random says. 'speed' times
    steps and rankings against a plain DARTS supernet, in as many rounds as there are seeds, with
    their memory and how both grow; leave the machine alone meanwhile. 'shrink' is VINNAS with
    candidates leaving the supernet and without, on --data. 'nasbench201' looks up in --table what
    the cells that searches find are truly worth. 'collapse' watches searches fill with skip
    connections, or not; 'skips' does so for SI-VDNAS, at two lengths, and trains what is found;
    'dropout' compares its settings on the digits. 'guided' has networks that PGNAS's posterior
    draws, with the weights of the search, beside random ones of their size. 'gradients' has bias
    and spread of the gradients of sivdnas, on as many small problems as there are seeds. 'rivals'
    is Ardor beside what people write by hand, each in the same CPU seconds on images from the
    folder --data: --time 1m,5m and --methods choose among times and contenders; before, space,
    recipe, prior and search tell, where --methods names them, which part of what Ardor gained comes
    from what. 'ardor list benches' shows them all.
    """
    from ardor.bench.runs import bench as measure
    from ardor.cli.bench_tables import bench_table

    screen = screen_of(as_json, quiet)
    rows = tuple(filter(None, (methods or "").split(",")))
    discover.trust(filter(discover.is_dotted, rows))
    with continued_by(command()):
        result = measure(
            name,
            folder,
            **asked,
            methods=rows,
            images=tuple(filter(None, (images or "").split(","))),
            command=command(),
            say=screen.say,
            on_progress=screen.progress,
        )
    screen.result(result, bench_table(result))
