"""What is computed is not lost: runs that are killed, shared, moved and interrupted."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trial import Answer, Ardor, Case

STAGES = ("search", "train", "prune", "export", "evaluate", "report")
# Writes of a stage before and after which it is killed, spread over all there are.
POINTS = {"search": 8, "train": 9, "prune": 14, "export": 3, "evaluate": 4, "report": 3}
TINY = [
    *("--set", "space.layout=R", "--set", "space.states=1", "--set", "space.channels=2"),
    *("--set", "space.ops=skip_connect,max_pool_3x3", "--set", "search.batch=8"),
    *("--set", "train.batch=8", "--set", "prune.fine_tune=1"),
]
SHORT = [*TINY, "--epochs", "2", "--quiet"]
LONG = [*TINY, "--epochs", "3000", "--quiet"]
SAME = (
    *("architecture.json", "architecture.svg", "trained/model.safetensors", "trained/README.md"),
    *("model/model.safetensors", "model/README.md", "model/config.json", "export/model.onnx"),
)
# Forks a process for each command that it is given, so that torch is imported once; the process
# is killed before or after its n-th move of a file or folder into place.
SERVER = """
import json, os, signal, sys
import onnx, onnxruntime, onnxscript, torch, torch.onnx, sklearn.datasets
import torchmetrics, rich.progress
import ardor.bench.runs, ardor.cli.screen, ardor.models.exporters.onnx, ardor.pipeline.stages
from ardor.__main__ import main
from ardor.models.exporters._base import quiet

try: import torch.utils.tensorboard
except ImportError: pass
with quiet():  # it imports much when it is first used
    torch.onnx.export(torch.nn.Linear(1, 1), (torch.zeros(1, 1),), dynamo=True)
os.fsync = lambda file: None  # what a process has written outlives it anyway

def counted(name, job, count=[0]):
    real = getattr(os, name)
    def move(*words, **more):
        count[0] += 1
        if [count[0], "before"] == job["kill"]: os.kill(os.getpid(), signal.SIGKILL)
        result = real(*words, **more)
        if [count[0], "after"] == job["kill"]: os.kill(os.getpid(), signal.SIGKILL)
        open(job["said"] + ".writes", "w").write(str(count[0]))
        return result
    setattr(os, name, move)

def child(job):
    said = os.open(job["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1), os.dup2(said, 2)
    os.chdir(job["cwd"])
    sys.argv = ["ardor", *job["words"]]
    counted("replace", job), counted("rename", job)
    main()

for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if not pid:
        try: child(job)
        except SystemExit as end: os._exit(end.code or 0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(99)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Server:
    """Commands in forks of one process that has imported all they need."""

    def __init__(self, source: Path) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.place = Path(self.folder.name)
        make_images(self.place / "images.npz")
        self.writes = {stage: self.prepare(stage) for stage in STAGES}

    def prepare(self, stage: str) -> int:
        """A run that was left alone until this stage was done; how often it has written in it."""
        folder = self.copy(stage, self.place / stage)
        answer, writes = self.answer(folder, self.words(folder, stage))
        if wrong := answer.done():
            raise RuntimeError(wrong)
        return writes

    def copy(self, stage: str, folder: Path) -> Path:
        """A folder with the run as it was before a stage, which is asked to go no further."""
        before = STAGES.index(stage) - 1
        if before < 0:
            folder.mkdir(exist_ok=True)
            shutil.copy(self.place / "images.npz", folder)
        else:
            shutil.copytree(self.place / STAGES[before], folder, dirs_exist_ok=True)
            ask(folder / "run", STAGES[: before + 2])
        return folder

    def words(self, folder: Path, stage: str) -> list[str]:
        """The command that goes on in such a folder."""
        if (folder / "run").exists():
            return ["resume", "run", "--quiet"]
        return ["search", "images.npz", "--run", "run", *SHORT]

    def answer(self, cwd: Path, words: list[str], kill: Any = None) -> tuple[Answer, int]:
        """How a command ended, and how many files and folders it had moved into place."""
        said = self.place / "said"
        job = {"cwd": str(cwd), "words": words, "kill": kill, "said": str(said)}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        writes = Path(f"{said}.writes")
        count = int(writes.read_text()) if writes.exists() else 0
        return Answer(code, "", said.read_text(errors="replace")), count


@functools.cache
def server(source: Path) -> Server:
    """The one for a source tree, with a run that was left alone."""
    return Server(source)


def make_images(path: Path) -> None:
    """Sixty small images of two classes, as arrays."""
    import numpy as np

    y = np.arange(60) % 2
    x = np.random.default_rng(0).integers(0, 120, (60, 8, 8)) + 100 * y[:, None, None]
    np.savez(path, x=x.astype(np.uint8), y=y.astype(np.uint8))


def ask(run: Path, stages: tuple[str, ...]) -> None:
    """Has a run ask for these stages, and look for its images where they are."""
    path = run / "config.json"
    config = {**json.loads(path.read_text()), "stages": stages}
    if "place" in config:
        config["place"] = {"images.npz": str(run.parent / "images.npz")}
    path.write_text(json.dumps(config, indent=2) + "\n")


def killed(stage: str, point: int, when: str) -> Case:
    """A stage that is killed at a write, and then continued."""

    def case(ardor: Ardor) -> str | None:
        at = server(ardor.source)
        at.copy(stage, ardor.folder)
        number = -(-point * at.writes[stage] // POINTS[stage])
        answer, _ = at.answer(ardor.folder, at.words(ardor.folder, stage), [number, when])
        if answer.code != -signal.SIGKILL:
            return f"it was not killed: {answer.err}"
        answer, _ = at.answer(ardor.folder, at.words(ardor.folder, stage))
        return answer.done() or differs(ardor.folder, at.place / stage)

    return case


def differs(folder: Path, whole: Path) -> str | None:
    """In what a run is not as the one that was left alone."""
    for name in SAME:
        ours, theirs = (place / "run" / name for place in (folder, whole))
        if ours.exists() != theirs.exists():
            return f"{name} is there in one"
        if ours.exists() and ours.read_bytes() != theirs.read_bytes():
            return f"{name} differs"
    found, wanted = (figures(place / "run") for place in (folder, whole))
    if other := sorted(k for k in found | wanted if found.get(k) != wanted.get(k)):
        return f"metrics.json has other figures of {', '.join(other)}"
    if epochs(folder / "run") != epochs(whole / "run"):
        return "log.jsonl has other epochs"
    left = [path.name for path in folder.rglob(".*")]
    return f"left behind: {left}" if left else None


def figures(run: Path) -> dict[str, Any]:
    """What was measured, without times and memory; the stages whose cost is known."""
    content = json.loads((run / "metrics.json").read_text())
    stages = sorted(content.pop("stages"))
    return {"stages": stages, **{k: v for k, v in content.items() if "latency" not in k}}


def epochs(run: Path) -> list[Any]:
    """The epochs in the log, in order."""
    lines = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [(line["stage"], line["epoch"]) for line in lines]


def begun(ardor: Ardor, *options: str) -> Path:
    """A search of many epochs, killed after its first checkpoint."""
    make_images(ardor.folder / "images.npz")
    words = ["search", "images.npz", "--run", "run", *LONG, *options]
    server(ardor.source).answer(ardor.folder, words, [5, "after"])
    return ardor.folder / "run"


def ended(process: "subprocess.Popen[str]", seconds: float = 120.0) -> Answer:
    """How a process ends; it is killed where it does not."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return Answer(None, *process.communicate())
    return Answer(process.returncode, out, err)


def wait_for(process: "subprocess.Popen[str]", there: Callable[[], object]) -> None:
    """Until something is there, or the process is not."""
    while process.poll() is None and not there():
        time.sleep(0.01)


def two_at_once(*second: str) -> Case:
    """A resume, and another command on the run: one is refused, and nothing is logged twice."""

    def case(ardor: Ardor) -> str | None:
        run = begun(ardor, "--set", "search.epochs=60")
        (ardor.folder / "other").symlink_to("run")
        both = [ardor.begin("-m", "ardor", *words) for words in (["resume", "run"], [*second])]
        answers = [ended(process) for process in both]
        if sorted(str(answer.code) for answer in answers) != ["0", "1"]:
            return f"they ended with {[answer.code for answer in answers]}"
        (refused,) = (answer for answer in answers if answer.code)
        if "in use by process" not in refused.err:
            return f"it said {refused.err}"
        logged = epochs(run)
        return refused.refused() or ("lines twice" if len(logged) > len(set(logged)) else None)

    return case


def gone(change: Callable[[Path], object]) -> Case:
    """The folder is no longer there while a search runs: one line, and no folder in its place."""

    def case(ardor: Ardor) -> str | None:
        run = begun(ardor)
        lines = len((run / "log.jsonl").read_text().splitlines())
        process = ardor.begin("-m", "ardor", "resume", "run", "--quiet")
        log = run / "log.jsonl"
        wait_for(process, lambda: len(log.read_text().splitlines()) > lines + 3)
        change(run)
        answer = ended(process, 30.0)
        return answer.refused() or ("the folder is there again" if run.exists() else None)

    return case


def new_at_once(*options: str) -> Case:
    """Two new runs at the same time: each has a folder of its own, or is told that it is taken."""

    def case(ardor: Ardor) -> str | None:
        make_images(ardor.folder / "images.npz")
        # Both look for a free name, and then wait for the other, as chance has it at times.
        wait = (
            "import os, time, pathlib, ardor.pipeline.run as r\n"
            "real = r.resolved\n"
            "def meet(layers):\n"
            "    found = real(layers)\n"
            "    pathlib.Path(f'here-{os.getpid()}').touch()\n"
            "    while len(list(pathlib.Path().glob('here-*'))) < 2: time.sleep(0.001)\n"
            "    return found\n"
            "r.resolved = meet\n"
            "from ardor.__main__ import main\n"
            "main()"
        )
        words = ["search", "images.npz", *SHORT, *options]
        both = [ardor.begin("-c", wait, *words) for _ in range(2)]
        answers = [ended(process) for process in both]
        if not options:
            made = {p.name for p in (ardor.folder / "runs").iterdir()}
            wrong = [answer.done() for answer in answers if answer.done()]
            return wrong[0] if wrong else None if len(made) == 2 else f"there are {made}"
        if sorted(str(answer.code) for answer in answers) != ["0", "1"]:
            return f"they ended with {[answer.code for answer in answers]}"
        (refused,) = (answer for answer in answers if answer.code)
        return refused.refused() or (None if "exists already" in refused.err else refused.err)

    return case


def interrupted(signals: list[int], delay: float, phase: str) -> Case:
    """Signals, 10 ms apart, at some time: exit code 130 and no traceback."""

    def case(ardor: Ardor) -> str | None:
        words = ["resume", "run", "--quiet"]
        if phase == "starting":
            make_images(ardor.folder / "images.npz")
            words = ["search", "images.npz", "--run", "run", *LONG]
        else:
            begun(ardor)
        code = "from ardor.__main__ import main; open('ready', 'w'); main()"
        process = ardor.begin("-c", code, *words)
        wait_for(process, (ardor.folder / "ready").exists)
        if phase == "searching":
            log = ardor.folder / "run" / "log.jsonl"
            size = log.stat().st_size
            wait_for(process, lambda: log.stat().st_size > size)
        time.sleep(delay)
        for number in signals:
            process.send_signal(number)
            time.sleep(0.01)
        answer = ended(process)
        return answer.ended() or (None if answer.code == 130 else f"it ended with {answer.code}")

    return case


def elsewhere(*more: str, moved: bool = False) -> Case:
    """A run of images at a relative path, and a command on it in another folder."""

    def case(ardor: Ardor) -> str | None:
        at = server(ardor.source)
        home, other = ardor.folder / "home", ardor.folder / "other"
        shutil.copytree(at.place / "report", home)
        ask(home / "run", STAGES)
        other.mkdir()
        if moved:
            (home / "images.npz").rename(other / "new.npz")
        command, *options = more
        words = [command, "../home/run", *options]
        return at.answer(other, words)[0].done()

    return case


def told(ardor: Ardor) -> str | None:
    """Images that are gone: the hint says how to name the new place."""
    if elsewhere("evaluate", moved=True)(ardor) is None:
        return "it went on without images"
    run = ardor.folder / "home" / "run"
    answer, _ = server(ardor.source).answer(ardor.folder, ["evaluate", str(run)])
    return answer.refused() or (None if "--data" in answer.err else f"it said {answer.err}")


def pruned_anew(ardor: Ardor) -> Iterator[str]:
    """Every write of pruning a finished run otherwise, killed there and continued.

    It must end as if never killed or, where the new settings were not kept yet, with those before.
    """
    at = server(ardor.source)
    words = ["prune", "run", "--threshold", "-1", "--fine-tune", "0", "--quiet"]
    whole = ardor.folder / "whole"
    shutil.copytree(at.place / "report", whole)
    ask(whole / "run", ("search", "train", "prune", "evaluate"))  # an export takes seconds
    shutil.copytree(whole, ardor.folder / "before")
    shutil.copytree(whole, ardor.folder / "again")
    at.answer(ardor.folder / "again", ["prune", "run", "--quiet"])
    writes = at.answer(whole, words)[1]
    for end in ("whole", "again"):
        at.answer(ardor.folder / end, ["resume", "run", "--quiet"])
    for number in range(1, writes + 1):
        folder = ardor.folder / str(number)
        shutil.copytree(ardor.folder / "before", folder)
        at.answer(folder, words, [number, "after"])
        answer, _ = at.answer(folder, ["resume", "run", "--quiet"])
        ends = [unlike(folder, end) for end in (whole, ardor.folder / "again")]
        if wrong := answer.done() or ("; ".join(map(str, ends)) if all(ends) else None):
            yield f"after write {number}: {wrong}"


def unlike(folder: Path, other: Path) -> str | None:
    """In what two runs differ, also in how they are to be pruned."""
    asked, meant = (json.loads((at / "run/config.json").read_text()) for at in (folder, other))
    wrong = None if asked["prune"] == meant["prune"] else "it would be pruned otherwise"
    return wrong or differs(folder, other)


def cases() -> dict[str, Case]:
    """Every case by name."""
    found: dict[str, Case] = {
        f"{stage} killed {when} write {point} of {count}, and resumed": killed(stage, point, when)
        for stage, count in POINTS.items()
        for point in range(1, count + 1)
        for when in ("before", "after")
    }
    found["pruned anew, killed after each write, and resumed"] = lambda ardor: next(
        pruned_anew(ardor), None
    )
    for second in (["resume", "run"], ["resume", "other"]):
        found[f"resume and {' '.join(second)} at once"] = two_at_once(*second)
    found["the folder deleted while it is searched"] = gone(shutil.rmtree)
    found["the folder renamed while it is searched"] = gone(
        lambda run: run.rename(run.with_name("new"))
    )
    found["two new runs at once"] = new_at_once()
    found["two new runs of one name at once"] = new_at_once("--run", "mine")
    for count in (1, 2, 6):
        for delay in (0.005, 0.3, 1.5):
            name = f"{count} SIGINT {delay} s after the start"
            found[name] = interrupted([signal.SIGINT] * count, delay, "starting")
    for numbers in ([2] * 2, [2] * 6, [15] * 6, [2, 15] * 3):
        found[f"signals {numbers} while searching"] = interrupted(numbers, 0.0, "searching")
    for command in ("evaluate", "export", "prune", "report"):
        found[f"{command} from another folder"] = elsewhere(command)
    for command in ("evaluate", "export", "prune"):
        name = f"{command} with images that have moved"
        found[name] = elsewhere(command, "--data", "new.npz", moved=True)
    found["images that are gone"] = told
    return found
