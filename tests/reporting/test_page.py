"""The report, read back with a parser: what it shows, whatever a run holds."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from standins.drawn import link, random_cells

from ardor.architecture import Architecture, Choice, Place, choices_to_json
from ardor.errors import ArdorError
from ardor.reporting import draw, report
from ardor.reporting.charts import nice_ticks
from ardor.reporting.format import count, duration, operation, percent, scientific, setting, short
from ardor.reporting.svg import stylesheet
from ardor.spaces.cells import Cells

EVIL = "<script>alert('x')</script>\"&]]>"


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails on tags that do not close."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


FILES = ("config.json", "architecture.json", "log.jsonl", "metrics.json")


def write_run(folder: Path, name: str = "mnist") -> Path:
    architecture, choices, known = random_cells(1, 3)
    known["normal/>2"] = {"0": 0.9, "1": 0.8}
    kept = architecture.to_json()["kept"]
    found = {
        **architecture.to_json(),
        "choices": choices_to_json(choices),
        "probabilities": known,
        "candidates": [{"kept": kept, "held_out_accuracy": 0.91, "held_out_nll": 0.31}],
    }
    config = {
        "format": 1, "command": f"ardor run {name}", "seed": 7, "versions": {"torch": "2.13.0"},
        "data": {"name": name, "classes": [name] * 30}, "space": {"name": "cells", "cells": 8},
        "method": {"name": "vinnas", "prior": None, "deep": {"er": 0.25}}, "search": {},
    }  # fmt: skip
    metrics = {
        "format": 1, "test_accuracy": 0.9862, "trained_test_accuracy": 0.98, "test_ece": 0.02,
        "params": 12345, "nonzero_params": 2345, "macs": 1234567, "onnx_max_difference": 1.5e-6,
        "stages": {"search": {"seconds": 80, "peak_memory_mb": 500}, "train": {"seconds": 5}},
    }  # fmt: skip
    lines = [epoch_line(stage, e) for stage in ("search", "train") for e in range(1, 5)]
    texts = (json.dumps(config), json.dumps(found), "\n".join(lines), json.dumps(metrics))
    for file, text in zip(FILES, texts, strict=True):
        (folder / file).write_text(text)
    return folder


def epoch_line(stage: str, epoch: int, accuracy: float | None = None) -> str:
    value = 0.5 + epoch / 10 if accuracy is None else accuracy
    terms = {"loss": 2.0 / epoch, "nll": 1.0 / epoch, "accuracy": value, "kl_gates": 1e5 * epoch}
    chances = {"normal/0>2": {"sep_conv_3x3": 0.6, "skip_connect": 0.4}}
    line = {"stage": stage, "epoch": epoch, "epochs": 4, "seconds": 3.25, "rate": 0.001,
            "train": terms, "held_out": {"accuracy": value - 0.05}, "certainty": 0.2 * epoch,
            "probabilities": chances}  # fmt: skip
    return json.dumps(line)


def test_the_page_tells_what_was_found_and_at_what_cost(tmp_path: Path) -> None:
    page = Page(report(write_run(tmp_path)))
    for words in (
        "vinnas on mnist", "98.6 %", "98.0 % before pruning", "2,345", "of 12,345, 19.0 %",
        "1,234,567", "agrees", "1 min 25 s", "1 min 20 s", "500 MB", "What was found",
        "close call", "How sure", "How the search went", "Search, 4 epochs", "Training, 4 epochs",
        "KL of the gates", "the mean over choices of the largest probability", "What it cost",
        "Settings", "deep.er", "not set", "… 10 more", "ardor run mnist", "torch 2.13.0",
        "Normal cell: inputs of a node", "91.0 %", "nothing: this one was taken",
        "epoch 4, held-out images: 85.0 %",
    ):  # fmt: skip
        assert words in page.text, words
    assert page.tags.count("h1") == page.tags.count("main") == 1
    pictures = page.tags.count("svg")
    assert pictures == 1 + 5 + 5  # the cells, and five terms in each stage
    assert sum(key == "aria-label" for key, _ in page.attributes) >= pictures


def test_the_page_says_how_often_network_and_teacher_agree(tmp_path: Path) -> None:
    assert "teacher" not in Page(report(write_run(tmp_path))).text
    path = tmp_path / "metrics.json"
    found = {"teacher_agreement": 0.972, "teacher_accuracy": 0.991}
    path.write_text(json.dumps({**json.loads(path.read_text()), **found}))
    text = Page(report(tmp_path)).text
    for words in ("Agrees with its teacher", "97.2 %", "the teacher's accuracy is 99.1 %"):
        assert words in text, words


@pytest.mark.parametrize("source", ["flowers", "/data/flowers/", "flowers.npz"])
def test_the_title_names_method_and_images(tmp_path: Path, source: str) -> None:
    config = {"method": {"name": "darts"}, "data": {"source": source}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert f"<h1>darts on {Path(source).name}</h1>" in report(tmp_path)


@pytest.mark.parametrize("missing", FILES)
def test_what_is_missing_is_left_out(tmp_path: Path, missing: str) -> None:
    (write_run(tmp_path) / missing).unlink()
    text = Page(report(tmp_path)).text
    section = {"config.json": "Settings", "architecture.json": "What was found",
               "log.jsonl": "How the search went", "metrics.json": "What it cost"}  # fmt: skip
    assert [name for name in section.values() if name not in text] == [section[missing]]


def test_an_empty_folder_and_empty_files_make_a_page(tmp_path: Path) -> None:
    assert "nothing to report yet" in Page(report(tmp_path)).text
    for file in FILES:
        (tmp_path / file).write_text("" if file == "log.jsonl" else "{}")
    assert tmp_path.name in Page(report(tmp_path)).text


def test_a_stopped_search_shows_its_last_probabilities(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(epoch_line("search", 1))
    text = Page(report(tmp_path, Cells().choices)).text
    assert "c−2 → 2" in text
    assert "60 %" in text
    assert "3.2 s" in text


def test_kinds_of_cells_in_the_log_are_called_by_their_titles(tmp_path: Path) -> None:
    line = json.loads(epoch_line("search", 1))
    line["watch"] = {"cells": {place: {"skip_share": 0.5} for place in ("normal", "reduce")}}
    (tmp_path / "log.jsonl").write_text(json.dumps(line))
    text = Page(report(tmp_path, Cells().choices)).text
    assert "epoch 1, normal cell: 50.0 %" in text
    assert "epoch 1, reduction cell: 50.0 %" in text
    assert "epoch 1, reduce: 50.0 %" in Page(report(tmp_path)).text


def test_broken_choices_are_one_line(tmp_path: Path) -> None:
    found = json.loads((write_run(tmp_path) / "architecture.json").read_text())
    found["choices"][1]["source"] = 7
    (tmp_path / "architecture.json").write_text(json.dumps(found))
    with pytest.raises(ArdorError, match="'normal/0>2' must lead to a later node than it reads"):
        report(tmp_path)


def test_cut_off_and_repeated_log_lines(tmp_path: Path) -> None:
    lines = [epoch_line("search", 1), epoch_line("search", 2, 0.111), epoch_line("search", 2, 0.7)]
    strange = ["", "5", '{"epoch": 9}', '{"stage": "search", "epoch": Infinity}']
    cut = epoch_line("search", 3)[:70]
    (tmp_path / "log.jsonl").write_text("\n".join([*lines, *strange, cut]))
    text = Page(report(tmp_path)).text
    assert "Search, 2 epochs" in text
    assert "70.0 %" in text
    assert "11.1 %" not in text


def test_numbers_that_are_none_do_not_stop_the_page(tmp_path: Path) -> None:
    broken = epoch_line("train", 1).replace("2.0", "NaN").replace("1.0", "null")
    (tmp_path / "log.jsonl").write_text(broken)
    (tmp_path / "metrics.json").write_text('{"test_accuracy": NaN, "params": null, "stages": 3}')
    text = Page(report(tmp_path)).text
    assert "Training, 1 epoch" in text
    assert "Test accuracy" not in text


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "metrics.json").write_text(content)
    with pytest.raises(ArdorError, match=r"metrics\.json"):
        report(tmp_path)
    with pytest.raises(ArdorError, match="no run folder"):
        report(tmp_path / "absent")


def evil_choices() -> list[Choice]:
    place, options = Place(EVIL, EVIL, EVIL), (EVIL, "skip_connect")
    links = [link(place, source, 2, options, "conv", "skip") for source in (0, 1)]
    return [*links, Choice(EVIL, "op", options)]


def test_strings_of_the_user_are_escaped(tmp_path: Path) -> None:
    write_run(tmp_path, EVIL)
    kept = {f"{EVIL}/0>2": (EVIL,), f"{EVIL}/1>2": ("skip_connect",), EVIL: (EVIL,)}
    architecture = Architecture.of(EVIL, {}, kept)
    known = {choice: {EVIL: 0.75, "a\x00\ud800": 0.25} for choice in kept}
    null = link(Place("\x00"), 0, 2, ("\x01", "\x02"), "conv", "pool")
    assert ElementTree.fromstring(draw(Architecture.of("a", {}, {null.name: ("\x01",)}), [null]))
    choices = evil_choices()
    drawing = draw(architecture, choices, known)
    texts = [element.text or "" for element in ElementTree.fromstring(drawing).iter()]
    assert sum(EVIL in text for text in texts) >= 3
    said = {"choices": choices_to_json(choices), "probabilities": known}
    found = {**architecture.to_json(), **said}
    (tmp_path / "architecture.json").write_text(json.dumps(found))
    (tmp_path / "log.jsonl").write_text(epoch_line(EVIL, 1).replace("kl_gates", "<b>"))
    page = Page(report(tmp_path))
    assert not {"script", "b"} & set(page.tags)
    assert page.text.count(EVIL) >= 8
    listed = draw(Architecture.of(EVIL, {}, {EVIL: (EVIL,)}), [])
    assert EVIL in "".join(ElementTree.fromstring(listed).itertext())


def test_nothing_is_fetched_from_elsewhere(tmp_path: Path) -> None:
    html = report(write_run(tmp_path))
    assert set(re.findall(r"https?://[^\"'\s<]*", html)) == {"http://www.w3.org/2000/svg"}
    assert not {"script", "link", "img", "iframe"} & set(Page(html).tags)
    assert not re.search(r"url\(|@import|\b(?:src|href)=", html)


def schemes() -> tuple[dict[str, str], dict[str, str]]:
    light, dark = stylesheet().split("@media screen and (prefers-color-scheme: dark)")
    pattern = r"--(\w+): (#[0-9a-f]{6})"
    return dict(re.findall(pattern, light)), dict(re.findall(pattern, dark))


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_both_schemes_are_there_and_readable(tmp_path: Path) -> None:
    light, dark = schemes()
    assert light.keys() == dark.keys()
    for scheme in (light, dark):
        for ground in (scheme["paper"], scheme["panel"]):
            assert all(contrast(scheme[ink], ground) >= 4.5 for ink in ("ink", "soft", "warn"))
            lines = scheme.keys() - {"paper", "panel", "rule"}
            assert all(contrast(scheme[line], ground) >= 3 for line in lines)
    for text in (draw(*random_cells(0, 2)), report(write_run(tmp_path))):
        assert "prefers-color-scheme: dark" in text
        assert "font-family: system-ui" in text


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (operation("conv_7x1_1x7"), "conv 7×1 1×7"),
        (percent(0.714), "71 %"),
        (percent(0.9862, 1), "98.6 %"),
        (percent(0.9999, 1), ">99.9 %"),
        (percent(0.001), "<1 %"),
        (percent(1.0), "100 %"),
        (percent(0.0), "0 %"),
        (count(12345), "12,345"),
        (duration(80), "1 min 20 s"),
        (duration(59.97), "1 min 0 s"),
        (duration(3.21), "3.2 s"),
        (duration(3720), "1 h 2 min"),
        (short(123456), "123 k"),
        (short(-2.5), "-2.5"),
        (scientific(1.2e-6).replace("\xa0", " "), "1.2 × 10⁻⁶"),
        (setting([1, True, None]), "1, yes, not set"),
    ],
)
def test_words(said: str, words: str) -> None:
    assert said == words


@pytest.mark.parametrize("limits", [(0, 1), (0.3, 0.3), (0, 0), (-3, 1e6), (1, 1 + 2e-16), (2, 9)])
def test_ticks_enclose_their_range(limits: tuple[float, float]) -> None:
    ticks = nice_ticks(*limits)
    assert ticks[0] <= limits[0] + 1e-9
    assert ticks[-1] >= limits[1] - 1e-9
    assert ticks[0] < ticks[-1]
    assert len(ticks) <= 7


def test_importing_the_report_does_not_load_torch() -> None:
    code = "import sys, ardor.reporting.page; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
