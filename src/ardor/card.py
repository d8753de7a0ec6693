"""The model card: what a network is, where it came from and how well it does."""

from collections.abc import Mapping
from pathlib import Path

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


def card(run: Path, model: Model, scores: Mapping[str, float] | None = None) -> str:
    """The README.md of a model, with its scores on the test images once they are known."""
    found = {words: (scores or {}).get(name) for name, words in MEASURES.items()}
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
