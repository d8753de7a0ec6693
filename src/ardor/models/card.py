"""The model card: the kind, origin, size and scores of a network."""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ardor.data.decode import text
from ardor.errors import printable
from ardor.models.model import Model
from ardor.models.sizes import multiply_adds, nonzero_parameters, parameters
from ardor.reporting.compression import decided
from ardor.reporting.format import said

TEMPLATE = """---
library_name: ardor
pipeline_tag: image-classification
tags: [neural-architecture-search, bayesian, sparse]
---
# Image classifier {made} Ardor
{told}
Takes {channels}-channel images of {height}x{width} pixels in 0..255 and tells {count} classes
apart: {classes}.

| | |
|---|---|
| parameters | {params:,} |
| of them not zero | {nonzero:,} |
| multiply-adds for an image | {macs:,} |
{measured}
In this folder are its weights, `model.safetensors`; and `config.json` with the architecture, the
classes, the preprocessing and the normalisation. That is all Ardor needs. This folder is called
`{folder}` here:

```sh
ardor predict {folder} photo.jpg
```

In Python, `ardor.load("{folder}")` has `.probabilities(pixels)` and `.classes`.
{together}
## Without Ardor

`ardor export` writes the network that a run ends with as `model.onnx`, in `export/` of the run. Its
input `pixels` is (batch, {channels}, {height}, {width}) in 0..255, its output `logits`
(batch, {count}); the classes and the preprocessing are in its metadata. The function below makes
pixels out of a picture just as Ardor does; a plain resize would give other answers. With
onnxruntime, NumPy and Pillow:

```python
import json
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image


{reader}

network = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
pixels = pixels_of(Image.open("photo.jpg"), {channels}, {height}, {width})
(logits,) = network.run(["logits"], {{"pixels": pixels[None].astype(np.float32)}})
shares = np.exp(logits[0] - logits[0].max())
shares /= shares.sum()
classes = json.loads(network.get_modelmeta().custom_metadata_map["classes"])
print(classes[shares.argmax()], shares.max())
```

## What to expect

{scored} Its settings, its log and the certainty of every choice are in the folder of its run.
"""

TOGETHER = """
In `members` are other networks of its search. With them it gives the mean of the probabilities of
{count}: `ardor predict {folder} --ensemble {count} photo.jpg`.
"""
MEASURES = {
    "accuracy": "accuracy",
    "nll": "negative log-likelihood, nats",
    "ece": "calibration error",
    "teacher_agreement": "images on which it says what its teacher says",
    "teacher_accuracy": "accuracy of that teacher",
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
UNKNOWN = (
    "It was measured on images that were held back here; whether it had learned from them before "
    "is not\nknown. On other images expect less."
)
# Characters with a meaning in markdown, and those that make an address a link.
MARKUP = re.compile(r"([\\`*_\[\]()#!|~$:@.])")


@dataclass(frozen=True)
class Origin:
    """Where a network is from, where Ardor has not simply found and trained it."""

    made: str
    told: str
    known: bool = True  # whether Ardor knows all that it has learned from


GIVEN = Origin(
    "given to",
    "Its training was not part of this run: it is what `ardor compress` was given.",
    known=False,
)


def smaller(given: Model, prior: str, groups: Sequence[str], *, known: bool) -> Origin:
    """The origin of a network that was made out of a larger one."""
    name, before = plain(said(given.architecture.space)), parameters(given.net)
    told = (
        f"It was made out of {name}, which has {before:,} parameters. What left was decided by\n"
        f"{plain(decided(prior, groups))}; what is left has learned on meanwhile."
    )
    return Origin("made smaller by", told, known)


def card(
    folder: str,
    model: Model,
    scores: Mapping[str, float] | None = None,
    which: str = "test",
    *,
    together: int = 1,
    origin: Origin | None = None,
) -> str:
    """The README.md in a model's folder of that name; with its scores once they are known.

    They are of test or of held-out images. `together` networks in the folder can predict together.
    """
    word, worth = SCORED[which]
    made = "found by" if model.architecture.kept else "trained by"
    found = {words: (scores or {}).get(name) for name, words in MEASURES.items()}
    rows = [
        f"| {word} {name} | {value:.4f} |" for name, value in found.items() if value is not None
    ]
    channels, height, width = model.shape
    return TEMPLATE.format(
        made=origin.made if origin else made,
        told=f"\n{origin.told}\n" if origin else "",
        channels=channels,
        height=height,
        width=width,
        count=len(model.classes),
        classes=", ".join(map(plain, model.classes)),
        params=parameters(model.net),
        nonzero=nonzero_parameters(model.net),
        macs=multiply_adds(model.net, model.shape),
        measured="".join(row + "\n" for row in rows),
        scored=UNSCORED if scores == {} else worth if not origin or origin.known else UNKNOWN,
        folder=folder,
        together=TOGETHER.format(folder=folder, count=together) if together > 1 else "",
        reader=text(),
    )


def plain(name: str) -> str:
    """A name that a page shows as it is: no markup, no HTML, no link, all in one line."""
    return MARKUP.sub(r"\\\1", html.escape(printable(name), quote=False))
