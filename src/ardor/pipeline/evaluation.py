"""What the evaluate stage keeps for the report: the confusion, and the worst mistakes."""

import base64
import io
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image
from torch import Tensor

from ardor.data import Images
from ardor.reporting.evaluation import FILE, MISTAKES, Evaluation, Mistake
from ardor.runtime.files import write_json

SIDE = 96  # pixels of a picture in the report; a larger one is made smaller


def keep(
    run: Path, classes: tuple[str, ...], logits: Tensor, images: Images, *, held_out: bool
) -> None:
    """Writes what the report shows of the answers to these images; nothing where there are none."""
    if not len(images):
        (run / FILE).unlink(missing_ok=True)
        return
    found = Evaluation(
        held_out, classes, confusion(logits, images, classes), mistakes(logits, images, classes)
    )
    write_json(run / FILE, found.to_json())


def confusion(
    logits: Tensor, images: Images, classes: tuple[str, ...]
) -> dict[str, dict[str, int]]:
    """How many images of each class were taken for which, where there are any."""
    counts = Counter(zip(images.labels.tolist(), logits.argmax(1).tolist(), strict=True))
    found: dict[str, dict[str, int]] = {}
    for (true, predicted), count in sorted(counts.items()):
        found.setdefault(classes[true], {})[classes[predicted]] = count
    return found


def mistakes(logits: Tensor, images: Images, classes: tuple[str, ...]) -> list[Mistake]:
    """The images that the network is surest and wrong about, the surest first."""
    shares, said = logits.softmax(1).max(1)
    wrong = (said != images.labels).nonzero().flatten()
    worst = wrong[shares[wrong].argsort(descending=True, stable=True)][:MISTAKES].tolist()
    labels = images.labels
    return [
        Mistake(classes[labels[i]], classes[said[i]], float(shares[i]), png(images.pixels[i]))
        for i in worst
    ]


def png(pixels: Tensor) -> str:
    """An image as a small PNG, in base64."""
    values = np.ascontiguousarray(pixels.permute(1, 2, 0).numpy())
    picture = Image.fromarray(values[..., 0] if values.shape[2] == 1 else values)
    picture.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()
