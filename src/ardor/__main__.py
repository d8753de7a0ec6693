"""The program `ardor`: runs a command, and turns what goes wrong into one line and a hint."""

import io
import logging
import os
import resource
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from ardor.cli import cli
from ardor.errors import ArdorError, Interrupted, printable, reason

LONGEST = 1000  # characters of a message that can be read

LEAST = 2**30  # bytes of address space: torch alone maps 700 MB


def main() -> NoReturn:
    """Runs a command; what a user can cause ends in one line and a hint, never in a traceback."""
    # Threads that wait for each other sleep: spinning, they would take the time of whatever else
    # runs, and on a busy machine that of one another. On an idle one it makes no difference.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGTERM, _terminate)
    _prepare_streams()
    _check_addresses()
    try:
        cli.main(prog_name="ardor", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        path = context.command_path if context else "ardor"
        _fail(" ".join(error.format_message().split()), f"see '{path} --help'", error.exit_code)
    except ArdorError as error:
        _fail(str(error), error.hint, error.code)
    except Interrupted as error:
        _fail(str(error), error.hint, 130)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted", Interrupted("").hint, 130)
    except OSError as error:
        what = f"use '{error.filename}'" if error.filename else "go on"
        _fail(f"cannot {what}: {reason(error)}", "free some space, or use another place", 1)
    except (MemoryError, RuntimeError) as error:
        # Torch says "can't allocate memory" or "out of memory. Tried to allocate" of a device.
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        _fail("not enough memory", _way_out(sys.argv[1:2]), 1)
    sys.exit(0)


def _way_out(command: list[str]) -> str:
    """What needs less memory, by what was asked for."""
    parts = {
        "run": "--set search.accumulate=4 --set train.accumulate=4",
        "search": "--set search.accumulate=4",
        "train": "--set train.accumulate=4",
    }
    if command and command[0] in parts:
        return f"compute a batch in parts: {parts[command[0]]}"
    return "close other programs, or use a machine with more memory"


def _check_addresses() -> None:
    """Ends where the libraries cannot even be loaded: with less they crash, or wait for ever."""
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY and allowed < LEAST:
        _fail(
            f"an address space of {allowed / 2**20:.0f} MB is too small; must be at least 1 GB",
            "raise it: ulimit -v unlimited",
            1,
        )


def _prepare_streams() -> None:
    """Warnings go to stderr in a line each; no name is one that a terminal cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler()
    handler.setFormatter(_Line("warning: %(message)s"))
    logging.getLogger("ardor").handlers = [handler]


class _Line(logging.Formatter):
    """A warning in one line, whatever it names."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _fail(message: str, hint: str, code: int) -> NoReturn:
    """Ends with one line each, whatever a folder is called, and however long a value is."""
    for word, text in (("error", message), ("hint", hint)):
        if len(text) > LONGEST:
            text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
        click.echo(f"{word}: {printable(text)}", err=True)
    sys.exit(code)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
