"""Compiled code: caches that are damaged, strange or missing, and compilers that are no use.

Each case asks a new process for one small state. It must end with the right numbers, run no code
of a stranger, and say what it does without in one line. The compiler copies what a true one has
made once, so that a case takes a few seconds.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from trial import Ardor, Case

STATE = """
import os, torch
from ardor.native import build as native
{before}
from ardor.layers.mixed import output
from ardor.layers.operations import OPS
from ardor.layers.style import Style
torch.manual_seed(0)
chain, x = OPS["sep_conv_3x3"](8, 1, Style()), torch.randn(2, 8, 6, 6)
print("right" if torch.allclose(output(chain, x), chain(x), atol=1e-4) else "wrong")
print("native" if native.library() else "plain")
"""
COPIES = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
exec cp "{folder}/whole.so" "$2"
"""
SPEAKS = '__attribute__((constructor)) void speak(void) { write(1, "stranger\\n", 9); }\n'
# What a compiler may do instead.
COMPILERS = {
    "hangs": "sleep 300",
    "hangs with a child": "sleep 300 & wait",
    "fails": "exit 1",
    "makes nothing": "exit 0",
    "makes an empty file": 'while [ "$1" != -o ]; do shift; done; : > "$2"',
    "makes a text": 'while [ "$1" != -o ]; do shift; done; echo no > "$2"',
    "dies": "kill -9 $$",
    "prints for ever": "while :; do echo no; echo no >&2; done",
}
NAMELESS = "del os.environ['HOME']; os.getuid = lambda: 2**31 - 7"


@dataclass(frozen=True)
class Shop:
    """The libraries and the compiler that cases use, and what a kept library is called."""

    room: "tempfile.TemporaryDirectory[str]"  # goes with the process
    name: str

    @property
    def folder(self) -> Path:
        """Where they are."""
        return Path(self.room.name)


@cache
def shop(source: Path) -> Shop:
    """Made once for a source tree."""
    room = tempfile.TemporaryDirectory()
    folder = Path(room.name)
    (folder / "cc").write_text(COPIES.format(folder=folder))
    (folder / "cc").chmod(0o755)
    flags = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]
    code = source / "ardor" / "native" / "states.c"
    subprocess.run(["cc", *flags, str(code), "-lm", "-o", str(folder / "whole.so")], check=True)
    for name, text in {"strange": "#include <unistd.h>\n" + SPEAKS, "lacking": "int x;\n"}.items():
        command = ["cc", "-shared", "-fPIC", "-w", "-xc", "-", "-o", str(folder / f"{name}.so")]
        subprocess.run(command, input=text.encode(), check=True)
    first = Ardor(source, folder)
    env = {"CC": str(folder / "cc"), "XDG_CACHE_HOME": str(folder / "cache")}
    first.python("-c", "from ardor.native.build import library; library()", env=env)
    (kept,) = folder.glob("cache/ardor/*.so")
    return Shop(room, kept.name)


# What becomes of the kept library; the shop has others.
Harm = Callable[[Path, Shop], object]


@dataclass(frozen=True)
class Trial:
    """One case: what is done to the cache, the process and its compiler, and what must come."""

    harm: Harm | None = None
    before: str = ""
    compiler: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    ends: str = "native"
    lines: int = 1

    def __call__(self, ardor: Ardor) -> str | None:
        made = shop(ardor.source)
        kept = self._kept(ardor.folder / "cache", made)
        if self.harm:
            self.harm(kept, made)
        answer = ardor.python(
            "-c",
            STATE.format(before=self.before),
            env={
                "CC": str(self._compiler(ardor.folder, made)),
                "XDG_CACHE_HOME": str(ardor.folder / "cache"),
                "HOME": str(ardor.folder),
                **self.env,
            },
            seconds=30,
        )
        if wrong := answer.done():
            return wrong
        if answer.out.split() != ["right", self.ends]:
            return f"it said {answer.out.split()}"
        if strays := {file.name for file in ardor.folder.iterdir()} - {"cache", ".cache", "cc"}:
            return f"it left {strays} where it was called"
        said = answer.err.splitlines()
        return None if len(said) == self.lines else f"it said {len(said)} lines: {said}"

    def _kept(self, home: Path, made: Shop) -> Path:
        """The library in a cache of its own, as Ardor left it."""
        shutil.copytree(made.folder / "cache", home)
        return home / "ardor" / made.name

    def _compiler(self, folder: Path, made: Shop) -> Path:
        """The one that copies, or another in its place: what is kept is known by its path."""
        if self.compiler is None:
            return made.folder / "cc"
        shutil.rmtree(folder / "cache")
        script = folder / "cc"
        script.write_text(f"#!/bin/sh\n{self.compiler}\n")
        script.chmod(0o755)
        return script


def rehashed(kept: Path) -> None:
    """A hash that fits, as a stranger would write it."""
    digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    kept.with_suffix(".sha256").write_text(digest)


def put(kept: Path, made: Shop, *, name: str, hashed: bool, mode: int = 0o644) -> None:
    """Another library in its place."""
    shutil.copy(made.folder / f"{name}.so", kept)
    kept.chmod(mode)
    if hashed:
        rehashed(kept)


def cut(kept: Path, made: Shop, *, at: float) -> None:
    """So much of it left."""
    os.truncate(kept, int(at * kept.stat().st_size))


def changed(kept: Path, made: Shop) -> None:
    """A few bytes of it are others."""
    data = bytearray(kept.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    kept.write_bytes(data)


def linked(kept: Path, made: Shop, *, to: str) -> None:
    """A link in its place."""
    kept.unlink()
    kept.symlink_to(made.folder / to)


def piped(kept: Path, made: Shop) -> None:
    """A pipe, which nobody writes to."""
    kept.unlink()
    os.mkfifo(kept)


def folded(kept: Path, made: Shop) -> None:
    """A folder in its place."""
    kept.unlink()
    (kept / "in").mkdir(parents=True)


def open_folder(kept: Path, made: Shop, *, mode: int) -> None:
    """A stranger's library in a folder that others can write to."""
    put(kept, made, name="strange", hashed=True)
    kept.parent.chmod(mode)


def given(kept: Path, made: Shop, *, folder: bool) -> None:
    """A stranger's library that is his own, or his own folder; only root can try it."""
    put(kept, made, name="strange", hashed=True)
    os.chown(kept, 12345, 12345)
    if folder:
        os.chown(kept.parent, 12345, 12345)


def unhashed(kept: Path, made: Shop) -> None:
    """Nothing beside it."""
    kept.with_suffix(".sha256").unlink(missing_ok=True)


def blocked(kept: Path, made: Shop) -> None:
    """A file where the cache should be."""
    shutil.rmtree(kept.parent)
    kept.parent.write_text("")


def cases() -> dict[str, Case]:
    """Every cache, home and compiler that must not matter."""
    return {**caches(), **homes(), **compilers()}


def caches() -> dict[str, Case]:
    """What can be found where compiled code is kept."""
    strange = partial(put, name="strange")
    harms: dict[str, Harm] = {
        **{f"kept code cut at {at:.1%}": partial(cut, at=at) for at in (0, 0.001, 0.02, 0.5, 0.99)},
        "kept code changed": changed,
        "a stranger's code, without his hash": partial(strange, hashed=False),
        "a stranger's code that all can write": partial(strange, hashed=True, mode=0o666),
        "a stranger's code that a group can write": partial(strange, hashed=True, mode=0o664),
        "a stranger's code in a folder that all can write": partial(open_folder, mode=0o777),
        "a stranger's code in a folder that a group can write": partial(open_folder, mode=0o775),
        "a stranger's code in a folder like /tmp": partial(open_folder, mode=0o1777),
        "a link to a stranger's code": partial(linked, to="strange.so"),
        "a link to nothing": partial(linked, to="nothing"),
        "a pipe": piped,
        "a folder": folded,
        "kept code without functions": partial(put, name="lacking", hashed=True),
        "kept code without its hash": unhashed,
        "a file in place of the cache": blocked,
    }
    if os.geteuid() == 0:
        harms["another user's file"] = partial(given, folder=False)
        harms["another user's folder"] = partial(given, folder=True)
    found: dict[str, Case] = {name: Trial(harm) for name, harm in harms.items()}
    return {"kept code as it was": Trial(lines=0), **found}


def homes() -> dict[str, Case]:
    """Where compiled code could be kept, and cannot."""
    nowhere = {"XDG_CACHE_HOME": "/proc/nowhere"}
    return {
        "no home, but a cache": Trial(before=NAMELESS, lines=0),
        "an empty XDG_CACHE_HOME": Trial(env={"XDG_CACHE_HOME": ""}, lines=0),
        "a relative XDG_CACHE_HOME": Trial(env={"XDG_CACHE_HOME": "here"}),
        "neither home nor cache": Trial(before=NAMELESS, env={"XDG_CACHE_HOME": ""}),
        "a cache that cannot be made": Trial(env=nowhere),
        "no temporary folder": Trial(
            before="import tempfile; tempfile.tempdir = '/nowhere'", lines=0
        ),
        "no temporary folder and no cache": Trial(
            before="import tempfile; tempfile.tempdir = '/nowhere'", env=nowhere, ends="plain"
        ),
    }


def compilers() -> dict[str, Case]:
    """Compilers that are no use, and none."""
    found: dict[str, Case] = {
        f"a compiler that {what}": Trial(
            before="native.PATIENCE = 2.0", compiler=script, ends="plain"
        )
        for what, script in COMPILERS.items()
    }
    nothing = {"CC": "nothing", "PATH": "/nowhere"}
    return {
        **found,
        "no compiler": Trial(env=nothing, ends="plain"),
        "no compiler, and none wanted": Trial(
            env={**nothing, "ARDOR_NATIVE": "0"}, ends="plain", lines=0
        ),
    }
