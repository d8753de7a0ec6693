"""The campaign's planted bugs and pieces of code fit the source and the tests as they are."""

import ast
import re
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

import ardor

ROOT = Path(__file__).parents[2]
CAMPAIGN = ROOT / "benchmarks" / "campaign"
SOURCE = Path(ardor.__file__).parent
sys.path.insert(0, str(CAMPAIGN))

import planted  # noqa: E402

PLANTS = planted.cases()
# In code and in texts that are code: "from ardor.x import y", and "import os, ardor.x as y".
FROM = re.compile(r"\bfrom (ardor[\w.]*) import ([\w, ]+)")
IMPORT = re.compile(r"\bimport ([\w., ]*\bardor\b[\w., ]*)")
QUOTED = re.compile(r"""["'](ardor(?:\.\w+)+)["']""")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def file_of(module: str) -> Path | None:
    place = SOURCE.parent.joinpath(*module.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.exists()), None)


def names_in(module: str) -> set[str]:
    """What a module defines or imports, by its text."""
    path, found = file_of(module), set()
    for node in tree(path).body if path else []:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found


def missing(text: str) -> list[str]:
    """Modules of Ardor that a text imports or names, and names in them, that are not there."""
    modules, aliases, wrong = QUOTED.findall(text), {}, []
    for listed in IMPORT.findall(text):
        for module, _, alias in (one.strip().partition(" as ") for one in listed.split(",")):
            modules += [module] * module.startswith("ardor")
            aliases |= {alias: module} if alias else {}
    for module, listed in FROM.findall(text):
        modules.append(module)
        for name, _, alias in (one.strip().partition(" as ") for one in listed.split(",")):
            if file_of(f"{module}.{name}"):
                aliases[alias or name] = f"{module}.{name}"
            elif name not in names_in(module):
                wrong.append(f"{module}.{name}")
    for alias, module in aliases.items():
        used = re.findall(rf"(?<![\w.]){alias}\.(\w+)", text)
        wrong += [f"{module}.{name}" for name in used if name not in names_in(module)]
    return wrong + [module for module in modules if file_of(module) is None]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("from ardor.methods.random import Random", []),
        ("from ardor.states import output", ["ardor.states.output", "ardor.states"]),
        ("from ardor.layers.mixed import input", ["ardor.layers.mixed.input"]),
        ("import os, ardor.pipeline.run as r; r.resolved; r.solved", ["ardor.pipeline.run.solved"]),
        ("from ardor.native import build as n; n.SECONDS = 2", ["ardor.native.build.SECONDS"]),
        ("import ardor.cli, ardor.terminal", ["ardor.terminal"]),
        ("__import__('ardor.images')", ["ardor.images"]),
    ],
)
def test_what_is_missing_is_told(text: str, wrong: list[str]) -> None:
    assert missing(text) == wrong


@pytest.mark.parametrize("path", sorted(CAMPAIGN.rglob("*.py")), ids=lambda path: path.stem)
def test_what_the_campaign_imports_is_there(path: Path) -> None:
    assert missing(path.read_text()) == []


def test_every_bug_can_be_planted(tmp_path: Path) -> None:
    for name, plant in PLANTS.items():
        copy = tmp_path / "copy.py"
        shutil.copy(SOURCE / plant.file, copy)
        assert plant.changes, name
        assert plant.plant(copy) is None, name
        ast.parse(copy.read_text())


def test_every_bug_is_guarded_by_tests_that_there_are() -> None:
    for name, plant in PLANTS.items():
        assert plant.guards, name
        for file, word in plant.guards:
            assert (ROOT / file).exists(), f"{name}: {file}"
            nodes = (node for node in tree(ROOT / file).body if isinstance(node, ast.FunctionDef))
            tests = [node.name for node in nodes if node.name.startswith("test_")]
            run = [test for test in tests if not any(slow in test for slow in planted.SLOW)]
            assert any(word in f"{Path(file).stem} {test}" for test in run), f"{name}: {word}"
