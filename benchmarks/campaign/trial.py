"""The command under trial: how a case calls it, and what it may answer."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

SECONDS = 120.0  # after which a command counts as one that never ends


@dataclass(frozen=True)
class Answer:
    """How a command ended: its exit code, None where it had to be killed, and what it said."""

    code: int | None
    out: str
    err: str

    def ended(self) -> str | None:
        """What is wrong with any ending: none at all, by a signal, or with a traceback."""
        if self.code is None:
            return "it never ended"
        if self.code < 0:
            return f"it was ended by {signal.Signals(-self.code).name}"
        return "it printed a traceback" if "Traceback" in self.out + self.err else None

    def refused(self) -> str | None:
        """What is wrong with a refusal: it must be one line, a hint and an exit code of 1 or 2."""
        if wrong := self.ended():
            return wrong
        if self.code not in (1, 2):
            return f"it ended with {self.code}"
        lines = self.err.splitlines()
        told = [sum(line.startswith(word) for line in lines) for word in ("error: ", "hint: ")]
        return None if told == [1, 1] else f"it said {lines[-3:]}"

    def done(self) -> str | None:
        """What is wrong with a success."""
        return self.ended() or (
            None if self.code == 0 else f"it ended with {self.code}: {self.err}"
        )


@dataclass(frozen=True)
class Ardor:
    """The Ardor in a source tree, and an empty folder to try a case in."""

    source: Path
    folder: Path

    def __call__(
        self, *words: str | Path, env: Mapping[str, str] | None = None, seconds: float = SECONDS
    ) -> Answer:
        """What a command answers in that folder."""
        return self.python("-m", "ardor", *words, env=env, seconds=seconds)

    def python(
        self, *words: str | Path, env: Mapping[str, str] | None = None, seconds: float = SECONDS
    ) -> Answer:
        """What Python answers there, with this Ardor to import."""
        process = self.begin(*words, env=env)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return Answer(None, out, err)
        return Answer(process.returncode, out, err)

    def begin(
        self, *words: str | Path, env: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[str]":
        """Python on its way there, in a group of processes of its own."""
        return subprocess.Popen(
            [sys.executable, *map(str, words)],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(self.source),
                "OMP_NUM_THREADS": "1",
                **(env or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            # A shell has what it starts in the background ignore SIGINT: not what is tried here.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


# Tries something, and says what went wrong; None where all went as it must.
Case = Callable[[Ardor], str | None]
