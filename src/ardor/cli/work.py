"""Doing the stages of a run while a person watches."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ardor import discover
from ardor.errors import ArdorError, Interrupted, unknown

if TYPE_CHECKING:
    from ardor.cli.screen import Screen
    from ardor.pipeline.run import Run

LONG = {
    "train": "training",
    "prune": "pruning",
    "compress": "compressing",
}  # stages that take a while


def command() -> str:
    """The command as it was typed."""
    return shlex.join(["ardor", *sys.argv[1:]])


def work(run: "Run", as_json: bool, quiet: bool, stages: tuple[str, ...] | None = None) -> None:
    """Does these stages, or all that are not done, with progress; prints the figures."""
    from ardor.cli.tables import metrics_table
    from ardor.data.left_out import files
    from ardor.pipeline.stages import do
    from ardor.reporting.exports import rows
    from ardor.reporting.read import exports_of, pruned_of, warnings_of

    screen = screen_of(as_json, quiet)
    run.on_progress = screen.progress
    screen.say(f"run folder: {run.folder}")
    for line in run.said:
        screen.say(f"plan: {line}")
    with continued_by(run.typed("resume")), run.held():
        for stage in run.stages if stages is None else stages:
            if stages is None and run.done(stage):
                continue
            if stage == run.stages[0]:
                for note in run.images.notes:
                    screen.say(f"images: {note}")
                if left := files(run.images.left_out):
                    named = shlex.join(["ardor", "check", run.place])
                    screen.say(f"images: {left:,} files left out; '{named}' names them")
            screen.say(f"{stage} ...")
            with screen.watching(stage, following(run, stage) if stages is None else ""):
                do(run, stage)
    exported, warnings = exports_of(run.folder), warnings_of(run.folder)
    lost = pruned_of(run.folder)
    content = {
        "run": str(run.folder),
        **run.metrics,
        "warnings": warnings,
        **({"pruned": asdict(lost)} if lost else {}),
        "exports": exported.get("exports", {}),
    }
    words = lost.words if lost else ""
    screen.result(content, metrics_table(run.metrics, list(rows(exported)), warnings, words))
    if run.done("report"):
        screen.say(f"report: {run.folder / 'report.html'}")


def following(run: "Run", stage: str) -> str:
    """What takes a while of all that is left to do after a stage."""
    return " and ".join(LONG[s] for s in run.stages_left() if s in LONG and s != stage)


def architecture_of(path: Path) -> Any:
    """The content of an architecture's file, or of the one in a run folder; or that of a name.

    A name is also a network's, or a module's that builds one: typing it is trusting it.
    """
    from ardor import spaces
    from ardor.runtime.files import read_json

    names = [*spaces.named(), *spaces.networks()]
    if str(path) in names:
        return spaces.known(str(path)).to_json()
    if not path.exists() and path.suffix != ".json" and len(path.parts) == 1:
        module = discover.module_of(str(path))
        if not discover.is_dotted(module):
            hint = unknown("architecture", str(path), names).hint
            raise ArdorError(f"no file '{path}', and no architecture of that name", hint)
        discover.trust([module])
        return spaces.known(module).to_json()
    return read_json(path / "architecture.json" if path.is_dir() else path)


@contextmanager
def continued_by(command: str) -> Iterator[None]:
    """Adds to an interrupt the command that continues the run."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as error:
        said = str(error) or "interrupted"
        raise Interrupted(said, f"nothing is lost: go on with '{command}'") from error


def screen_of(as_json: bool, quiet: bool) -> "Screen":
    """The screen on which a command shows progress and its result."""
    from ardor.cli.screen import Screen

    return Screen(as_json=as_json, quiet=quiet)
