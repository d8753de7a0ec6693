"""What a stranger sends: it runs no code, commands no terminal, and nothing leaves its folder."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standins.user import TINY, done, edit, files, pictures, png, put, refused
from standins.user import ardor as command

import ardor
from ardor.models.card import card

OWN = """
from dataclasses import dataclass
from ardor.methods.random import Random
from ardor.spaces.cells import Cells

class Method(Random):
    "A person's own."

@dataclass(frozen=True, kw_only=True)
class Space(Cells):
    "A person's own."
"""
ESCAPE = "\x1b[1m"
SHOWN = r"\x1b[1m"


@pytest.fixture(autouse=True)
def _lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module that can be imported, as there are many on every machine."""
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "mine.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("lab", "lab.mine"):
        sys.modules.pop(name, None)


def untrusted(*words: object) -> None:
    """Refused with the name of the module and the way out, before any of it was imported."""
    refused(*words, error="'lab.mine' is a module", hint="--trust lab.mine")
    assert "lab" not in sys.modules


@pytest.mark.parametrize(
    ("file", "keys", "words"),
    [
        ("model/config.json", ("architecture", "space"), "predict RUN DATA"),
        ("model/config.json", ("architecture", "space"), "evaluate RUN"),
        ("model/config.json", ("architecture", "space"), "export RUN"),
        ("trained/config.json", ("architecture", "space"), "prune RUN"),
        ("trained/config.json", ("architecture", "space"), "prune RUN --curve"),
        ("config.json", ("space", "name"), "evaluate RUN"),
        ("architecture.json", ("space",), "run DATA --run new --architecture RUN"),
        ("architecture.json", ("space",), "run DATA --architecture RUN/architecture.json"),
        ("architecture.json", ("space",), "run DATA --dry-run --architecture RUN"),
    ],
)
def test_a_module_that_only_a_file_names_is_not_imported(
    run: Path, data: Path, file: str, keys: tuple[str, ...], words: str
) -> None:
    edit(run / file, put(*keys, value="lab.mine"))
    untrusted(*words.replace("RUN", str(run)).replace("DATA", str(data)).split())


@pytest.mark.parametrize("kind", ["method", "space"])
def test_a_search_or_settings_of_a_stranger_import_nothing(
    begun: Path, data: Path, kind: str
) -> None:
    edit(begun / "config.json", put(kind, "name", value="lab.mine"))
    untrusted("resume", begun)
    Path("stranger.toml").write_text(f'{kind}.name = "lab.mine"')
    untrusted("run", data, "--run", "new", *TINY, "--config", "stranger.toml")
    untrusted("search", data, *TINY, "--config", "stranger.toml", "--trust", "lab.other")
    assert not Path("new").exists()
    with pytest.raises(ardor.ArdorError, match=r"lab\.mine"):
        ardor.Run.create("new", {kind: {"name": "lab.mine"}})
    assert "lab" not in sys.modules


def test_looking_at_a_run_needs_no_module(run: Path) -> None:
    for kind in ("method", "space"):
        edit(run / "config.json", put(kind, "name", value="lab.mine"))
    edit(run / "architecture.json", put("space", value="lab.mine"))
    for word in ("show", "compare"):
        done(word, run)
    assert "lab" not in sys.modules


def test_a_module_that_is_named_in_the_command_is_imported(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    named = ["--set", "method.name=lab.mine", "--space", "lab.mine"]
    done("search", data, "--run", folder, *TINY, *named, "--set", "train.epochs=1")
    named_again = ardor.Run.open(folder).typed("resume")
    assert named_again == f"ardor resume {folder} --trust lab.mine"
    ardor.discover._trusted.clear()  # as in a process of its own
    assert ardor.Run.open(folder).typed("resume") == f"ardor resume {folder}"
    refused("train", folder, error="'lab.mine'", hint="--trust lab.mine")
    done("train", folder, "--trust", "lab.mine")
    ardor.discover._trusted.clear()
    with pytest.raises(ardor.ArdorError, match=r"lab\.mine"):
        ardor.load(folder)
    assert ardor.load(folder, trust=("lab.mine",)).classes == ("a", "b")


@pytest.mark.parametrize("name", ["..", ". ", ".x", "x.", "a b.c", "1.2", "", 5, None, ["a.b"]])
def test_a_name_that_can_be_no_module_is_not_looked_up(run: Path, data: Path, name: Any) -> None:
    edit(run / "model" / "config.json", put("architecture", "space", value=name))
    said = command("predict", run, data)
    assert said.code == 1
    assert "Traceback" not in said.err
    edit(run / "config.json", put("space", "name", value=name))
    refused("resume", run, error="must be the name of a space", hint="ardor list spaces")


def test_what_is_trusted_must_be_the_name_of_a_module(run: Path) -> None:
    for name in ("", "..", "lab", "lab.", "lab mine.x"):
        refused("resume", run, "--trust", name, error="must be the dotted name of a module")


def test_names_never_command_the_terminal(run: Path, data: Path, tmp_path: Path) -> None:
    edit(run / "model" / "config.json", put("classes", value=[ESCAPE, f"{ESCAPE}\nb"]))
    picture = png(tmp_path / f"{ESCAPE}\n.png")
    edit(run / "architecture.json", put("kept", f"{ESCAPE}/0>2", value=[ESCAPE]))
    pictures(tmp_path / "classes", "a", ESCAPE)
    run.rename(run := tmp_path / f"{ESCAPE}run")
    for words in (
        ("predict", run, picture),
        ("check", "classes"),
        ("show", run),
        ("compare", run),
        ("report", run),
    ):
        said = done(*words)
        assert SHOWN in said.out + said.err, said
        assert all(line.isprintable() for line in (said.out + said.err).split("\n")), said
    (found,) = json.loads(done("predict", run, picture, "--json").out)
    assert found["path"] == str(picture)
    assert list(found["probabilities"]) == [ESCAPE, f"{ESCAPE}\nb"]


def test_a_card_shows_names_as_they_are(run: Path) -> None:
    names = ["<script>a</script>|`b`\n---\n# c", "[d](https://e.f) *g* &lt;"]
    edit(run / "model" / "config.json", put("classes", value=names))
    written = card("model", ardor.load(run))
    assert (
        r"apart: &lt;script&gt;a&lt;/script&gt;\|\`b\`\\n---\\n\# c, "
        r"\[d\]\(https\://e\.f\) \*g\* &amp;lt;." in written
    )
    assert written.count("\n---\n") == 1  # the end of what stands before the text


@pytest.mark.parametrize(
    "name", ["checkpoint", "trained", "model", "export", "log.jsonl", "metrics.json", "config.json"]
)
def test_no_link_in_a_run_leads_out_of_it(run: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (run / "checkpoint").mkdir(exist_ok=True)
    (run / "checkpoint" / "tune-00001.safetensors").write_text("mine")
    (run / name).rename(elsewhere)
    (run / name).symlink_to(elsewhere)
    before = files(tmp_path)
    for words in (("prune", run, "--threshold", "1"), ("resume", run), ("evaluate", run)):
        refused(*words, error=f"'{run / name}' is a link that leads out", hint="in its place")
    assert files(tmp_path) == before


def test_a_link_to_nothing_is_not_written_through(begun: Path, tmp_path: Path) -> None:
    (begun / "log.jsonl").unlink()
    (begun / "log.jsonl").symlink_to(tmp_path / "stolen")
    refused("resume", begun, error="log.jsonl' is a link that leads out")
    assert not (tmp_path / "stolen").exists()


def test_a_run_behind_a_link_is_a_run(run: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    (run / "again.json").symlink_to("metrics.json")
    done("predict", "link", data)
