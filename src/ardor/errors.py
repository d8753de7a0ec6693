"""Errors that a user can cause: one line that names the value, and a hint for the way out."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class ArdorError(Exception):
    """A failure that the user can mend; the command line prints it and exits with `code`."""

    code = 1

    def __init__(self, message: str, hint: str = "see 'ardor --help'") -> None:
        super().__init__(message)
        self.hint = hint


class Interrupted(Exception):
    """The run was asked to stop and has saved all it did."""

    def __init__(self, message: str, hint: str = "nothing is lost: give the command again") -> None:
        super().__init__(message)
        self.hint = hint


def reason(error: Exception) -> str:
    """The message of an exception, without the path that an OSError repeats."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def printable(text: str) -> str:
    """Text in one line for a terminal, with control characters spelled out."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def unknown(kind: str, value: str, known: Iterable[str]) -> ArdorError:
    """The error for a name that is not in `known`, with the nearest one that is."""
    names = sorted(known)
    near = get_close_matches(value, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else "choose one of the known ones"
    return ArdorError(f"unknown {kind} '{value}'; known: {', '.join(names)}", hint)


@contextmanager
def reported(what: str, hint: str) -> Iterator[None]:
    """Has whatever goes wrong in a person's own code said in a line."""
    try:
        yield
    except ArdorError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raise ArdorError(f"{what} fails: {type(error).__name__}: {words:.200}", hint) from error
