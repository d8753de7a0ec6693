"""Checks README, CONTRIBUTING, CHANGELOG and docs: links, tables, figures, commands and code.

.venv/bin/python benchmarks/check_docs.py          everything; about a minute
.venv/bin/python benchmarks/check_docs.py --fast   without running commands and code

A command that begins a run makes it, with all settings checked, and does no work; one that works
on a run has a copy of a tiny one; a bench begins only to tell that it has no results yet.
"""

import contextlib
import io
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import click
import numpy as np
import page
import torch
from click.testing import CliRunner
from PIL import Image

from ardor.bench.runs import APART, benches
from ardor.cli import cli

ROOT = page.ROOT
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
HEADING = re.compile(r"^#+ (.+)$", re.M)
INLINE = re.compile(r"`(ardor [^`]+)`")
FIGURE = re.compile(r"\d+\.\d{2}\b")
MEASURED = re.compile(r"(\d+\.\d{2})(?= ?[%±])")
TINY = (
    "space.layout=R",
    "space.states=1",
    "space.channels=4",
    "space.ops=sep_conv_3x3,skip_connect",
)
FEW = ("search.batch=8", "train.batch=8", "search.epochs=1", "train.epochs=8")
SMALL = [word for setting in (*TINY, *FEW) for word in ("--set", setting)]
PLACES = {"photos/", "DATA", "MNIST", "FASHION", "CIFAR10", "cifar10"}  # names of images in docs
UNTRAINED = ("train",)  # needs a run that was only searched


def problems(*, fast: bool) -> list[str]:
    """Everything that is wrong, a line each."""
    found = []
    results = page.load()
    for path in page.pages():
        text, name = path.read_text(), path.relative_to(ROOT)
        wrong = [*links(path, text), *tables(text, results), *options(text)]
        found += [f"{name}: {problem}" for problem in wrong]
    found += [f"README.md: {problem}" for problem in figures(results)]
    return found if fast else [*found, *run_all(page.pages())]


def links(path: Path, text: str) -> Iterator[str]:
    """Relative links that lead nowhere, and anchors without a heading."""
    for target in LINK.findall(FENCED.sub("", text)):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        if not place.exists():
            yield f"no file '{target}'"
        elif anchor and anchor not in anchors(place.read_text()):
            yield f"no heading '{target}'"


def anchors(text: str) -> set[str]:
    """The headings of a page, as links name them."""
    kept = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(text))
    return {title.strip().replace(" ", "-") for title in kept}


def tables(text: str, results: page.Results) -> Iterator[str]:
    """Whatever stands between marks otherwise than the results say."""
    for mark in page.MARKED.finditer(text):
        if page.renewed(mark[0], results) != mark[0]:
            yield f"'{mark[2]}: {mark[3]}' is not what docs/results say: run page.py"
        if mark[2] != "front" and mark[3] not in results:
            yield f"no result '{mark[3]}' in docs/results"


def figures(results: page.Results) -> Iterator[str]:
    """Shares and means in the README that are in no table of results."""
    known = {figure for result in results.values() for figure in FIGURE.findall(page.table(result))}
    for figure in MEASURED.findall((ROOT / "README.md").read_text()):
        if figure not in known:
            yield f"{figure} is in no table of docs/results"


def options(text: str) -> Iterator[str]:
    """Commands in blocks and sentences that do not exist, or do not have an option shown."""
    shown = INLINE.findall(page.MARKED.sub("", FENCED.sub("", text)))
    for line in [*shown, *commands(text)]:
        words = shlex.split(line)[1:]
        names = words[0].split("|") if words else []
        for name in names:
            if name.startswith("-"):
                continue
            if name not in cli.commands:
                yield f"no command 'ardor {name}'"
                continue
            known = {opt for param in cli.commands[name].params for opt in param.opts}
            for word in words[1:]:
                option = word.partition("=")[0]
                if option.startswith("--") and option not in {*known, "--help"}:
                    yield f"'ardor {name}' has no option {option}"


def commands(text: str) -> list[str]:
    """The commands in indented blocks and in blocks without a language, without their comments."""
    blocks = [block for language, block in FENCED.findall(text) if language in ("", "sh")]
    lines = "\n".join(blocks).splitlines()
    lines += [line[4:] for line in FENCED.sub("", text).splitlines() if line.startswith("    ")]
    return [line.partition(" #")[0].strip() for line in lines if line.startswith("ardor ")]


def run_all(paths: list[Path]) -> Iterator[str]:
    """Commands and code of all pages that fail, each tried where nothing else was done."""
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        world = make_world(Path(place) / "world")
        tried: dict[str, str | None] = {}
        for path in paths:
            text, name = path.read_text(), path.relative_to(ROOT)
            for line in commands(text):
                if line not in tried:
                    with copied(world):
                        tried[line] = failure(line)
                if tried[line]:
                    yield f"{name}: {line}: {tried[line]}"
            if problem := python(text, str(name)):
                yield f"{name}: {problem}"


def make_world(place: Path) -> Path:
    """A folder with all that commands are shown to work on."""
    generator = np.random.default_rng(0)
    for number in range(48):
        pixels = generator.integers(0, 100, (16, 16, 3), dtype=np.uint8)
        pixels[..., number % 2] += 120
        for folder in (place / "photos" / "ab"[number % 2], place / "new")[
            : 2 if number < 4 else 1
        ]:
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(folder / f"{number}.png")
    guide = (ROOT / "docs/guide/presets.md").read_text()
    (place / "mine.toml").write_text(
        "".join(t for lang, t in FENCED.findall(guide) if lang == "toml")
    )
    (place / "lab").mkdir()
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    method = "".join(code for lang, code in FENCED.findall(contributing) if lang == "python")
    (place / "lab" / "coins.py").write_text(method)
    for folder in filter(Path.exists, (ROOT / "docs/results", ROOT / "examples")):
        shutil.copytree(folder, place / folder.relative_to(ROOT))
    with contextlib.chdir(place):
        for verb, folder in (("run", "runs/photos-thompson-1"), ("search", "searched")):
            done = ardor([verb, "photos", "--run", folder, *SMALL])
            assert done is None, done
    shutil.copy(place / "runs/photos-thompson-1/export/model.onnx", place / "big.onnx")
    (place / "outputs.toml").write_text('0 = "a"\n1 = "b"\n')
    (place / "more").mkdir()
    Image.new("RGB", (16, 16), "grey").save(place / "more" / "1.png")
    return place


@contextlib.contextmanager
def copied(world: Path) -> Iterator[None]:
    """In a fresh copy of the world, which is gone afterwards."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(world, place, dirs_exist_ok=True)
        with contextlib.chdir(place):
            sys.path.insert(0, place)
            yield
            sys.path.remove(place)


def failure(line: str) -> str | None:
    """Why a command fails, or None."""
    words = ["photos" if word in PLACES else word for word in shlex.split(line)[1:]]
    if words[0] in ("run", "search"):
        with mock.patch("ardor.cli.create.work"):
            return ardor([word for word in words if word != "--dry-run"])
    if words[0] == "bench":
        return bench(words)
    if words[0] in UNTRAINED:
        shutil.rmtree("runs/photos-thompson-1")
        shutil.copytree("searched", "runs/photos-thompson-1")
    if "--fine-tune" in words:
        words += ["--fine-tune", "1"]
    return ardor(words)


def bench(words: list[str]) -> str | None:
    """Why a bench could not begin: its options are read, and none of its runs is made."""
    context = cli.commands["bench"].make_context("bench", words[1:])
    if (name := context.params["name"]) not in benches():
        return f"no bench '{name}'"
    if name in APART or context.params["table"]:
        return None
    found = ardor(words if "--so-far" in words else [*words, "--so-far"])
    return None if found is None or "no run of the bench" in found else found


def ardor(words: list[str]) -> str | None:
    """Why a command failed, or None."""
    result = CliRunner().invoke(cli, words)
    if result.exit_code == 0:
        return None
    return f"{result.exception}" if not isinstance(result.exception, SystemExit) else result.stderr


def python(text: str, name: str) -> str | None:
    """Why the Python of a page fails, all its blocks as one program; a whole module is a test's."""
    code = "\n".join(block for language, block in FENCED.findall(text) if language == "python")
    if not code or name == "CONTRIBUTING.md":
        return None
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(code, name, "exec"), {"__name__": "__main__"})
        except Exception as error:  # whatever it is, it is to be told, and the others tried
            return f"its Python fails: {type(error).__name__}: {error}"
    return None


@click.command()
@click.option("--fast", is_flag=True, help="Run nothing.")
def main(fast: bool) -> None:
    """Says what is wrong, and fails if anything is."""
    torch.set_num_threads(1)
    found = problems(fast=fast)
    for problem in found:
        click.echo(problem)
    click.echo(f"{len(page.pages())} pages, {len(found)} problems")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
