"""Threads that wait for each other sleep, however Ardor is used; each in a process of its own."""

import os
import subprocess
import sys

import pytest

WHEN_TORCH_LOADS = """
import os, sys
class Listening:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY"))
            sys.exit()
sys.meta_path.insert(0, Listening())
"""
TORCH_FIRST = """
import threading, torch
torch.set_num_threads({threads})
from ardor.runtime.device import Runtime
Runtime.start("cpu", 0)
Runtime.start("cpu", 1)
print([thread.name for thread in threading.enumerate()].count("ardor-waiting"))
"""


def said(program: str, **environment: str) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env={**clean, **environment}, capture_output=True, text=True, timeout=300
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("first", ["import ardor; ardor.Model", "import ardor.__main__, torch"])
def test_torch_is_told_when_it_is_loaded_and_what_a_person_says_stays(first: str) -> None:
    assert said(WHEN_TORCH_LOADS + first) == "PASSIVE"
    assert said(WHEN_TORCH_LOADS + first, OMP_WAIT_POLICY="ACTIVE") == "ACTIVE"


@pytest.mark.parametrize(
    ("threads", "environment", "sleeping"),
    [
        (2, {}, 1),
        (1, {}, 0),
        (2, {"OMP_WAIT_POLICY": "ACTIVE"}, 0),
        (2, {"GOMP_SPINCOUNT": "9"}, 0),
    ],
)
def test_a_torch_that_was_there_first_is_given_threads_to_spare(
    threads: int, environment: dict[str, str], sleeping: int
) -> None:
    assert said(TORCH_FIRST.format(threads=threads), **environment) == str(sleeping)
