"""The program `ardor`: runs a command, and turns what goes wrong into one line and a hint."""

import os
import resource
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED = 130
AGAIN = "nothing is lost: give the command again"
LONGEST = 1000  # characters of a message that can be read
LEAST = 2**30  # bytes of address space: torch alone maps 700 MB


class Signals:
    """SIGINT and SIGTERM: the first asks the command to end, any other ends it at once."""

    signalled = False
    at_once = True  # before and after the command, when no code could react

    def heed(self) -> None:
        """Handles signals from now on: the program ends quietly, with its own exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.end)
        sys.unraisablehook = self.swallowed

    def end(self, number: int, frame: FrameType | None) -> None:
        """The handler of a signal, which Python may call between any two instructions."""
        first, self.signalled = not self.signalled, True
        if not self.at_once:
            self.at_once = True
            raise KeyboardInterrupt
        with suppress(OSError):
            if first:
                os.write(2, f"error: interrupted\nhint: {AGAIN}\n".encode())
            if os.isatty(2):
                os.write(2, b"\x1b[?25h")  # a progress bar hides the cursor
        os._exit(INTERRUPTED)

    def swallowed(self, error: Any) -> None:
        """Handles an exception that Python cannot raise, such as one while it frees memory."""
        if error.exc_type is KeyboardInterrupt:
            os._exit(INTERRUPTED)
        sys.__unraisablehook__(error)

    def ignore(self) -> None:
        """Ignores signals, as the command is over and its exit code known."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def main() -> NoReturn:
    """Runs a command; what a user can cause ends in one line and a hint, never in a traceback."""
    signals = Signals()
    signals.heed()
    try:
        signals.at_once = False
        code = _run()
        signals.at_once = True
        code = INTERRUPTED if signals.signalled else code
    except BaseException:
        if not signals.signalled:
            raise
        signals.at_once = True
        code = _interrupted()
    signals.ignore()
    sys.exit(code)


def _run() -> int:
    """Runs the command and reports what went wrong; returns the exit code."""
    # Only here: a signal may come while they are loaded.
    import click

    from ardor.cli import cli
    from ardor.errors import ArdorError, Interrupted, reason

    _prepare_streams()
    try:
        _check_addresses()
        cli.main(prog_name="ardor", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        path = context.command_path if context else "ardor"
        words = " ".join(error.format_message().split())
        return _reported(words, f"see '{path} --help'", error.exit_code)
    except ArdorError as error:
        return _reported(str(error), error.hint, error.code)
    except Interrupted as error:
        return _reported(str(error), error.hint, INTERRUPTED)
    except (KeyboardInterrupt, click.Abort):
        return _interrupted()
    except OSError as error:
        _drop_output()
        what = f"use '{error.filename}'" if error.filename else "go on"
        return _reported(
            f"cannot {what}: {reason(error)}", "free some space, or use another place", 1
        )
    except (MemoryError, RuntimeError) as error:
        # Torch says "can't allocate memory" or "out of memory. Tried to allocate" of a device.
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        return _reported("not enough memory", _way_out(sys.argv[1:2]), 1)
    return 0


def _drop_output() -> None:
    """Drops what stdout does not take: Python would try again at its end, with a traceback."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupted() -> int:
    return _reported("interrupted", AGAIN, INTERRUPTED)


def _way_out(command: list[str]) -> str:
    """The hint for less memory, by command."""
    parts = {
        "run": "--set search.accumulate=4 --set train.accumulate=4",
        "search": "--set search.accumulate=4",
        "train": "--set train.accumulate=4",
    }
    if command and command[0] in parts:
        return f"compute a batch in parts: {parts[command[0]]}"
    return "close other programs, or use a machine with more memory"


def _check_addresses() -> None:
    """An ArdorError if libraries cannot be loaded: with less memory they crash or hang."""
    from ardor.errors import ArdorError

    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY and allowed < LEAST:
        raise ArdorError(
            f"an address space of {allowed / 2**20:.0f} MB is too small; must be at least 1 GB",
            "raise it: ulimit -v unlimited",
        )


def _prepare_streams() -> None:
    """Sends warnings to stderr, a line each; characters that cannot be shown are escaped."""
    import io
    import logging
    import threading

    from ardor.errors import printable

    class Line(logging.Formatter):
        """A warning in one line, whatever it names."""

        def format(self, record: logging.LogRecord) -> str:
            return printable(super().format(record))

    threading.excepthook = _aside
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler()
    handler.setFormatter(Line("warning: %(message)s"))
    logging.getLogger("ardor").handlers = [handler]


def _aside(error: Any) -> None:
    """Ignores errors of the disk in TensorBoard's thread: the command reports them itself."""
    if not issubclass(error.exc_type, OSError):
        sys.excepthook(error.exc_type, error.exc_value, error.exc_traceback)


def _reported(message: str, hint: str, code: int) -> int:
    """Writes message and hint, a line each, shortened if they are long; returns the code."""
    from ardor.errors import printable

    for word, text in (("error", message), ("hint", hint)):
        if len(text) > LONGEST:
            text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
        with suppress(OSError, AttributeError):  # stderr may be closed, or not there at all
            sys.stderr.write(f"{word}: {printable(text)}\n")
            sys.stderr.flush()
    return code


if __name__ == "__main__":
    main()
