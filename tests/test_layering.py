"""Who may import whom: a package imports only packages to its left, and any module of its own."""

import ast
from pathlib import Path

import ardor

SOURCE = Path(ardor.__file__).parent
LINE = """
errors architecture schedules discover < runtime settings bayes < data native reporting < layers <
spaces < methods pruning < models < training < searching < pipeline < bench < cli < __main__
"""
RANK = {room: rank for rank, room in enumerate(LINE.replace("<", "").split())}


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


def test_a_package_imports_only_packages_to_its_left() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE)
        here = name.parts[0].removesuffix(".py")
        if here == "__init__":  # the public names, from wherever they are
            continue
        left = {room for room, rank in RANK.items() if rank < RANK[here]}
        wrong += [f"{name} imports {other}" for other in sorted(imports(path) - {here} - left)]
    told = "\n".join(wrong)
    assert not wrong, f"{told}\nA package imports only packages to its left in this line:{LINE}"
