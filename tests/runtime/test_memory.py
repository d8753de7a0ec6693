"""What a step needs: near the truth, nothing changed by asking, refused where it is too much."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from ardor import methods
from ardor.data import Images
from ardor.errors import ArdorError
from ardor.runtime import memory
from ardor.runtime.device import Runtime
from ardor.runtime.memory import MARGIN, Need, check, free, in_use, need
from ardor.runtime.progress import Progress
from ardor.searching.loop import search
from ardor.settings.sections import SearchConfig
from ardor.spaces.cells import Cells

CPU = torch.device("cpu")
counted = pytest.mark.skipif(in_use(CPU) == 0, reason="this C library does not count its bytes")

TRUTH = """
import torch
from ardor.runtime.memory import need
from ardor.runtime.cost import _peak, _reset_peak
from ardor.spaces.cells import Cells
space = Cells(layout="NN", states=3, channels=8, ops="darts")
net = space.build()
gates = {c.name: torch.rand(1, 1, len(c.options), requires_grad=True) for c in space.choices}
loss = lambda images: net(torch.randn(images, 3, 32, 32), gates).square().mean()
estimate = need(net, loss).of(64) / 2**20
_reset_peak()
before = _peak()
loss(64).backward()
print(estimate, _peak() - before)
"""


@counted
def test_the_estimate_is_near_the_truth() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    said = subprocess.run(
        [sys.executable, "-c", TRUTH], capture_output=True, text=True, env=environment, check=True
    )
    estimate, truth = map(float, said.stdout.split())
    assert truth > 100
    assert estimate == pytest.approx(truth, rel=0.25)


@counted
def test_asking_changes_nothing() -> None:
    net = nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.Dropout())
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.get_rng_state()
    found = need(net, lambda images: net(torch.rand(images, 3, 32, 32)).sum())
    assert found is not None
    assert found.image > 64 * 30 * 30 * 4
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


def test_where_nobody_counts_there_is_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "in_use", lambda device: 0)
    net = nn.Linear(2, 2)
    assert need(net, lambda images: net(torch.zeros(images, 2))) is None


@pytest.mark.parametrize(("there", "parts"), [(450, 2), (300, 4), (200, 7), (120, 32)])
def test_too_much_is_refused_with_the_parts_that_fit(there: float, parts: int) -> None:
    needed = Need(fixed=100.0, image=10.0)
    with pytest.raises(ArdorError, match="64 images at a time") as caught:
        check("search", needed, MARGIN * there, images=64, micro_batches=1)
    assert f"--set search.accumulate={parts}" in caught.value.hint
    check("search", needed, MARGIN * there, images=64, micro_batches=parts)


def test_what_never_fits_needs_a_smaller_network() -> None:
    with pytest.raises(ArdorError) as caught:
        check("train", Need(100.0, 10.0), 100.0, images=64, micro_batches=2)
    assert "space.channels" in caught.value.hint


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:  1000 kB\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, float("inf")),
        (MEMINFO, 1000 * 1024),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/b/memory.current": "5\n",
                "sys/fs/cgroup/a/memory.max": "5000\n",
                "sys/fs/cgroup/a/memory.current": "4000\n",
                "sys/fs/cgroup/a/memory.stat": "anon 3\ninactive_file 500\n",
            },
            1500,
        ),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "3:cpu:/x\n2:memory:/\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "7000\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "4000\n",
            },
            3000,
        ),
        (
            {
                **MEMINFO,
                "proc/self/limits": "Max address space         500000      unlimited     bytes\n",
                "proc/self/statm": "100 20 3 4 0 5 0\n",
            },
            500000 - 100 * 4096,
        ),
    ],
)
def test_what_is_free_is_the_least_of_all_limits(
    files: dict[str, str], expected: float, tmp_path: Path
) -> None:
    assert free(CPU, machine(tmp_path, files)) == expected


@counted
def test_a_search_says_what_it_needs_and_refuses_what_does_not_fit(
    bright: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = Cells(image=(1, 8, 8), classes=2, layout="R", states=1, channels=8)
    told: list[Progress] = []

    def find(run: str) -> None:
        runtime = Runtime.start("cpu", 0, told.append)
        config = SearchConfig(epochs=1, batch=16)
        method = methods.make("darts", space, {})
        search(space, method, bright, config, run=tmp_path / run, runtime=runtime)

    find("fits")
    assert "MB of memory" in told[0].note
    monkeypatch.setattr(memory, "free", lambda device: 2.0**20)
    with pytest.raises(ArdorError, match="needs about"):
        find("does not")
    assert not (tmp_path / "does not" / "log.jsonl").exists()
