"""Images and labels that are bad, strange or a trap: read, or refused in a line and a hint.

No command may take more than `MOST` of memory, whatever a file says it holds.
"""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from bad_images import (
    RNG,
    Make,
    arrays,
    bind,
    cifar,
    good,
    gz_bomb,
    header,
    idx,
    kind,
    labels,
    linked,
    members,
    mnist,
    npy,
    photo,
    picture_link,
    pixels,
    png,
    put,
    renamed,
    tag,
    with_picture,
)
from bad_images.pickles import METAS, PICKLES
from PIL import Image
from trial import Answer, Ardor, Case

MOST = 1000  # MB at the peak: without images it is about 300
SECONDS = 30  # after which a command counts as one that never ends
TINY = (
    *("--set", "space.layout=R", "--set", "space.states=1", "--set", "space.channels=2"),
    *("--set", "space.ops=skip_connect,max_pool_3x3", "--epochs", "1"),
)
# One process that has loaded everything, and a child of it for each command: no time is lost.
SERVER = """
import json, os, signal, sys
import ardor.__main__, ardor.cli.screen, ardor.data.check, ardor.pipeline.stages
from ardor.data import readers
kinds = [readers.find(name) for name in readers.names()]
for line in sys.stdin:
    seconds, folder, *words = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(folder)
        signal.alarm(seconds)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["ardor", *words]
        ardor.__main__.main()
    _, status, used = os.wait4(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_maxrss // 1024]), flush=True)
"""


@cache
def server(source: Path) -> "subprocess.Popen[str]":
    """The process that answers for that Ardor."""
    place = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", SERVER], env=place, text=True, **pipes)


def measured(ardor: Ardor, *words: str) -> tuple[Answer, str | None]:
    """The answer of a command, and what is wrong with the memory that it took."""
    process = server(ardor.source)
    assert process.stdin
    assert process.stdout
    print(json.dumps([SECONDS, str(ardor.folder), *words]), file=process.stdin, flush=True)
    code, peak = json.loads(process.stdout.readline())
    out, err = ((ardor.folder / name).read_text(errors="replace") for name in ("out", "err"))
    answer = Answer(None if code == -signal.SIGALRM else code, out, err)
    return answer, f"it took {peak} MB" if peak > MOST else None


def checked(make: Make, ends: str, source: str, words: tuple[str, ...], ardor: Ardor) -> str | None:
    """Tries `ardor check` on what is made: it must end as `ends` says."""
    make(ardor.folder / "data")
    answer, large = measured(ardor, "check", source, *words)
    return {"done": answer.done, "refused": answer.refused, "any": partial(either, answer)}[
        ends
    ]() or large


def either(answer: Answer) -> str | None:
    """What is wrong where both a success and a refusal are right."""
    return answer.done() if answer.code == 0 else answer.refused()


GOOD = {"x": npy(pixels(40, 9, 9)), "y": npy(labels())}
NPZ = {
    "a member that is no array": members(x=b"hello", y=GOOD["y"]),
    "labels that are no array": members(x=GOOD["x"], y=b"hello"),
    "an empty member": members(x=b"", y=GOOD["y"]),
    "a shape of 10 ** 30": members(x=header("(10**30,)"), y=GOOD["y"]),
    "a shape of 10 to the 30 in digits": members(x=header(f"({10**30}, 9, 9)"), y=GOOD["y"]),
    "a shape of 3 GB": members(x=header("(40, 9000, 9000)"), y=GOOD["y"]),
    "a shape of none times 10 ** 30": members(x=header(f"(0, {10**30})"), y=GOOD["y"]),
    "a negative shape": members(x=header("(-40, -9, 9)", content=bytes(3240)), y=GOOD["y"]),
    "a shape of 70 axes": members(x=header(f"({'1,' * 70})", content=b"x"), y=GOOD["y"]),
    "a header of deep brackets": members(x=header("[" * 5000), y=GOOD["y"]),
    "a header of deep signs": members(x=header("-" * 9000 + "1"), y=GOOD["y"]),
    "a kind that is none": members(x=header("(40, 9, 9)", "'hello'"), y=GOOD["y"]),
    "objects": members(x=header("(40, 9, 9)", "'|O'", b"cos\nsystem\n"), y=GOOD["y"]),
    "records": arrays(x=np.zeros((40, 9, 9), "u1,u1"), y=labels()),
    "labels that are records": arrays(x=pixels(40, 9, 9), y=np.zeros(40, "u1,u1")),
    "labels that are objects": members(x=GOOD["x"], y=header("(40,)", "'|O'", b"cos\nsystem\n")),
    "labels that are complex": arrays(x=pixels(40, 9, 9), y=np.zeros(40, complex)),
    "labels of two axes": arrays(x=pixels(40, 9, 9), y=np.zeros((40, 10), int)),
    "one label": arrays(x=pixels(40, 9, 9), y=np.array(1)),
    "fewer labels than images": arrays(x=pixels(40, 9, 9), y=labels(39)),
    "a single number for images": arrays(x=np.array(3, np.uint8), y=labels()),
    "images of doubles": arrays(x=np.zeros((40, 9, 9)), y=labels()),
    "images of two channels": arrays(x=pixels(40, 2, 9, 9), y=labels()),
    "images of no pixels": arrays(x=pixels(40, 0, 9), y=labels()),
    "no images": arrays(x=pixels(0, 9, 9), y=labels(0)),
    "one class": arrays(x=pixels(40, 9, 9), y=labels(40, 1)),
    "one image a class": arrays(x=pixels(40, 9, 9), y=np.arange(40)),
    "another size in test": arrays(
        x=pixels(40, 9, 9), y=labels(), x_test=pixels(4, 8, 8), y_test=labels(4)
    ),
    "1.5 GB of zeros": members(1500, x=header(f"(1500, {2**10}, {2**10})"), y=npy(labels(1500))),
    "more than its shape says": members(1500, x=header("(40, 9, 9)"), y=GOOD["y"]),
    "a folder that looks like it": lambda path: path.mkdir(),
    "a FIFO": lambda path: os.mkfifo(path),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "text": lambda path: path.write_text("hello"),
    "nothing": lambda path: path.write_bytes(b""),
    "a zip cut short": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(30)),
}  # fmt: skip
PLAIN, ENDLESS = idx(40, 9, 9), idx(*[2**32 - 1] * 3, content=b"")
MNIST = {
    "1.5 GB in a small .gz": mnist(images_gz=gz_bomb(1500, 1024, 1024, of=1504)),
    "1.5 GB in a .gz that says 3 kB": mnist(images_gz=gz_bomb(40, 9, 9, of=1504)),
    "labels of 1.5 GB": mnist(labels_gz=gz_bomb(40, of=1504)),
    "labels that say 4 GB": mnist(labels=idx(2**32 - 1, content=b"")),
    "a shape of 2 ** 96": mnist(images=ENDLESS),
    "a shape of 2 ** 96, packed": mnist(images_gz=gzip.compress(ENDLESS)),
    "a .gz cut short": mnist(images_gz=gzip.compress(PLAIN)[:-20]),
    "a .gz with garbage behind it": mnist(images_gz=gzip.compress(PLAIN) + b"garbage"),
    "a .gz with a wrong sum": mnist(images_gz=gzip.compress(PLAIN)[:-8] + bytes(8)),
    "a .gz of nothing": mnist(images_gz=b""),
    "no .gz at all": mnist(images_gz=b"hello"),
    "cut short": mnist(images=PLAIN[:-3]),
    "cut in its header": mnist(images=PLAIN[:9]),
    "too long": mnist(images=PLAIN + b"x"),
    "of nothing": mnist(images=b""),
    "of another kind": mnist(images=idx(40, 9, 9, magic=0x0D03)),
    "of no images": mnist(images=idx(0, 9, 9), labels=idx(0)),
    "of no pixels": mnist(images=idx(40, 0, 9)),
    "fewer labels": mnist(labels=idx(39)),
    "one class": mnist(labels=idx(40, content=bytes(40))),
}  # fmt: skip


COLOUR = photo(12, 9, 3)
PICTURES: Mapping[str, tuple[str, Make]] = {
    "of 1x1": ("done", kind(photo(1, 1, 3))),
    "of 1x60000": ("done", kind(photo(60000, 1, 3))),
    "of 60000x1": ("done", kind(photo(1, 60000, 3))),
    "of 16 bits": ("done", kind(Image.fromarray(RNG.integers(0, 65536, (9, 9)).astype(np.uint16)))),
    "of CMYK": ("done", kind(COLOUR.convert("CMYK"), "x.jpg")),
    "of one bit": ("done", kind(COLOUR.convert("1"))),
    "with a palette and transparency": ("done", kind(COLOUR.convert("P"), transparency=0)),
    "with alpha": ("done", kind(COLOUR.convert("RGBA"))),
    "in LAB": ("any", kind(Image.new("LAB", (9, 9)), "x.tif")),
    "of floating point": ("refused", kind(Image.new("F", (9, 9)), "x.tif")),
    "that moves": (
        "done",
        kind(COLOUR.convert("P"), "x.gif", save_all=True, append_images=[COLOUR.convert("P")] * 3),
    ),
    "with a broken EXIF record": ("any", with_picture(put(tag(COLOUR)), "x.jpg")),
    "of nothing": ("refused", with_picture(put(b""))),
    "that is text": ("refused", with_picture(put(b"hello"))),
    "that is PostScript": ("refused", with_picture(put(b"%!PS-Adobe-3.0 EPSF-3.0\n"))),
    "cut short": ("refused", with_picture(put(png(99, 99, 2)[:-40]))),
    "without rows": ("refused", with_picture(put(png(99, 99, 2, rows=False)))),
    "of 0x0": ("refused", with_picture(put(png(0, 0, 2)))),
    "of 2 ** 31": ("refused", with_picture(put(png(2**31 - 1, 2**31 - 1, 2, rows=False)))),
    "of 10000x10000 with alpha": ("refused", with_picture(put(png(10000, 10000, 6)))),
    "of 12000x12000 with a palette": ("refused", with_picture(put(png(12000, 12000, 3)))),
    "of 12000x12000 in 16 bits": ("refused", with_picture(put(png(12000, 12000, 0, 16)))),
    "of 5000x5000 with alpha": ("done", with_picture(put(png(5000, 5000, 6)))),
    "that is a folder": ("done", with_picture(lambda path: path.mkdir())),
    "that is a FIFO": ("done", with_picture(os.mkfifo)),
    "that is a socket": ("done", with_picture(bind)),
    "that is a link to itself": ("done", picture_link("x.png")),
    "that is a link to nowhere": ("done", picture_link("nowhere")),
    "that is a link to /dev/zero": ("done", picture_link("/dev/zero")),
    "that cannot be read": ("refused", picture_link("/proc/self/mem")),
    "whose name is no UTF-8": ("done", kind(COLOUR, "x\udcff.png")),
    "whose name has lines": ("done", kind(COLOUR, "x\ny.png")),
    "broken, whose name has lines": ("refused", with_picture(put(b""), "x\ny.png")),
    "broken, whose name is no UTF-8": ("refused", with_picture(put(b""), "x\udcff.png")),
}  # fmt: skip
FOLDERS: Mapping[str, tuple[str, Make]] = {
    "an empty class": ("done", lambda folder: (good(folder) / "empty").mkdir()),
    "one class": ("refused", partial(good, classes=1)),
    "one image a class": ("refused", partial(good, count=1)),
    "2,000 classes": ("done", lambda folder: good(folder, 2000, 4)),
    "nothing": ("refused", lambda folder: folder.mkdir()),
    "a class whose name is no UTF-8": ("any", renamed("\udcff")),
    "a class whose name has lines": ("done", renamed("a\nb")),
    "a class that is a link to its folder": ("any", linked("up", ".")),
    "a class that is a link to itself": ("done", linked("up", "up")),
    "a FIFO among the classes": ("done", lambda folder: os.mkfifo(good(folder) / "pipe")),
    "a train that is a FIFO": ("done", lambda folder: os.mkfifo(good(folder) / "train")),
    "a FIFO itself": ("refused", os.mkfifo),
    "a socket itself": ("refused", bind),
    "a link to itself": ("refused", lambda path: path.symlink_to(path.name)),
    "a link to /dev/zero": ("refused", lambda path: path.symlink_to("/dev/zero")),
    "a link to /dev/stdin": ("refused", lambda path: path.symlink_to("/dev/stdin")),
}  # fmt: skip


@cache
def finished(source: Path) -> Path:
    """A finished run of that Ardor, made once."""
    ardor = Ardor(source, Path(tempfile.mkdtemp(prefix="campaign-images-")))
    good(ardor.folder / "data")
    ardor("run", "data", "--run", "run", *TINY)
    return ardor.folder / "run"


def predicted(content: bytes, ardor: Ardor) -> str | None:
    """Tries `ardor predict` on a picture that must be refused."""
    shutil.copytree(finished(ardor.source), ardor.folder / "run")
    (ardor.folder / "x.png").write_bytes(content)
    answer, large = measured(ardor, "predict", "run", "x.png")
    return answer.refused() or large


def run_whole(name: str, ardor: Ardor) -> str | None:
    """Tries a whole run on a class of that name."""
    renamed(name)(ardor.folder / "data")
    return either(ardor("run", "data", "--run", "run", *TINY))


def limited(kilobytes: int, ardor: Ardor) -> str | None:
    """Tries a command in a small address space: a hint on batches is of no use there."""
    limit = f"resource.setrlimit(resource.RLIMIT_AS, ({kilobytes * 1024},) * 2)"
    go = "os.execv(sys.executable, [sys.executable, '-m', 'ardor', 'check', 'digits'])"
    answer = ardor.python("-c", f"import os, resource, sys; {limit}; {go}", seconds=SECONDS)
    return answer.refused() or ("a strange hint" if "accumulate" in answer.err else None)


def cases() -> dict[str, Case]:
    """Every case of this part."""
    found: dict[str, Case] = {}

    def add(name: str, make: Make, ends: str, source: str = "data", *words: str) -> None:
        found[name] = partial(checked, make, ends, source, words)

    for name, content in PICKLES.items():
        add(f"a CIFAR batch of {name}", cifar(content), "refused")
    for name, (ends, files) in METAS.items():
        add(f"CIFAR with {name}", cifar(None, **files), ends)
    for name, make in NPZ.items():
        add(
            f"an npz file: {name}",
            lambda path, m=make: m(Path(f"{path}.npz")),
            "refused",
            "data.npz",
        )
    for name, make in MNIST.items():
        add(f"an IDX file: {name}", make, "refused")
    for name, (ends, make) in PICTURES.items():
        add(f"a picture {name}", make, ends)
    for name, (ends, make) in FOLDERS.items():
        add(f"a folder: {name}", make, ends)
    wide = arrays(x=pixels(40, 1, 60000), y=labels())
    add(
        "images of 1x60000 as 512x512",
        lambda p: wide(Path(f"{p}.npz")),
        "refused",
        "data.npz",
        "--set",
        "data.size=512",
    )
    huge = arrays(x=pixels(20000, 8, 8), y=labels(20000))
    add(
        "20,000 images as 1024x1024",
        lambda p: huge(Path(f"{p}.npz")),
        "refused",
        "data.npz",
        "--set",
        "data.size=1024",
    )
    for name in (
        "/dev/zero",
        "/dev/stdin",
        "/dev/null",
        "/proc/self/mem",
        "/",
        "/proc",
        "a\0b",
        "\udcff",
    ):
        if "\0" not in name:
            add(f"{name!r} as data", lambda path: None, "refused", name)
    for value in ("-1", "lots", "2XB", "1" + "0" * 400 + "GB", "nan", "true"):
        add(f"data.memory = {value[:9]}", good, "refused", "data", "--set", f"data.memory={value}")
    for size in ((10000, 10000, 6), (12000, 12000, 3)):
        found[f"a picture to predict of {size}"] = partial(predicted, png(*size))
    for name in ("\udcff", "a\nb", "a\tb", "<b>"):
        found[f"a whole run with a class {name!r}"] = partial(run_whole, name)
    for kilobytes in (200_000, 400_000, 600_000, 700_000):
        found[f"an address space of {kilobytes} kB"] = partial(limited, kilobytes)
    return found
