"""Bad input that is no image: files of runs and models, and settings.

Most cases are generated: every entry of every file of a run is put to what it must not be.
"""

import functools
import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from forks import PLACE, TINY, nothing, spoiled, trying
from trial import Case

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


def cases() -> dict[str, Case]:
    """All of them."""
    return dict(one for family in (pipes, edited, settings, texts) for one in family())


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
    short = f"{tempfile.gettempdir()}/inputs-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(short)
    os.replace(short, path)


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
    "kept kept.reduce/0>2 kept.reduce/0>2.0 choices choices.1 choices.1.name choices.1.kind "
    "choices.1.options choices.1.copies choices.1.place choices.1.place.title "
    "choices.1.place.shrinks choices.1.source choices.1.target choices.1.families "
    "probabilities probabilities.reduce/0>2 "
    "probabilities.reduce/0>2.skip_connect strengths strengths.reduce/0>2 "
    "strengths.reduce/0>2.skip_connect left candidates candidates.0 candidates.0.kept "
    "candidates.0.held_out_nll probability runners_up runners_up.0 runners_up.0.kept "
    "runners_up.0.times_as_likely runners_up.0.standard_error",
    "curve.json": "format images count points points.0 points.0.threshold points.0.params "
    "points.0.macs points.0.accuracy points.0.nll",
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
