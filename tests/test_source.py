"""Habits of the source that hold everywhere: who names devices, prints, or knows a space."""

import ast
from pathlib import Path

import pytest

import ardor

SOURCE = Path(ardor.__file__).parent
TREES = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def test_nothing_prints() -> None:
    for path, tree in TREES.items():
        calls = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
        assert "print" not in {f.id for f in calls if isinstance(f, ast.Name)}, path


def test_only_their_packages_name_devices() -> None:
    for path, tree in TREES.items():
        if path.relative_to(SOURCE).parts[0] not in ("runtime", "settings", "cli"):
            words = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
            attributes = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
            assert not {"cuda", "mps"} & (words | attributes), path


def test_methods_know_no_concrete_space() -> None:
    for path, tree in TREES.items():
        if path.relative_to(SOURCE).parts[0] == "methods":
            modules = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
            assert not {m for m in modules if m and m.startswith("ardor.spaces.")}, path


def test_the_public_names_are_there() -> None:
    for name in ardor.__all__:
        assert getattr(ardor, name) is not None
    with pytest.raises(AttributeError):
        _ = ardor.nothing
