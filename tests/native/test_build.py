"""Compiled code: what is kept is used only if it is one's own, and whole."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from ardor.native.build import FUNCTIONS

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler here")
# Sees to a copy of what is compiled already, and counts how often.
QUICK = """#!/bin/sh
echo >> "{folder}/calls"
while [ "$1" != -o ]; do shift; done
exec cp "{folder}/whole.so" "$2"
"""
HANGING = """#!/bin/sh
sleep 300 &
echo $! > "{folder}/child"
wait
"""


def library(path: Path, functions: tuple[str, ...], *, speaks: bool = False) -> None:
    """A small library; one that speaks does so as soon as it is opened."""
    text = "".join(f"int {name}(void) {{ return 0; }}\n" for name in functions)
    if speaks:
        text += "#include <unistd.h>\n"
        text += '__attribute__((constructor)) void speak(void) { write(1, "stranger", 8); }\n'
    command = ["cc", "-shared", "-fPIC", "-w", "-xc", "-", "-o", str(path)]
    subprocess.run(command, input=text.encode(), check=True, capture_output=True)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compilers, and libraries that nobody should use."""
    folder = tmp_path_factory.mktemp("shop")
    library(folder / "whole.so", FUNCTIONS)
    library(folder / "strange.so", FUNCTIONS, speaks=True)
    library(folder / "lacking.so", FUNCTIONS[1:])
    for name, script in {"cc": QUICK, "hanging": HANGING}.items():
        (folder / name).write_text(script.format(folder=folder))
        (folder / name).chmod(0o755)
    return folder


def asked(
    shop: Path, home: Path | str, before: str = "", **env: str
) -> tuple[bool, list[str], int]:
    """Whether a new process has native code, what it says, and how often it was compiled."""
    calls = shop / "calls"
    calls.write_text("")
    start = "import os; from ardor.native import build as native"
    code = f"{start}; {before}\nprint(native.library() is not None)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "CC": str(shop / "cc"), "XDG_CACHE_HOME": str(home), **env},
        cwd=shop,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout in ("True\n", "False\n")
    return done.stdout == "True\n", done.stderr.splitlines(), len(calls.read_text())


def replaced(kept: Path, other: Path) -> None:
    """Another library, with its own hash beside it."""
    shutil.copy(other, kept)
    kept.with_suffix(".sha256").write_text(sha256(kept.read_bytes()).hexdigest())


def linked(kept: Path, other: Path) -> None:
    replaced(kept, other)
    kept.unlink()
    kept.symlink_to(other)


def piped(kept: Path, other: Path) -> None:
    kept.unlink()
    os.mkfifo(kept)


def opened_to_others(kept: Path, other: Path) -> None:
    replaced(kept, other)
    kept.chmod(0o666)


# What happens to the kept library while `other` is at hand -> what is said of it.
HARMS: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "cut": (lambda kept, _: os.truncate(kept, 5000), "cut or changed"),
    "empty": (lambda kept, _: os.truncate(kept, 0), "cut or changed"),
    "changed": (lambda kept, other: shutil.copy(other, kept), "cut or changed"),
    "without its hash": (lambda kept, _: kept.with_suffix(".sha256").unlink(), "No such file"),
    "a link": (linked, "symbolic link"),
    "a pipe": (piped, "something else"),
    "one that others can write": (opened_to_others, "others can write"),
}


@pytest.mark.parametrize(("harm", "said"), HARMS.values(), ids=HARMS)
def test_what_is_not_as_it_was_written_is_never_opened_but_made_again(
    harm: Callable[[Path, Path], object], said: str, shop: Path, tmp_path: Path
) -> None:
    assert asked(shop, tmp_path) == (True, [], 1)
    (kept,) = tmp_path.glob("ardor/*.so")
    harm(kept, shop / "strange.so")
    found, lines, calls = asked(shop, tmp_path)
    assert (found, len(lines), calls) == (True, 1, 1)
    assert said in lines[0]
    assert asked(shop, tmp_path) == (True, [], 0)


def test_one_without_the_functions_is_made_again(shop: Path, tmp_path: Path) -> None:
    asked(shop, tmp_path)
    (kept,) = tmp_path.glob("ardor/*.so")
    replaced(kept, shop / "lacking.so")
    found, lines, calls = asked(shop, tmp_path)
    assert (found, len(lines), calls) == (True, 1, 1)
    assert asked(shop, tmp_path) == (True, [], 0)


@pytest.mark.parametrize("whose", ["another user's", "one that others can write to"])
def test_a_folder_that_others_can_write_to_is_done_without(
    whose: str, shop: Path, tmp_path: Path
) -> None:
    asked(shop, tmp_path)
    (kept,) = tmp_path.glob("ardor/*.so")
    replaced(kept, shop / "strange.so")
    before = kept.read_bytes()
    if whose != "another user's":
        kept.parent.chmod(0o777)
    other = "os.geteuid = lambda: 12345" if whose == "another user's" else ""
    found, lines, calls = asked(shop, tmp_path, other)
    assert (found, len(lines), calls) == (True, 1, 1)
    assert kept.read_bytes() == before


@pytest.mark.parametrize("given", ["", "relative"])
def test_without_a_full_path_in_xdg_cache_home_it_is_kept_at_home(
    given: str, shop: Path, tmp_path: Path
) -> None:
    found, lines, _ = asked(shop, given, HOME=str(tmp_path))
    assert (found, len(lines)) == (True, len(given) > 0)
    assert list(tmp_path.glob(".cache/ardor/*.so"))
    assert not list(shop.glob("**/ardor"))


def test_with_neither_a_home_nor_a_name_it_is_compiled_for_this_time(
    shop: Path, tmp_path: Path
) -> None:
    nameless = "import pwd; del os.environ['HOME']; os.getuid = lambda: 2**31 - 7"
    assert asked(shop, tmp_path, nameless) == (True, [], 1)
    found, lines, calls = asked(shop, "", nameless)
    assert (found, len(lines), calls) == (True, 1, 1)


def test_a_compiler_that_hangs_is_given_up_with_all_it_began(shop: Path, tmp_path: Path) -> None:
    found, lines, _ = asked(shop, tmp_path, "native.PATIENCE = 0.3", CC=str(shop / "hanging"))
    assert (found, len(lines)) == (False, 1)
    child = Path("/proc") / (shop / "child").read_text().strip() / "stat"
    assert not child.exists() or " Z " in child.read_text()


def test_without_a_compiler_a_line_says_what_it_costs(shop: Path, tmp_path: Path) -> None:
    nothing = {"CC": "nothing", "PATH": str(tmp_path)}
    found, (line,), _ = asked(shop, tmp_path, **nothing)
    assert not found
    assert "three times as long" in line
    assert asked(shop, tmp_path, ARDOR_NATIVE="0", **nothing) == (False, [], 0)
