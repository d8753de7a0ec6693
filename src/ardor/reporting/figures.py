"""The headline numbers of a run, and what its stages cost."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ardor.reporting import compression
from ardor.reporting.format import count, duration, number, percent, scientific, short
from ardor.reporting.read import Run

STAGES = {
    "search": "Search",
    "train": "Training",
    "compress": "Compressing",
    "tune": "Fine-tuning",
    "settle": "Settling",
}


@dataclass(frozen=True)
class Card:
    """A headline number."""

    label: str
    value: str
    note: str = ""


def cards(found: Run) -> Iterator[Card]:
    """Accuracy, calibration, size and time, as far as they are known."""
    metrics = {key: number(value) for key, value in found.metrics.items()}
    when = compression.before(found.metrics)
    which = "held_out" if metrics.get("held_out_images") is not None else "test"
    accuracy = metrics.get(f"{which}_accuracy")
    if accuracy is not None:
        words = "Held-out accuracy, no test images" if which == "held_out" else "Test accuracy"
        before = metrics.get(f"trained_{which}_accuracy")
        yield Card(words, percent(accuracy, 1), _earlier(before, _share, when))
    elif which == "held_out":
        yield Card("Accuracy", "not measured", "no test images, and none held out of the training")
    ece = metrics.get(f"{which}_ece")
    if ece is not None:
        yield Card("Calibration error", percent(ece, 1), _probabilities(metrics, which))
    yield from _together(metrics, f"ensemble_{which}")
    yield from _teacher(metrics)
    yield from _size_cards(metrics, when)
    seconds = _seconds(found)
    if seconds:
        yield Card("Time", duration(seconds), "all stages together")


def _together(metrics: Mapping[str, float | None], which: str) -> Iterator[Card]:
    """The accuracy of the networks that predict together, if there are any."""
    networks, accuracy = metrics.get("ensemble_networks"), metrics.get(f"{which}_accuracy")
    ece = metrics.get(f"{which}_ece")
    if networks is not None and accuracy is not None and ece is not None:
        note = f"calibration error {percent(ece, 1)}, {_probabilities(metrics, which)}"
        yield Card(f"{count(networks)} networks together", percent(accuracy, 1), note)


def _teacher(metrics: Mapping[str, float | None]) -> Iterator[Card]:
    """How often the network says what its teacher says, if it has one."""
    agreement, accuracy = metrics.get("teacher_agreement"), metrics.get("teacher_accuracy")
    if agreement is not None and accuracy is not None:
        note = f"of the same images; the teacher's accuracy is {percent(accuracy, 1)}"
        yield Card("Agrees with its teacher", percent(agreement, 1), note)


def _probabilities(metrics: Mapping[str, float | None], which: str) -> str:
    """How good the probabilities are, as far as it is known."""
    notes = {"likelihood loss": f"{which}_nll", "Brier score": f"{which}_brier"}
    known = {label: metrics.get(key) for label, key in notes.items()}
    return ", ".join(f"{label} {x:.3g}" for label, x in known.items() if x is not None)


def _size_cards(metrics: Mapping[str, float | None], when: str) -> Iterator[Card]:
    params, nonzero = metrics.get("params"), metrics.get("nonzero_params")
    if nonzero is not None and params:
        note = f"of {count(params)}, {percent(nonzero / params, 1)}"
        before = _earlier(metrics.get("trained_nonzero_params"), count, when)
        yield Card("Non-zero parameters", count(nonzero), before or note)
    if params is not None and (nonzero is None or metrics.get("trained_params") is not None):
        before = _earlier(metrics.get("trained_params"), count, when)
        yield Card("Parameters", count(params), before)
    macs, apart = metrics.get("macs"), metrics.get("onnx_max_difference")
    if macs is not None:
        before = _earlier(metrics.get("trained_macs"), short, when)
        yield Card("Multiply-adds", short(macs), before or f"{count(macs)} for one image")
    expected = metrics.get("expected_params")
    if expected is not None:
        yield Card("Parameters of a draw", count(expected), "expected, by the posterior")
    latency, sparse = metrics.get("latency_ms"), metrics.get("sparse_bytes")
    if sparse is not None:
        dense = _earlier(metrics.get("trained_file_bytes"), _kilobytes, when)
        yield Card("Size, stored sparsely", _kilobytes(sparse), dense)
    if latency is not None:
        before = _earlier(metrics.get("trained_latency_ms"), "{:.3g} ms".format, when)
        yield Card("Time for one image", f"{latency:.3g} ms", before)
    if apart is not None:
        yield Card("ONNX export", "agrees", f"largest difference {scientific(apart)}")


def _earlier(value: float | None, say: Callable[[float], str], when: str) -> str:
    """The value before the network was made smaller in words, if it is known."""
    return "" if value is None else f"{say(value)} {when}"


def _share(value: float) -> str:
    return percent(value, 1)


def _kilobytes(size: float) -> str:
    return f"{size / 1000:,.1f} kB"


def _seconds(found: Run) -> float:
    """Seconds of all stages; of the logged epochs if no stage is finished."""
    stages = [seconds for _, seconds, _ in _stages(found.metrics)]
    logged = [number(line.get("seconds")) for lines in found.epochs.values() for line in lines]
    return sum(s or 0.0 for s in stages or logged)


def _stages(metrics: Mapping[str, Any]) -> Iterator[tuple[str, float, float | None]]:
    stages = metrics.get("stages")
    for name, cost in stages.items() if isinstance(stages, Mapping) else ():
        if isinstance(cost, Mapping):
            yield str(name), number(cost.get("seconds")) or 0.0, number(cost.get("peak_memory_mb"))


def costs(metrics: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Time and memory of each stage, and of all."""
    stages = list(_stages(metrics))
    peaks = [peak for *_, peak in stages if peak is not None]
    if len(stages) > 1:
        stages.append(("together", sum(s for _, s, _ in stages), max(peaks, default=None)))
    return [
        (STAGES.get(name, name).capitalize(), duration(seconds), _memory(peak))
        for name, seconds, peak in stages
    ]


def _memory(megabytes: float | None) -> str:
    if megabytes is None:
        return ""
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes:.0f} MB"
