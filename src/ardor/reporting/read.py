"""The files of a run folder, as far as they exist: a run may be unfinished or killed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ardor.architecture import Architecture, Choice, FellWith, Probabilities, choices_from_json
from ardor.errors import ArdorError
from ardor.reporting.evaluation import Evaluation, read_evaluation
from ardor.reporting.fallen import Pruned, pruned
from ardor.reporting.format import number
from ardor.reporting.runners_up import Other, others
from ardor.reporting.strengths import Strengths
from ardor.runtime.files import read_json, read_log

Epoch = Mapping[str, Any]
T = TypeVar("T", bound=Mapping[str, Any])


@dataclass(frozen=True)
class Run:
    """The files of a run folder; what is missing is empty."""

    config: Mapping[str, Any]
    architecture: Architecture | None
    choices: Sequence[Choice]
    probabilities: Probabilities
    strengths: Strengths
    fell_with: FellWith
    probability: float | None  # of the architecture
    others: list[Other]  # likely architectures that were not taken
    candidates: list[Mapping[str, Any]]
    metrics: Mapping[str, Any]
    epochs: Mapping[str, list[Epoch]]  # stage -> lines of the log, one an epoch
    curve: Mapping[str, Any]  # accuracy by parameters
    layers: Mapping[str, Any]  # before and after it was made smaller
    exports: Mapping[str, Any]  # by format
    warnings: list[str]  # of the search as a whole
    evaluation: Evaluation | None  # answers to images that it has not seen


def read(run: Path, choices: Sequence[Choice] = ()) -> Run:
    """The run in a folder; `choices` are used if its files have none."""
    if not run.is_dir():
        raise ArdorError(f"no run folder '{run}'", "name the folder that 'ardor run' wrote")
    found = _load(run / "architecture.json")
    epochs = _epochs(run / "log.jsonl")
    candidates = found.get("candidates")
    architecture = Architecture.from_json(found) if found else None
    choices = choices_from_json(found["choices"]) if "choices" in found else choices
    searched = epochs.get("search", [])
    return Run(
        config=_load(run / "config.json"),
        architecture=architecture,
        choices=choices,
        probabilities=_numbers(found.get("probabilities"))
        or _last(searched, "probabilities", _numbers),
        strengths=_strengths(found.get("strengths")) or _last(searched, "strengths", _strengths),
        fell_with=_texts((found or [{}, *searched][-1]).get("fell_with")),
        probability=number(found.get("probability")),
        others=list(others(found.get("runners_up"), architecture, choices)) if architecture else [],
        candidates=[c for c in candidates if _is_map(c)] if isinstance(candidates, list) else [],
        metrics=_load(run / "metrics.json"),
        epochs=epochs,
        curve=_load(run / "curve.json"),
        layers=_load(run / "layers.json"),
        exports=exports_of(run),
        warnings=warnings_of(run),
        evaluation=read_evaluation(run),
    )


def exports_of(run: Path) -> Mapping[str, Any]:
    """The table of exports in a run folder."""
    return _load(run / "export" / "exports.json")


def warnings_of(run: Path) -> list[str]:
    """What the stages of a run have to say of their results, such as that nothing was decided."""
    files = ("architecture.json", "curve.json")
    return [line for name in files for line in _warnings(_load(run / name))]


def pruned_of(run: Path) -> Pruned | None:
    """What the search in a run folder has pruned."""
    found = _load(run / "architecture.json")
    if "choices" not in found:
        return None
    return pruned(
        Architecture.from_json(found),
        choices_from_json(found["choices"]),
        _strengths(found.get("strengths")),
        _texts(found.get("fell_with")),
    )


def _warnings(content: Mapping[str, Any]) -> list[str]:
    """Those in a file; an older one has none."""
    said = content.get("warnings")
    return [str(each) for each in said] if isinstance(said, list) else []


def _load(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file; empty if there is no file."""
    content = read_json(path, finite=False) if path.exists() else {}
    if not isinstance(content, dict):
        raise ArdorError(f"'{path}' holds no JSON object", "restore or delete the file")
    return content


def _epochs(path: Path) -> dict[str, list[Epoch]]:
    """The log by stage; of an epoch that was run twice after a resume, the later line."""
    stages: dict[str, dict[int, Epoch]] = {}
    for _, entry in read_log(path):
        stages.setdefault(entry["stage"], {})[entry["epoch"]] = entry
    return {stage: [lines[e] for e in sorted(lines)] for stage, lines in stages.items()}


def _last(epochs: list[Epoch], name: str, read: Callable[[Any], T]) -> T:
    """The last value of that name in the log: the only one if a search was stopped."""
    logged = (read(epoch.get(name)) for epoch in reversed(epochs))
    return next((found for found in logged if found), read(None))


def _numbers(content: Any) -> Probabilities:
    """Choice -> option -> probability, without values that are not numbers."""
    if not _is_map(content):
        return {}
    return {
        str(choice): {str(o): p for o, raw in options.items() if (p := number(raw)) is not None}
        for choice, options in content.items()
        if _is_map(options)
    }


def _strengths(content: Any) -> Strengths:
    """Choice -> option -> quantity -> its value, without values that are not numbers."""
    if not _is_map(content):
        return {}
    return {str(choice): _numbers(options) for choice, options in content.items()}


def _texts(content: Any) -> FellWith:
    """Choice -> option -> text, without values that are none."""
    if not _is_map(content):
        return {}
    return {
        str(choice): {str(o): text for o, text in options.items() if isinstance(text, str)}
        for choice, options in content.items()
        if _is_map(options)
    }


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)
