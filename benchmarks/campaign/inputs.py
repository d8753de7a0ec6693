"""Bad input that is no image: files of runs and models, checkpoints, settings.

Most cases are generated: every entry of every file of a run is put, in turn, to everything that it
must not be. So that hundreds of commands take minutes, one process imports Ardor once and forks for
each of them: `python inputs.py` is that process.
"""

import functools
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
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
DEEP, DIGITS = "[" * 100_000, "9" * 400
# What an entry of a JSON file is put to, as text.
VALUES = {
    "null": "null",
    "a flag": "true",
    "-1": "-1",
    "1e400": "1e400",
    "2**63": str(2**63),
    "400 digits": DIGITS,
    "NaN": "NaN",
    "text": '"x"',
    "an escape": '"\\ud800\\u001b[31m"',
    "a megabyte": '"' + "x" * 2**20 + '"',
    "a list": "[]",
    "an object": "{}",
    "lists 900 deep": "[" * 900 + "]" * 900,
    "lists 100,000 deep": DEEP + "]" * 100_000,
}
Run = Callable[..., Answer]


def cases() -> dict[str, Case]:
    """All of them."""
    made: dict[str, Case] = {}
    for family in (pipes, edited, forged, weights, settings, texts):
        made |= dict(family())
    return made


# -- The process that forks for each command, and what it prepares -----------------------------


class Forks:
    """A process with this Ardor imported, that answers commands."""

    def __init__(self, source: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="inputs-"))
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

    import ardor.__main__
    import ardor.bench
    import ardor.cli
    import ardor.predict
    import ardor.show
    import ardor.stages
    import ardor.terminal  # noqa: F401

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


# -- Families ----------------------------------------------------------------------------------


# File of a run -> commands that read it.
READERS = {
    "whole/config.json": ("resume", "compare"),
    "whole/metrics.json": ("compare", "report"),
    "whole/architecture.json": ("show", "report"),
    "whole/curve.json": ("report",),
    "whole/log.jsonl": ("report",),
    "whole/trained/config.json": ("prune",),
    "whole/trained/model.safetensors": ("prune",),
    "whole/model/config.json": ("predict",),
    "whole/model/model.safetensors": ("predict",),
    "begun/log.jsonl": ("resume",),
    "begun/checkpoint": ("resume",),
}


def words_of(command: str, name: str) -> tuple[str, ...]:
    """A command as it is typed."""
    more = {"show": ("--all", "--runners-up", "3"), "predict": ("data/a/0.png",)}
    curve = ("--curve",) if command == "prune" else ()
    return (command, name.partition("/")[0], *more.get(command, ()), *curve)


def replaced(name: str, put: Callable[[Path], object]) -> Callable[[Path], None]:
    """Puts something else where a file was: the newest one of a folder."""

    def spoil(folder: Path) -> None:
        path = folder / name
        if path.is_dir():
            for old in (first := sorted(path.iterdir()))[:-1]:
                old.unlink()
            path = first[-1]
        path.unlink()
        put(path)

    return spoil


def bound(path: Path) -> None:
    """A socket, bound by a short name: theirs have an end."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("/tmp/inputs.socket")
    os.replace("/tmp/inputs.socket", path)


def large(path: Path) -> None:
    """A file of 8 GB, without taking a disk."""
    with path.open("wb") as file:
        file.truncate(8 * 2**30)


THINGS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "endless zeros": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "8 GB of nothing": large,
    "a socket": bound,
}


def pipes() -> Iterator[tuple[str, Case]]:
    """What is no file in the place of one."""
    for thing, put in THINGS.items():
        for name, commands in READERS.items():
            for command in commands:
                spoil = replaced(name, put)
                yield f"{thing} as {name}, {command}", trying(spoil, *words_of(command, name))
    for thing, put in THINGS.items():
        for option, words in {
            "--config": ("search", "data", *TINY),
            "--results": ("bench", "digits", "--so-far"),
            "--table": ("bench", "nasbench201", "--so-far"),
            "--architecture": ("run", "data", *TINY),
        }.items():
            spoil = functools.partial(put_at, put)
            case = trying(spoil, *words, option, "thing", must="refused")
            yield f"{thing} as {option}", case


def put_at(put: Callable[[Path], object], folder: Path) -> None:
    """Puts a thing into a folder."""
    put(folder / "thing")


EDITED = {
    "whole/config.json": ("resume",),
    "whole/metrics.json": ("compare", "report"),
    "whole/architecture.json": ("show", "report"),
    "whole/curve.json": ("report",),
    "whole/log.jsonl": ("report",),
    "whole/model/config.json": ("predict",),
}
PLACE = "put here"  # what stands in a text for the value that comes there
# How each of the files looks, found in the runs of this Ardor; entries of lists by the first.
ENTRIES = {
    "config.json": "format command versions machine stages seed device data data.source data.test "
    "space space.name space.image space.channels space.layout space.states space.ops space.partial "
    "method method.name method.spread method.kl_gates method.select search search.epochs "
    "search.batch search.time search.augment search.augment.0 search.gate_betas search.rate "
    "network train train.validation prune prune.threshold prune.max_params",
    "metrics.json": "format stages stages.search stages.search.seconds stages.train.peak_memory_mb "
    "test_accuracy test_nll params threshold onnx_max_difference latency_ms taken_out",
    "architecture.json": "format space settings settings.image settings.channels settings.layout "
    "kept kept.reduce/0>2 kept.reduce/0>2.0 probabilities probabilities.reduce/0>2 "
    "probabilities.reduce/0>2.skip_connect strengths strengths.reduce/0>2 "
    "strengths.reduce/0>2.skip_connect left candidates candidates.0 candidates.0.kept "
    "candidates.0.held_out_nll probability runners_up runners_up.0 runners_up.0.kept "
    "runners_up.0.times_as_likely runners_up.0.standard_error",
    "curve.json": "format images count points points.0 points.0.threshold points.0.params "
    "points.0.accuracy",
    "log.jsonl": "stage epoch epochs seconds train train.loss held_out held_out.accuracy rate "
    "certainty probabilities probabilities.reduce/0>2 strengths left watch watch.cells "
    "watch.warnings watch.curvature",
    "model/config.json": "format architecture architecture.space architecture.settings "
    "architecture.settings.channels architecture.settings.image architecture.settings.layout "
    "architecture.kept weights compact compact.gone compact.widths classes classes.0 preprocessing "
    "preprocessing.mean",
}


def edited() -> Iterator[tuple[str, Case]]:
    """Every entry of every JSON file, put to what it must not be: to every third, in turn."""
    turn = 0
    for name, commands in EDITED.items():
        kind = name.partition("/")[2]
        for entry in ["", *ENTRIES[kind].split()]:
            turn += 1
            for words, value in list(VALUES.items())[turn % 3 if entry else 0 :: 3 if entry else 1]:
                spoil = functools.partial(edit, name, entry, value)
                for command in commands:
                    case = trying(spoil, *words_of(command, name))
                    yield f"{entry or 'all'} of {name} put to {words}, {command}", case


def edit(name: str, entry: str, value: str, folder: Path) -> None:
    """Puts one entry of a JSON file to a value, however deep it is; of a log, in every line."""
    path = folder / name
    lines = path.read_text().splitlines() if name.endswith("l") else [path.read_text()]
    texts = [spoiled(line, entry).replace(json.dumps(PLACE), value) for line in lines]
    path.write_text("".join(text + "\n" for text in texts))


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


def settings() -> Iterator[tuple[str, Case]]:
    """Values of settings that would take days, or more than numbers can hold."""
    large_ones = (
        *("space.states=100", "space.states=60", "space.channels=9999", "space.stem=9999"),
        *(
            "space.channels=99999999",
            f"space.channels={2**63}",
            "space.layout=100N space.states=30",
        ),
        *("search.rounds=99999", "search.candidates=99999999", "search.batch=99999999999"),
        *("train.batch=99999999999", "search.accumulate=99999999999", "prune.multiple=99999999999"),
        *(
            "search.shrink=99999999999",
            "prune.max_params=99999999999999999",
            "space.inputs=9999999",
        ),
        *("space.partial=9999999", "network.channels=99999999", "network.layout=100N100R"),
        *("search.epochs=999999", "train.epochs=999999", "prune.fine_tune=999999"),
        *("search.weight_decay=1e308", "search.gate_decay=1e308", "search.time=1e300"),
        *("search.rate=1e308", "search.rate_end=1e308", "search.clip=1e308"),
        *("search.gate_rate=1e308", "train.kl=1e308", "train.auxiliary_weight=1e308"),
        *("prune.threshold=1e308", "prune.threshold=-1e308", "method.kl_gates=1e308"),
        *("method.kl_weights=1e308", "method.entropy=1e308", "method.spread=1e308"),
        "space.layout=N space.channels=1 space.stem=1 space.halvings=1",
        "space.layout=NN space.channels=1 space.stem=1 space.halvings=2",
    )
    for given in large_ones:
        words = [word for one in given.split() for word in ("--set", one)]
        yield f"the setting {given}", trying(nothing, *search_of(*words), must="refused")
    for given in ("cells=101", "channels=9999"):
        words = ["--space", "nasbench201", "--set", f"space.{given}"]
        case = trying(nothing, "search", "data", *words, must="refused")
        yield f"the setting space.{given} of nasbench201", case
    for given in ("weight_decay=1e9", "rate=1e30", "gate_rate=1e30", "clip=1e-300", "rate=1e-300"):
        yield f"the setting search.{given}", trying(nothing, *search_of("--set", f"search.{given}"))
    for name in ("seed", "search.epochs", "search.rate", "search.augment", "space.channels", "x"):
        for words, value in {"400 digits": DIGITS, "9,000 digits": "9" * 9000}.items():
            case = trying(nothing, *search_of("--set", f"{name}={value}"), must="refused")
            yield f"the setting {name} of {words}", case
        for words, text in {"deep lists": DEEP, "lists 300 deep": "[" * 300 + "]" * 300}.items():
            case = trying(nothing, *search_of("--set", f"{name}={text[:90_000]}"), must="refused")
            yield f"the setting {name} of {words}", case
    deep = ".".join(["a"] * 5000)
    for name in (deep, f"search.{deep}", f"space.{deep}", f"search.epochs.{deep}"):
        case = trying(nothing, *search_of("--set", f"{name}=1"), must="refused")
        yield f"a setting 5,000 deep in {name[:9]}", case


def search_of(*words: str) -> tuple[str, ...]:
    """A new search with these words."""
    return ("search", "data", "--run", "new", *TINY, *words)


def texts() -> Iterator[tuple[str, Case]]:
    """TOML files that are none."""
    for words, text in {
        "deep lists": f"seed = {DEEP}",
        "lists 300 deep": f"seed = {'[' * 300}{']' * 300}",
        "deep tables": f"seed = {'{a=' * 5000}1{'}' * 5000}",
        "a deep name": f"{'.'.join(['a'] * 5000)} = 1",
        "a deep name in search": f"search.{'.'.join(['a'] * 5000)} = 1",
        "400 digits": f"seed = {DIGITS}",
        "a rate of 400 digits": f"search.rate = {DIGITS}",
        "9,000 digits": f"seed = {'9' * 9000}",
        "1e400": "search.rate = 1e400",
        "a date": "seed = 2026-01-01",
        "no date": "seed = 2026-99-99",
        "100 MB": "#" * (100 * 2**20),
    }.items():
        spoil = functools.partial(written, "bad.toml", text)
        case = trying(spoil, *search_of("--config", "bad.toml"), must="refused")
        yield f"a TOML file of {words}", case


def written(name: str, text: str, folder: Path) -> None:
    """Puts a text into a file."""
    (folder / name).write_text(text)


def forged() -> Iterator[tuple[str, Case]]:
    """Safetensors with a right checksum of wrong content."""
    strides = {
        "no object": "3",
        "null": "null",
        "a list": "[]",
        "of a name that is not there": '{"nothing": [1]}',
        "text": '{"NAME": "x"}',
        "a number": '{"NAME": 1}',
        "null for a tensor": '{"NAME": null}',
        "negative": '{"NAME": [-1, -1, -1, -1]}',
        "zero": '{"NAME": [0, 0, 0, 0]}',
        "of another rank": '{"NAME": [1, 1]}',
        "huge": '{"NAME": [1000000000000, 1, 1, 1]}',
        "of 400 digits": f'{{"NAME": [{DIGITS}, 1, 1, 1]}}',
        "overlapping": '{"NAME": [1, 1, 1, 1]}',
        "fractions": '{"NAME": [1.5, 1, 1, 1]}',
        "flags": '{"NAME": [true, true, true, true]}',
        "with gaps of 4 GB": '{"NAME": [1000000000, 9, 3, 1]}',
    }
    contents = {
        f"strides {words}": f'{{"facts": {{}}, "strides": {s}}}' for words, s in strides.items()
    }
    contents |= {
        "no strides": '{"facts": {}}',
        "no JSON": "{",
        "nothing": "",
        "a list": "[]",
        "null": "null",
        "deep lists": DEEP,
        "facts that are no object": '{"facts": 3, "strides": {}}',
        "no facts": '{"strides": {}}',
        "400 digits": DIGITS,
    }
    for words, content in contents.items():
        code = f"forge('whole/model/model.safetensors', {content!r})"
        case = trying(nothing, *words_of("predict", "whole/"), code=code)
        if "facts" not in words:  # a model has none
            case = trying(nothing, *words_of("predict", "whole/"), code=code, must="refused")
        yield f"weights whose content is {words}", case
    yield from checkpoints()


REMEMBERED = (
    "position position.0 position.1 sums seconds course course.spent course.schedule random "
    "random.numpy random.numpy.0 random.numpy.1 random.numpy.2 random.numpy.3 random.python "
    "random.python.0 random.python.1 facts facts.watch facts.watch.since facts.watch.collapsed "
    "facts.watch.curvatures facts.watch.growing facts.watch.direction facts.least_error "
    "facts.kept_epoch facts.ended facts.gone facts.given_up facts.gone.reduce/0>2"
)


def checkpoints() -> Iterator[tuple[str, Case]]:
    """Checkpoints that remember what no search has seen."""
    values = ("null", "-1", "1e400", "400 digits", "NaN", "text", "a list", "an object", "a flag")
    for turn, entry in enumerate(REMEMBERED.split()):
        for value in values[turn % 3 :: 3]:
            code = f"misremember('begun/checkpoint', {entry!r}, {VALUES[value]!r})"
            case = trying(nothing, "resume", "begun", code=code)
            yield f"a checkpoint whose {entry} is {value}", case
    for words, change in {
        "the state of an optimiser in another shape": "t['weights/0/exp_avg'] = torch.zeros(7)",
        "half the state of an optimiser": "del t['weights/0/exp_avg_sq']",
        "steps of an optimiser that are -1": "t['weights/0/step'] -= 99",
        "random numbers of another kind": "t['random/torch'] = torch.zeros(3)",
        "no random numbers": "del t['random/numpy']",
        "too few random numbers": "t['random/numpy'] = t['random/numpy'][:5]",
        "text for a number of an optimiser": "t['weights/x/step'] = torch.zeros(3)",
        "a network of other sizes": "t['net/stem.0.weight'] = torch.zeros(3)",
        "no network": "[t.pop(n) for n in list(t) if n.startswith('net/')]",
        "more rounds than there are": "t['rounds/ended'] += 9",
    }.items():
        code = f"rewrite('begun/checkpoint', {change!r})"
        yield f"a checkpoint with {words}", trying(nothing, "resume", "begun", code=code)


def weights() -> Iterator[tuple[str, Case]]:
    """Weights by which no image has a probability, and large ones that are sound."""
    changes = {
        "NaN": "t[n].view(-1)[0] = float('nan')",
        "infinite": "t[n].view(-1)[0] = float('inf')",
        "of other kinds": "t[n] = t[n].to(torch.complex64)",
    }
    names = {
        "classify.weight": "the classifier",
        "stem.0.weight": "the stem",
        "running_mean": "a mean",
        "running_var": "a variance",
        "normalise.mean": "the normalisation",
    }
    for value, change in changes.items():
        for end, words in names.items():
            code = f"change('whole/model', {end!r}, {change!r})"
            case = trying(nothing, *words_of("predict", "whole/"), code=code, must="refused")
            yield f"weights of {words} that are {value}", case
    for words, end, change in (
        ("variances below 0", "running_var", "t[n] -= 1000"),
        ("a deviation of 0", "normalise.std", "t[n] *= 0"),
        ("a negative deviation", "normalise.std", "t[n] *= -1"),
        ("weights too large to compute with", "classify.weight", "t[n][:] = 3e38; t[n][0] *= -1"),
    ):
        code = f"change('whole/model', {end!r}, {change!r})"
        for command in ("predict", "export", "evaluate"):
            case = trying(nothing, *words_of(command, "whole/"), code=code, must="refused")
            yield f"{words}, {command}", case
    for factor in ("1e4", "1e6", "1e8"):
        code = f"change('whole/model', 'classify.weight', 't[n] *= {factor}')"
        case = trying(nothing, "export", "whole", code=code, must="done")
        yield f"logits {factor} times as large are exported", case


# -- What is run in a fork, with Ardor imported ------------------------------------------------


def pictures(folder: Path) -> None:
    """Six images of noise of each of two classes."""
    import numpy as np
    from PIL import Image

    numbers = np.random.default_rng(0)
    for place in (folder / name / f"{number}.png" for name in "ab" for number in range(6)):
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(numbers.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(place)


def forge(path: str, content: str) -> None:
    """Writes other content into a safetensors file, with its checksum; NAME is a 4-d tensor."""
    import safetensors.torch

    from ardor.runtime import digest

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

    from ardor.runtime import save

    path, tensors, facts = only(folder)
    exec(change, {"t": tensors, "torch": torch})
    save(path, tensors, facts)


def change(folder: str, end: str, change: str) -> None:
    """Changes the tensors `t[n]` of a model whose names end so."""
    import torch

    from ardor.runtime import load, save

    path = Path(folder) / "model.safetensors"
    tensors, facts = load(path)
    names = [name for name in tensors if name.endswith(end)]
    assert names, sorted(tensors)
    for name in names:
        exec(change, {"t": tensors, "n": name, "torch": torch})
    save(path, tensors, facts)


def only(folder: str) -> tuple[Path, dict[str, Any], Mapping[str, Any]]:
    """The newest checkpoint, once it is the only one."""
    from ardor.runtime import load

    *others, path = sorted(Path(folder).iterdir())
    for other in others:
        other.unlink()
    return path, *load(path)


if __name__ == "__main__":
    serve()
