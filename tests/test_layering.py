"""Who may import whom: only downwards, no cycles; only some rooms name devices or print."""

import ast
from pathlib import Path

import pytest

import ardor

SOURCE = Path(ardor.__file__).parent

# A package imports only packages to its left, and any module of its own.
LINE = """
errors architecture schedules discover < runtime settings bayes < data native reporting < layers <
spaces < methods pruning < models < training < searching < pipeline < bench < cli < __main__
"""
RANK = {room: rank for rank, room in enumerate(LINE.replace("<", "").split())}
FILES = sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            if node.module == "ardor":
                found |= {alias.name for alias in node.names}
            elif node.module and node.module.startswith("ardor."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("ardor.")}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_rooms_import_only_downwards(path: Path) -> None:
    here = room(path)
    if here == "__init__":
        return
    for other in imports(path) - {here}:
        assert RANK[other] < RANK[here], f"{here} imports {other}"


def test_methods_know_no_concrete_space_and_no_loop() -> None:
    for path in (SOURCE / "methods").glob("*.py"):
        names = {
            node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
        }
        assert not {n for n in names if n and n.startswith("ardor.spaces.")}, path


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_only_their_rooms_name_devices_and_print(path: Path) -> None:
    tree = ast.parse(path.read_text())
    calls = {
        n.func.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    assert "print" not in calls
    if room(path) not in ("runtime", "settings", "cli"):
        words = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
        attributes = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        assert not {"cuda", "mps"} & (words | attributes)


def test_the_public_names_are_there() -> None:
    for name in ardor.__all__:
        assert getattr(ardor, name) is not None
    with pytest.raises(AttributeError):
        _ = ardor.nothing
