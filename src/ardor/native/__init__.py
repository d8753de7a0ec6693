"""The native code beside this file: compiled when first asked for, kept for the next time."""

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

from ardor.files import write

SOURCES = ("rows.h", "blocks.h", "pools.h", "chains.h", "states.h", "states.c")
LOG = logging.getLogger("ardor")


@cache
def library() -> ctypes.CDLL | None:
    """The native code, compiled when first asked for and kept; None where it cannot be."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if os.environ.get("ARDOR_NATIVE") == "0" or compiler is None:
        return None
    folder = resources.files("ardor") / "native"
    text = "".join((folder / name).read_text() for name in SOURCES)
    key = hashlib.sha256(f"{text}{compiler}{platform.machine()}{processor()}".encode()).hexdigest()
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ardor"
    path = home / f"states-{key[:16]}.so"
    try:
        if not path.exists():
            with resources.as_file(folder) as source:
                write(path, _compiled(compiler, source / "states.c"))
        return ctypes.CDLL(str(path))
    except Exception as error:  # a fast path must never be the reason that nothing runs
        LOG.info("no native kernels, the plain ones are used: %s", error)
        return None


@cache
def processor() -> str:
    """What -march=native stands for here."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith("flags")), "")


def _compiled(compiler: str, source: Path) -> bytes:
    """The shared library, as bytes; on one thread where the compiler knows no OpenMP."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "states.so"
        command = [compiler, "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math"]
        command += ["-shared", "-fPIC", str(source), "-lm", "-o", str(made)]
        parallel = subprocess.run([*command, "-fopenmp"], capture_output=True, check=False)
        if parallel.returncode:
            subprocess.run(command, check=True, capture_output=True)
        return made.read_bytes()
