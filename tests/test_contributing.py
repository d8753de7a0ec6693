"""A stranger's method, written from CONTRIBUTING alone, does all that Ardor's own do."""

import json
import re
from pathlib import Path

import pytest
from standins.user import done

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
TINY = ("space.layout=R", "space.states=1", "space.channels=4", "search.epochs=3", "train.epochs=1")
OPS = "sep_conv_3x3,max_pool_3x3,skip_connect"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the module that the example makes."""
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "coins.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return "lab.coins"


def test_the_example_is_a_whole_method(lab: str) -> None:
    settings = (*TINY, f"space.ops={OPS}", "method.temperature=0.3")
    options = [word for setting in settings for word in ("--set", setting)]
    done("run", "digits", "--method", lab, *options, "--run", "run")
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert set(metrics["stages"]) == {"search", "train", "prune", "export", "evaluate", "report"}
    config = json.loads(Path("run/config.json").read_text())
    assert config["method"] == {"name": lab, "kl": 1.0, "temperature": 0.3}
    assert config["search"]["gate_rate"] == 0.01
    found = json.loads(Path("run/architecture.json").read_text())
    sure = [p for edge in found["probabilities"].values() for p in edge.values()]
    assert len(sure) == 6
    assert all(0 < p < 1 and p != 0.5 for p in sure)  # every coin has learned
    assert "kl_gates" in Path("run/log.jsonl").read_text()
    assert lab in Path("run/report.html").read_text()
