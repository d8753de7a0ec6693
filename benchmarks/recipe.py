"""What each setting of the preset `photos` is worth: the training with it, and with another.

    python benchmarks/recipe.py DATA RESULT [--seeds 1]

The architecture that is likeliest without the set itself is trained for the same CPU seconds on one
thread, on images of the training part of CIFAR-10, and scored on other images of that part: test
images are never looked at. RESULT is written after each training; what it has is not done again.
"""

import argparse
import statistics
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from prior import HELD_OUT, halves, scored

from ardor.methods.thompson import Thompson
from ardor.runtime.files import read_json, write_json
from ardor.runtime.origin import about
from ardor.settings.presets import preset
from ardor.spaces import make

# Images to learn from, and CPU seconds: few images seen often, and more of them seen less often.
LENGTHS = ((600, 20.0), (6000, 40.0))
SET = "cifar10"
CHANGED: Mapping[str, Mapping[str, Any]] = {
    "the preset": {},
    "no mixup": {"mixup": 0.0},
    "no mirror images": {"augment": ["crop", "brightness"]},
    "no brightness": {"augment": ["crop", "mirror"]},
    "zoom in place of crop": {"augment": ["zoom", "mirror", "brightness"]},
    "cutout too": {"augment": ["crop", "mirror", "brightness", "cutout"]},
    "the last weights, no mean": {"average": 0.0},
    "no smoothing of labels": {"smoothing": 0.0},
    "four times the weight decay": {"weight_decay": 2e-3},
    "adamw": {"optimiser": "adamw", "rate": 3e-3, "weight_decay": 1e-2},
    "all weights, none made zero": {"max_weights": 0},
    "half as many weights that are not zero": {"max_weights": 5400},
}


def main() -> None:
    """Trains what is not trained yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    runs = read_json(asked.result)["runs"] if asked.result.exists() else []
    done = {(run["settings"], run["images"], run["seed"]) for run in runs}
    for seed in range(asked.seeds):
        for count, seconds in LENGTHS:
            for name, changes in CHANGED.items():
                if (name, count, seed) not in done:
                    facts = {"settings": name, "images": count, "seconds": seconds, "seed": seed}
                    runs.append(facts | trained(asked.data, count, seconds, seed, changes))
                    write_json(asked.result, result(runs))


def trained(
    root: Path, count: int, seconds: float, seed: int, changes: Mapping[str, Any]
) -> dict[str, float]:
    """Accuracy and nll on held-out images."""
    learned, held_out, classes = halves(SET, root, count)
    # Mirror images keep their classes here, as a run would find with images held out.
    names = changes.get("augment", preset("photos")["train"]["augment"])
    augment = ["flip" if name == "mirror" else name for name in names]
    space = make("blocks", {"image": tuple(learned.pixels.shape[1:]), "classes": len(classes)})
    own = preset("photos")["methods"]["thompson"]["method"]
    likeliest = Thompson(space, without=(SET,), **own).draw(1)[0]
    settings = {**changes, "augment": augment}
    found = scored(likeliest, learned, held_out, classes, seconds, seed, **settings)
    return {name: found[name] for name in ("accuracy", "nll")}


def result(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs, and the mean over seeds of each setting."""
    groups: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["images"], run["settings"]), []).append(run)
    return {
        **about("python benchmarks/recipe.py DATA docs/results/recipe.json"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "threads": 1,
        "bench": "recipe",
        "measure": "recipe",
        "settings": {name: dict(changes) for name, changes in CHANGED.items()},
        "held_out_images": HELD_OUT,
        "table": [row(*key, own) for key, own in groups.items()],
        "runs": runs,
    }


def row(images: int, name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds."""
    means = {key: statistics.fmean(run[key] for run in runs) for key in ("accuracy", "nll")}
    return {"images": images, "settings": name, "seeds": len(runs), **means}


if __name__ == "__main__":
    main()
