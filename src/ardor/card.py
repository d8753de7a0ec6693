"""The model card: what a network is, where it came from and how well it does."""

from pathlib import Path

from ardor.files import read_json
from ardor.measure import multiply_adds, nonzero_parameters, parameters
from ardor.model import Model

TEMPLATE = """---
library_name: ardor
pipeline_tag: image-classification
tags: [neural-architecture-search, bayesian, sparse]
---
# Image classifier found by Ardor

Takes {channels}-channel images of {height}x{width} pixels in 0..255 and tells {count} classes
apart: {classes}.

| | |
|---|---|
| parameters | {params:,} |
| of them not zero | {nonzero:,} |
| multiply-adds for an image | {macs:,} |
{measured}
Load it with `ardor.load("{run}")`, predict with `ardor predict {run} IMAGE...`. The weights are
`model.safetensors`; `config.json` holds the architecture, the classes and the normalisation.

It was trained on one set of images and measured on held-out images of that same set; on other
images expect less. Its settings, its log and the certainty of every choice are in the run folder.
"""

MEASURES = {
    "accuracy": "test accuracy",
    "nll": "test negative log-likelihood, nats",
    "ece": "test calibration error",
}


def card(run: Path, model: Model, measured: str = "test") -> str:
    """The README.md of a model, with what metrics.json knows by now under `measured`."""
    path = run / "metrics.json"
    metrics = read_json(path) if path.exists() else {}
    found = {words: metrics.get(f"{measured}_{name}") for name, words in MEASURES.items()}
    rows = [f"| {words} | {value:.4f} |" for words, value in found.items() if value is not None]
    channels, height, width = model.shape
    return TEMPLATE.format(
        channels=channels,
        height=height,
        width=width,
        count=len(model.classes),
        classes=", ".join(model.classes),
        params=parameters(model.net),
        nonzero=nonzero_parameters(model.net),
        macs=multiply_adds(model.net, model.shape),
        measured="".join(row + "\n" for row in rows),
        run=run,
    )
