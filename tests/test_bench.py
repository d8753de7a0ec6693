"""Benches: a grid of runs, on its own images or on others."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ardor.bench import benches
from ardor.cli import cli

GRID = """# A grid that takes seconds
seeds = 1
[settings]
data.source = "nowhere"
space = {layout = "R", states = 1, channels = 2, ops = "sep_conv_3x3,skip_connect"}
search = {epochs = 1, batch = 8}
train.epochs = 1
[methods.shrinking.search]
shrink = 3
[methods.whole.search]
shrink = 0
"""


def test_a_bench_on_other_images_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("benches").mkdir()
    Path("benches/tiny.toml").write_text(GRID)
    pixels = np.arange(40 * 64).reshape(40, 8, 8) % 251
    np.savez("others.npz", x=pixels.astype(np.uint8), y=np.arange(40) % 2)
    monkeypatch.setattr("ardor.bench.resources.files", lambda package: tmp_path)
    monkeypatch.setattr("ardor.bench.benches", lambda: ["tiny"])
    command = ["bench", "tiny", "--data", "others.npz", "--folder", "out", "--json"]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["table"]
    assert [row["method"] for row in rows] == ["shrinking", "whole"]
    assert all(0 < row["search_seconds"] < row["seconds"] for row in rows)
    assert Path("out/tiny-others.npz/results.json").exists()
    config = json.loads(Path("out/tiny-others.npz/whole-0/config.json").read_text())
    assert config["data"]["source"] == "others.npz"
    assert config["search"]["shrink"] == 0


def test_every_bench_has_a_title() -> None:
    assert {"digits", "shrink"} <= benches().keys()
    assert all(benches().values())
