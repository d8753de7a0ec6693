"""The report of a run: the values that the template shows, section by section, from its files."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from ardor.architecture import (
    Architecture,
    Choice,
    Probabilities,
    against_odds,
    certainty,
)
from ardor.reporting import compression, exports, layers, pruning_curve
from ardor.reporting.cells import cells, summary
from ardor.reporting.certainty import bars, strips, taken_out
from ardor.reporting.charts import charts
from ardor.reporting.drawing import picture
from ardor.reporting.fallen import fallen, pruned
from ardor.reporting.figures import STAGES, cards, costs
from ardor.reporting.format import count, number, operation, percent, said, setting
from ardor.reporting.prior import prior
from ardor.reporting.quality import quality
from ardor.reporting.read import Run, read
from ardor.reporting.runners_up import verdict
from ardor.reporting.strengths import meanings, strength_tables
from ardor.reporting.svg import render, stylesheet

_APART = ("format", "command", "versions", "place")  # entries of config.json that are not settings
_CANDIDATES = 10


def report(run: Path, choices: Sequence[Choice] = ()) -> str:
    """The page of a run folder, from its files; without sections for stages that are not done.

    `choices` are used if its files have none: an older run, or one that is not searched yet.
    """
    found = read(run, choices)
    known = _known(found)
    fell = fallen(known[0], known[1], found.fell_with)
    page = _template().render(
        title=_title(found, run),
        style=Markup(stylesheet()),
        cards=list(cards(found)),
        lead=_lead(found),
        **quality(found.evaluation),
        **_found(found),
        bars=list(bars(*known)),
        strips=list(strips(*known)),
        **prior(*known, found.strengths, searched=bool(found.epochs.get("search"))),
        strengths=list(strength_tables(*known, found.strengths, fell)),
        meanings=meanings(found.strengths),
        stages=_courses(found),
        course=_course(found),
        warnings=list(_warnings(found)),
        taken_out=list(taken_out(found.epochs.get("search", []))),
        **_pruning(found),
        **_layers(found),
        exports=list(exports.rows(found.exports)),
        export_columns=exports.COLUMNS,
        costs=costs(found.metrics),
        settings=_settings(found.config),
        command=str(found.config.get("command", "")),
        versions=_flat(found.config.get("versions")),
        markup=Markup,
    )
    return page.encode("utf-8", "replace").decode("utf-8")


@cache
def _template() -> Template:
    loader = PackageLoader("ardor.reporting", ".")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    return environment.get_template("page.html.j2")


def _title(found: Run, run: Path) -> str:
    network = found.architecture is not None and not found.architecture.kept
    how = "space" if network or compression.compresses(found.config) else "method"
    method, data = (_name(found.config.get(key)) for key in (how, "data"))
    if method and data:
        return f"{method} on {data}"
    return method or data or run.resolve().name


def _name(section: Any) -> str:
    """The name in a section of the config, or that of its source."""
    if not isinstance(section, Mapping):
        return str(section) if section else ""
    if section.get("name"):
        return said(str(section["name"]))
    source = str(section.get("source") or section.get("path") or "")
    return Path(source).name or source


def _lead(found: Run) -> list[str]:
    """The result in sentences."""
    edges = [e for cell in cells(*_known(found)) for e in cell.edges] if found.architecture else []
    sentences = [f"{each[:1].upper()}{each[1:]}." for each in found.warnings]
    sentences += compression.sentences(found.metrics, found.config)
    architecture, choices, shares = _known(found)
    kept = architecture.options
    lost = pruned(architecture, choices, found.strengths, found.fell_with)
    if lost and found.architecture:
        sentences.append(f"Pruned by the search: {lost.words}.")
    if mean := certainty(kept, shares):
        sentences.append(f"The posterior puts {percent(mean)} on what was kept, on average.")
    if many := len(against_odds(choices, kept, shares)):
        sentences.append(f"Against its odds {many} {'is' if many == 1 else 'are'} kept.")
    judged = [edge for edge in edges if edge.probability is not None]
    if judged:
        close = sum(bool(edge.remark) for edge in judged)
        verb = "is" if close == 1 else "are"
        sentences.append(f"Of {len(judged)} kept operations, {close or 'none'} {verb} in doubt.")
    return sentences


def _known(found: Run) -> tuple[Architecture, Sequence[Choice], Probabilities]:
    architecture = found.architecture or Architecture.of("", {}, {})
    return architecture, found.choices, found.probabilities


def _found(found: Run) -> dict[str, Any]:
    """The drawing, the kept edges and the candidates that were ranked."""
    if found.architecture is None or not found.architecture.kept:
        return {"drawing": None, "edges": [], "candidates": [], "others": []}
    drawn = picture(*_known(found), found.fell_with)
    # Below that share of its natural width the drawing scrolls: its text would be too small.
    return {
        "drawing": Markup(render(drawn)),
        "narrowest": round(0.85 * float(drawn.attrib["width"])),
        "edges": list(_edges(found)),
        "candidates": _candidates(found, found.architecture),
        "others": found.others,
        "verdict": verdict(found.probability, found.others),
    }


def _edges(found: Run) -> Iterator[tuple[str, ...]]:
    for cell in cells(*_known(found)):
        for edge in cell.edges:
            chance, other = edge.probability, edge.runner_up
            yield (
                cell.title,
                f"{cell.word(edge.source)} → {cell.word(edge.target)}",
                operation(edge.operation),
                "" if chance is None else percent(chance),
                f"{operation(other[0])}, {percent(other[1])}" if other else "",
                edge.remark,
            )


def _candidates(found: Run, taken: Architecture) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for rank, candidate in enumerate(found.candidates[:_CANDIDATES], 1):
        accuracy, nll = (number(candidate.get(f"held_out_{key}")) for key in ("accuracy", "nll"))
        kept, widths = candidate.get("kept"), candidate.get("widths")
        options = kept if isinstance(kept, Mapping) else {}
        apart = [c for c, names in options.items() if set(names) != set(taken.options.get(c, ()))]
        if isinstance(widths, Mapping):
            apart += [c for c, n in widths.items() if n != len(taken.options.get(c, ()))]
        rows.append((
            str(rank),
            "" if accuracy is None else percent(accuracy, 1),
            "" if nll is None else f"{nll:.3f}",
            summary(apart) if apart else "nothing: this one was taken",
        ))  # fmt: skip
    return rows


def _course(found: Run) -> str:
    """What the charts tell the course of."""
    words = {"search": "search", "train": "training", "compress": "compression"}
    return next((word for stage, word in words.items() if found.epochs.get(stage)), "training")


def _courses(found: Run) -> list[tuple[str, int, list[Markup]]]:
    """Title, epochs and charts of each stage, the search first."""
    stages = sorted(found.epochs, key=lambda stage: [*STAGES, stage].index(stage))
    return [
        (STAGES.get(s, s), len(epochs), [Markup(c) for c in charts(epochs, found.choices)])
        for s in stages
        for epochs in [found.epochs[s]]
    ]


def _warnings(found: Run) -> Iterator[tuple[int, str]]:
    """The warnings of the collapse monitor, each with its epoch."""
    for entry in found.epochs.get("search", []):
        watch = entry.get("watch")
        warnings = watch.get("warnings") if isinstance(watch, Mapping) else None
        for warning in warnings if isinstance(warnings, list) else ():
            yield int(entry["epoch"]), str(warning)


def _pruning(found: Run) -> dict[str, Any]:
    """The curve of pruning or compression, as a picture and in numbers."""
    networks = pruning_curve.networks(found.curve)
    if not networks:
        return {"pruning": None}
    rows = [
        (
            n.words,
            count(n.params),
            "" if n.macs is None else count(n.macs),
            percent(n.accuracy, 2),
        )
        for n in networks
    ]
    drawn = pruning_curve.chart(networks, pruning_curve.taken(networks, found.metrics))
    images = number(found.curve.get("count"))
    many = "" if images is None else f"{count(images)} "
    return {
        "pruning": Markup(drawn),
        "networks": rows,
        "cycles": networks[0].threshold is None,
        "looked_at": f"{many}{found.curve.get('images')} images",
    }


def _layers(found: Run) -> dict[str, Any]:
    """Each layer before and after, as a picture and in numbers."""
    known = layers.layers(found.layers)
    if not known:
        return {"layers": None}
    return {
        "layers": Markup(layers.chart(known)),
        "layer_columns": layers.COLUMNS,
        "layer_rows": layers.rows(known),
    }


def _settings(config: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Sections of the config, each with its settings; loose ones come first."""
    shown = {key: value for key, value in config.items() if key not in _APART}
    loose = [(k, setting(v)) for k, v in shown.items() if not isinstance(v, Mapping)]
    sections = [(key, _flat(value)) for key, value in shown.items() if isinstance(value, Mapping)]
    return [(name, rows) for name, rows in [("run", loose), *sections] if rows]


def _flat(section: Any, prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in section.items() if isinstance(section, Mapping) else ():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append((f"{prefix}{key}", setting(value)))
    return rows
