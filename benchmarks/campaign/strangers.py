"""What a stranger can send: modules to import, names that command, links that lead elsewhere."""

import functools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from PIL import Image
from trial import Answer, Ardor, Case

TINY = (
    *("--epochs", "1", "--set", "space.layout=R", "--set", "space.states=1"),
    *("--set", "space.channels=2", "--set", "space.ops=skip_connect,max_pool_3x3"),
)
# A module that can be imported, holds a method and a space, and tells that its code ran.
MODULE = """
from dataclasses import dataclass
from pathlib import Path
from ardor.methods.random import Random
from ardor.spaces.cells import Cells
Path("ran").touch()
class Method(Random): ...
@dataclass(frozen=True, kw_only=True)
class Space(Cells): ...
"""
OWN = "lab.mine"
MODEL, TRAINED = "run/model/config.json", "run/trained/config.json"
# What a file says where -> the commands that read it.
DOORS: Mapping[tuple[str, str], tuple[str, ...]] = {
    (MODEL, "architecture.space"): ("predict run images", "evaluate run", "export run"),
    (TRAINED, "architecture.space"): ("prune run", "prune run --curve", "prune run --threshold 1"),
    ("run/config.json", "space.name"): ("evaluate run", "export run", "prune run --curve"),
    ("searched/config.json", "space.name"): ("train searched", "train searched --epochs 2"),
    ("begun/config.json", "space.name"): ("resume begun",),
    ("begun/config.json", "method.name"): ("resume begun",),
    ("run/architecture.json", "space"): (
        "run images --run new --architecture run",
        "run images --run new --architecture run/architecture.json",
        "run images --run new --architecture run --dry-run",
    ),
    ("bench/digits/darts-0/config.json", "space.name"): (
        "bench digits --folder bench --so-far",
        "bench digits --folder bench",
    ),
    ("settings.toml", "space.name"): ("run images --config settings.toml",),
    ("settings.toml", "method.name"): (
        "run images --config settings.toml",
        "search images --config settings.toml --dry-run",
        f"search images --config settings.toml --trust {OWN}.too",
    ),
}
LOOKING = ("show run", "compare run", "report run", "check images", "list methods")
PYTHON = {
    "load": "ardor.load('run')",
    "Run.open": "ardor.Run.open('run').model()",
    "Model.load": "from pathlib import Path; ardor.Model.load(Path('run/model'))",
    "Run.create": f"ardor.Run.create('new', {{'method': {{'name': '{OWN}'}}}})",
}
NAMED = (
    f"search images --run new --method {OWN}",
    f"search images --run new --space {OWN}",
    f"search images --run new --set method.name={OWN}",
    f"search images --run new --config settings.toml --trust {OWN}",
)
NAMES: tuple[Any, ...] = (
    "..",
    ". ",
    ".x",
    "x.",
    "a..b",
    "a b.c",
    "1.2",
    "",
    "a.b\n",
    5,
    None,
    [OWN],
)
MISNAMED = (
    (MODEL, "architecture.space", "predict run images"),
    ("run/architecture.json", "space", "run images --run new --architecture run"),
    ("begun/config.json", "method.name", "resume begun"),
)
COMMANDS = {
    "a title": "\x1b]0;mine\x07x",
    "a cleared screen": "\x1b[2J",
    "one byte": "\x9b31m",
    "a backspace": "ok\x08\x08no",
    "a colour in a line": "a\x1b[32mb",
    "the start of the line": "a\rb",
    "a line of its own": "a\nerror: b",
    "text from right to left": "\u202ecba",
}
CARDS = {
    "a script": ("<script>alert(1)</script>", "<script>"),
    "an image": ("![x](http://e.f/x.png)", "![x]("),
    "a link": ("[x](http://e.f)", "[x]("),
    "an address": ("http://e.f", "http://e.f"),
    "a column": ("a|b", "a|b"),
    "code": ("`a`", ": `a`"),
    "a heading": ("a\n# b", "\n# b"),
    "an end of the front matter": ("a\n---\nb", "\n---\nb"),
    "an entity": ("&lt;", " &lt;"),
}
OWNED = "checkpoint trained model export log.jsonl metrics.json config.json architecture.json"


def cases() -> dict[str, Case]:
    """Every case by its name."""
    return dict([*modules(), *names(), *commands(), *cards(), *links()])


def modules() -> Iterator[tuple[str, Case]]:
    """Modules that only a file names, and such as the person names."""
    for (file, key), doors in DOORS.items():
        for words in doors:
            yield f"{key} in {file}, then {words}", functools.partial(untrusted, file, key, words)
    for words in LOOKING:
        yield f"modules in a run, then {words}", functools.partial(looked_at, words)
    for name, code in PYTHON.items():
        yield f"a module in a run, in Python: {name}", functools.partial(in_python, code)
    for module in ("venv.__main__", "ardor.__main__", "ardor.spaces.cells", "os.path", "lab"):
        yield f"{module} as the space of a model", functools.partial(other_module, module)
    for words in NAMED:
        yield f"named: {words}", functools.partial(named, words)
    yield "named: --trust for a network that was made with it", trusted


def untrusted(file: str, key: str, words: str, ardor: Ardor) -> str | None:
    """A module in a file that a command reads."""
    put(prepared(ardor) / file, key, OWN)
    return nothing_ran(ardor, command(ardor, words), f"--trust {OWN}")


def other_module(module: str, ardor: Ardor) -> str | None:
    """Another module, of Ardor's or of Python's, in place of the space of a network."""
    put(prepared(ardor) / MODEL, "architecture.space", module)
    return nothing_ran(ardor, command(ardor, "predict run images"), module)


def looked_at(words: str, ardor: Ardor) -> str | None:
    """A command that has no need of modules."""
    for file, key in DOORS:
        put(prepared(ardor) / file, key, OWN)
    answer = command(ardor, words)
    return "its code ran" if (ardor.folder / "ran").exists() else answer.done()


def in_python(code: str, ardor: Ardor) -> str | None:
    """A module in a run that a person's own code opens."""
    put(prepared(ardor) / MODEL, "architecture.space", OWN)
    answer = ardor.python("-c", f"import ardor; {code}")
    if (ardor.folder / "ran").exists():
        return "its code ran"
    return None if f"'{OWN}' is a module" in answer.err else answer.err


def named(words: str, ardor: Ardor) -> str | None:
    """A module that the person names in the command."""
    put(prepared(ardor) / "settings.toml", "method.name", OWN)
    answer = command(ardor, words)
    return answer.done() or (None if (ardor.folder / "ran").exists() else "it was not imported")


def trusted(ardor: Ardor) -> str | None:
    """A network that was made with a module which the person trusts."""
    put(prepared(ardor) / MODEL, "architecture.space", OWN)
    return command(ardor, f"predict run images --trust {OWN}").done()


def nothing_ran(ardor: Ardor, answer: Answer, said: str) -> str | None:
    """What is wrong unless a command was refused with these words, and no code ran."""
    if (ardor.folder / "ran").exists():
        return "its code ran"
    return answer.refused() or (None if said in answer.err else f"it said {answer.err}")


def names() -> Iterator[tuple[str, Case]]:
    """What can be the name of nothing."""
    for name in NAMES:
        for file, key, words in MISNAMED if name in ("..", None) else MISNAMED[:1]:
            case = functools.partial(misnamed, file, key, words, name)
            yield f"{name!r} as {key}, then {words}", case


def misnamed(file: str, key: str, words: str, name: Any, ardor: Ardor) -> str | None:
    put(prepared(ardor) / file, key, name)
    return command(ardor, words).refused()


def commands() -> Iterator[tuple[str, Case]]:
    """Names that would command a terminal."""
    for what, name in COMMANDS.items():
        doors = (predicted, checked, listed, kept) if "line" in what else (predicted,)
        for door in doors:
            yield f"{what} in the name of {door.__doc__}", functools.partial(shown, door, name)


def shown(door: Callable[[Ardor, str], Answer], name: str, ardor: Ardor) -> str | None:
    prepared(ardor)
    answer = door(ardor, name)
    lines = (answer.out + answer.err).split("\n")
    strange = [line for line in lines if not line.isprintable() or line.startswith("error: b")]
    return answer.done() or (f"it printed {strange[0]!r}" if strange else None)


def predicted(ardor: Ardor, name: str) -> Answer:
    """a class that is predicted"""
    put(ardor.folder / MODEL, "classes", [name, f"{name}2"])
    return command(ardor, "predict run images")


def checked(ardor: Ardor, name: str) -> Answer:
    """a class that is checked"""
    (ardor.folder / "images" / "a").rename(ardor.folder / "images" / name)
    return command(ardor, "check images")


def listed(ardor: Ardor, name: str) -> Answer:
    """an image that is predicted"""
    (ardor.folder / "images/a/0.png").rename(ardor.folder / f"images/a/{name}.png")
    return command(ardor, "predict run images")


def kept(ardor: Ardor, name: str) -> Answer:
    """an operation that was kept"""
    put(ardor.folder / "run/architecture.json", "kept", {"normal/0>2": [name], name: [name]})
    return command(ardor, "show run --all")


def cards() -> Iterator[tuple[str, Case]]:
    """Names that would be more than text in a page."""
    for what, (name, meant) in CARDS.items():
        yield f"{what} in a class of a card", functools.partial(carded, name, meant)


def carded(name: str, meant: str, ardor: Ardor) -> str | None:
    put(prepared(ardor) / TRAINED, "classes", [name, "b"])
    answer = command(ardor, "prune run --threshold 1")
    card = (ardor.folder / "run/model/README.md").read_text()
    return answer.done() or (f"the card has {meant!r}" if meant in card else None)


def links() -> Iterator[tuple[str, Case]]:
    """Files and folders of a run that are elsewhere."""
    for name in OWNED.split():
        yield (
            f"{name} is a link, then prune",
            functools.partial(linked, name, "prune run --threshold 1"),
        )
    yield "checkpoint is a link, then resume", functools.partial(linked, "checkpoint", "resume run")
    yield "the log is a link to nothing, then resume begun", dangling
    yield "the run folder itself is a link", behind


def linked(name: str, words: str, ardor: Ardor) -> str | None:
    run = prepared(ardor) / "run"
    (run / "checkpoint").mkdir(exist_ok=True)
    (run / "checkpoint" / "tune-00001.safetensors").touch()
    (run / "report.html").unlink()  # that there is something left to do
    (run / name).rename(elsewhere := ardor.folder / "elsewhere")
    (run / name).symlink_to(elsewhere)
    before = content(elsewhere)
    answer = command(ardor, words)
    return answer.refused() or (None if content(elsewhere) == before else "it wrote elsewhere")


def dangling(ardor: Ardor) -> str | None:
    log = prepared(ardor) / "begun" / "log.jsonl"
    log.unlink()
    log.symlink_to(ardor.folder / "elsewhere")
    answer = command(ardor, "resume begun")
    return "it wrote elsewhere" if (ardor.folder / "elsewhere").exists() else answer.refused()


def behind(ardor: Ardor) -> str | None:
    (prepared(ardor) / "link").symlink_to("run")
    return command(ardor, "predict link images").done()


def content(path: Path) -> dict[str, bytes]:
    files = path.rglob("*") if path.is_dir() else [path]
    return {str(file): file.read_bytes() for file in files if file.is_file()}


def put(path: Path, key: str, value: Any) -> None:
    """Sets an entry of a JSON file, or writes a TOML file that has just that one."""
    if path.suffix == ".toml":
        path.write_text(f"{key} = {json.dumps(value)}")
        return
    whole = below = json.loads(path.read_text())
    *above, last = key.split(".")
    for part in above:
        below = below[part]
    below[last] = value
    path.write_text(json.dumps(whole))


def command(ardor: Ardor, words: str) -> Answer:
    """What a command answers, with the modules of its folder to import."""
    tiny = TINY if words.startswith(("run ", "search ")) else ()
    path = f"{ardor.source}:{ardor.folder}"
    return ardor(*words.split(), *tiny, env={"PYTHONPATH": path})


def prepared(ardor: Ardor) -> Path:
    """The folder of a case, with images, a run, a search and a begun one, and a module."""
    if not (ardor.folder / "run").exists():
        shutil.copytree(made(ardor.source).name, ardor.folder, dirs_exist_ok=True)
    return ardor.folder


@functools.cache
def made(source: Path) -> "tempfile.TemporaryDirectory[str]":
    """What all cases begin with, made once."""
    folder = tempfile.TemporaryDirectory()
    ardor = Ardor(source, Path(folder.name))
    for number in range(12):
        place = ardor.folder / "images" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number * 20, 0, 0)).save(place / f"{number}.png")
    (ardor.folder / "lab").mkdir()
    (ardor.folder / "lab" / "mine.py").write_text(MODULE)
    command(ardor, "run images --run run")
    command(ardor, "search images --run searched --set search.epochs=2")
    shutil.copytree(ardor.folder / "searched", ardor.folder / "begun")
    shutil.copytree(ardor.folder / "run", ardor.folder / "bench/digits/darts-0")
    (ardor.folder / "begun" / "architecture.json").unlink()
    return folder
