"""The model card: the kind, origin, size and scores of a network."""

import html
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from ardor.errors import printable
from ardor.models.model import Model
from ardor.models.sizes import multiply_adds, nonzero_parameters, parameters

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
Load it with {load}, predict with {predict}. The weights are
`model.safetensors`; `config.json` holds the architecture, the classes and the normalisation.

{scored} Its settings, its log and the certainty of every choice are in the run folder.
"""

MEASURES = {
    "accuracy": "accuracy",
    "nll": "negative log-likelihood, nats",
    "ece": "calibration error",
}
# Which images a network was scored on -> the word for its scores, and what they are worth.
SCORED = {
    "test": (
        "test",
        "It was trained on one set of images and measured on held-out images of that same set; on "
        "other\nimages expect less.",
    ),
    "held_out": (
        "held-out",
        "There were no test images: it was measured on images held out of its training, which the "
        "search\nand the pruning may have seen; on other images expect less.",
    ),
}
UNSCORED = "It was not measured: there were no test images, and none were held out of its training."
# Characters with a meaning in markdown, and those that make an address a link.
MARKUP = re.compile(r"([\\`*_\[\]()#!|~$:@.])")


def card(
    run: Path, model: Model, scores: Mapping[str, float] | None = None, which: str = "test"
) -> str:
    """The README.md of a model, with its scores once they are known, on test or held-out images."""
    word, worth = SCORED[which]
    found = {words: (scores or {}).get(name) for name, words in MEASURES.items()}
    rows = [
        f"| {word} {name} | {value:.4f} |" for name, value in found.items() if value is not None
    ]
    channels, height, width = model.shape
    return TEMPLATE.format(
        channels=channels,
        height=height,
        width=width,
        count=len(model.classes),
        classes=", ".join(map(plain, model.classes)),
        params=parameters(model.net),
        nonzero=nonzero_parameters(model.net),
        macs=multiply_adds(model.net, model.shape),
        measured="".join(row + "\n" for row in rows),
        scored=UNSCORED if scores == {} else worth,
        load=code(f"ardor.load({json.dumps(str(run), ensure_ascii=False)})"),
        predict=code(f"ardor predict {shlex.quote(str(run))} IMAGE..."),
    )


def plain(name: str) -> str:
    """A name that a page shows as it is: no markup, no HTML, no link, all in one line."""
    return MARKUP.sub(r"\\\1", html.escape(printable(name), quote=False))


def code(text: str) -> str:
    """A piece of code in a page, whatever folder it names: fenced by more ticks than it has."""
    line = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence}{line}{fence}"
