"""Memory that a step gives back is kept for the next one, unless a person has set otherwise."""

import os
import resource
import subprocess
import sys

import pytest

CODE = """
import resource, torch
from ardor.runtime.reuse import keep_pages
keep_pages()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work():
    for _ in range(20):
        torch.ones(8 << 20, dtype=torch.uint8).add_(1)  # 8 MB, 2,048 pages
work()
before = faults()
work()
print(faults() - before)
"""
LITTLE, MUCH = 1000, 20_000  # pages


def new_pages(**env: str) -> int:
    """Pages that the system gives a process for work it has done before."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc")
def test_work_done_before_needs_no_new_pages() -> None:
    assert resource.getpagesize() == 4096
    assert new_pages() < LITTLE


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc")
def test_what_a_person_has_set_stays() -> None:
    assert new_pages(MALLOC_MMAP_THRESHOLD_="65536") > MUCH
