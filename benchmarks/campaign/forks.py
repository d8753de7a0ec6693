"""One process that imports Ardor once and forks for each command, and what it prepares.

Hundreds of commands take minutes so, not hours: `python forks.py` is that process.
"""

import atexit
import functools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trial import Answer, Ardor, Case

SECONDS = 20.0  # after which a command here counts as one that never ends
LONG = 200.0  # for what exports a network, or prepares
MEMORY = 8 * 2**30  # bytes that a command here may take
TINY = (
    *("--set", "space.layout=R", "--set", "space.states=1", "--set", "space.channels=2"),
    *("--set", "space.ops=skip_connect,max_pool_3x3", "--epochs", "1"),
)
PLACE = "put here"  # what stands in a text for the value that comes there


class Forks:
    """A process with this Ardor imported, that answers commands."""

    def __init__(self, source: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="inputs-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.prepare()

    def __call__(
        self, folder: Path, *words: str | Path, code: str = "", seconds: float = SECONDS
    ) -> Answer:
        """What a command answers there, or Python code that begins with all that this file has."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"folder": str(folder), "words": list(map(str, words)), "code": code}
        self.process.stdin.write(json.dumps({**asked, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        return Answer(**json.loads(self.process.stdout.readline()))

    def prepare(self) -> None:
        """Images, a run of them with every stage done, and one that is in its search."""
        self(self.folder, code="pictures(Path('data'))")
        whole = ("run", "data", "--run", "whole", *TINY)
        begun = ("search", "data", "--run", "begun", *TINY, "--set", "search.epochs=2")
        for words in (whole, begun, ("prune", "whole", "--curve")):
            if wrong := self(self.folder, *words, seconds=LONG).done():
                raise RuntimeError(f"{words}: {wrong}")
        (self.folder / "begun" / "architecture.json").unlink()

    def copied(self, folder: Path) -> None:
        """All of that for one case to spoil."""
        for name in ("whole", "begun"):
            shutil.copytree(self.folder / name, folder / name)
        (folder / "data").symlink_to(self.folder / "data")


forks = functools.cache(Forks)


def serve() -> None:
    """Answers the commands on stdin, each in a fork."""
    import onnxscript  # noqa: F401

    import ardor.cli.screen  # noqa: F401

    for line in sys.stdin:
        print(json.dumps(answered(**json.loads(line))), flush=True)


def answered(folder: str, words: list[str], code: str, seconds: float) -> dict[str, Any]:
    """What a command says in a fork."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.setsid()
            os.chdir(folder)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            os._exit(ended(words, code))
        found = waited(child, seconds)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return {"code": found, "out": texts[0], "err": texts[1]}


def ended(words: list[str], code: str) -> int:
    """The exit code of a command in this process."""
    from ardor.__main__ import main

    sys.argv = ["ardor", *words]
    try:
        exec(code, globals()) if code else main()
        result = 0
    except SystemExit as end:
        result = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        result = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return result


def waited(child: int, seconds: float) -> int | None:
    """The exit code of a process; None where it had to be killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def trying(spoil: Callable[[Path], object], *words: str, code: str = "", must: str = "") -> Case:
    """Spoils a copy of the prepared runs, and gives a command: it must be refused, or work.

    `code` is run before the command; `must` is "refused" or "done" where only one of them will do.
    """

    def case(ardor: Ardor) -> str | None:
        run = forks(ardor.source)
        run.copied(ardor.folder)
        spoil(ardor.folder)
        if code and (wrong := run(ardor.folder, code=code).done()):
            return wrong
        answer = run(ardor.folder, *words, seconds=LONG if words[0] == "export" else SECONDS)
        wrong = (answer.done if answer.code == 0 else answer.refused)()
        said = {"refused": answer.code != 0, "done": answer.code == 0}
        if not wrong and must and not said[must]:
            wrong = f"it was not {must}: {answer.err[-200:]}"
        return wrong or untrue(answer)

    return case


def untrue(answer: Answer) -> str | None:
    """What is wrong with the words of any answer."""
    if " nan" in answer.out or "nan%" in answer.out:
        return "it says nan"
    if max(map(len, answer.err.splitlines()), default=0) > 3000:
        return "a line is too long to be read"
    return None


def nothing(folder: Path) -> None:
    """Leaves all as it is."""


# What is run in a fork, with Ardor imported.


def pictures(folder: Path) -> None:
    """Six images of noise of each of two classes."""
    import numpy as np
    from PIL import Image

    numbers = np.random.default_rng(0)
    for place in (folder / name / f"{number}.png" for name in "ab" for number in range(6)):
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(numbers.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(place)


def spoiled(text: str, entry: str) -> str:
    """The text with `PLACE` for an entry."""
    if not entry:
        return json.dumps(PLACE)
    content = below = json.loads(text)
    *way, last = entry.split(".")
    for step in way:
        below = (
            below[int(step) if isinstance(below, list) else step] if step_in(below, step) else {}
        )
    below[int(last) if isinstance(below, list) and last.isdigit() else last] = PLACE
    return json.dumps(content)


def step_in(content: Any, step: str) -> bool:
    """Whether an entry is there."""
    return step in content if isinstance(content, dict) else len(content) > int(step)


def forge(path: str, content: str) -> None:
    """Writes other content into a safetensors file, with its checksum; NAME is a 4-d tensor."""
    import safetensors.torch

    from ardor.runtime.tensors import digest

    tensors = safetensors.torch.load(Path(path).read_bytes())
    name = next(name for name, tensor in tensors.items() if tensor.ndim == 4)
    content = content.replace("NAME", name)
    header = {"format": 1, "content": content, "sha256": digest(content, tensors)}
    Path(path).write_bytes(safetensors.torch.save(tensors, {"ardor": json.dumps(header)}))


def misremember(folder: str, entry: str, value: str) -> None:
    """Puts one fact of the only checkpoint left to a value."""
    path, _, facts = only(folder)
    text = json.dumps({"facts": facts, "strides": {}})
    forge(str(path), spoiled(text, f"facts.{entry}").replace(json.dumps(PLACE), value))


def rewrite(folder: str, change: str) -> None:
    """Changes the tensors `t` of the only checkpoint left."""
    import torch

    from ardor.runtime.tensors import save

    path, tensors, facts = only(folder)
    exec(change, {"t": tensors, "torch": torch})
    save(path, tensors, facts)


def change(folder: str, end: str, change: str) -> None:
    """Changes the tensors `t[n]` of a model whose names end so."""
    import torch

    from ardor.runtime.tensors import load, save

    path = Path(folder) / "model.safetensors"
    tensors, facts = load(path)
    names = [name for name in tensors if name.endswith(end)]
    assert names, sorted(tensors)
    for name in names:
        exec(change, {"t": tensors, "n": name, "torch": torch})
    save(path, tensors, facts)


def only(folder: str) -> tuple[Path, dict[str, Any], Mapping[str, Any]]:
    """The newest checkpoint, once it is the only one."""
    from ardor.runtime.tensors import load

    *others, path = sorted(Path(folder).iterdir())
    for other in others:
        other.unlink()
    return path, *load(path)


if __name__ == "__main__":
    serve()
