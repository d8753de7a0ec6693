"""The compress stage: from a trained network to a smaller one that does the same."""

from ardor.models.model import Model
from ardor.models.sizes import layers, nonzero_parameters
from ardor.models.smaller import compact
from ardor.pipeline.prune_stage import checked_difference, sizes
from ardor.pipeline.run import Run
from ardor.pruning.left_alone import left_alone
from ardor.runtime.files import write_json
from ardor.runtime.origin import FORMAT
from ardor.settings.sections import TrainConfig
from ardor.training.compress import compress

LAYERS = "layers.json"
# Settings of the training that are others while a network gets smaller.
COMPRESSING = {
    "start": "scratch",
    "rate_end": 0.0,
    "rate_warmup": 0.0,
    "schedule": "cosine",
    "drop_path": 0.0,
    "max_weights": 0,
    "auxiliary_weight": 0.0,
}
OWN = ("epochs", "time", "optimiser", "rate", "weight_decay", "average")  # of the section


def compressed(run: Run) -> tuple[Model, dict[str, float]]:
    """The smaller network, and its sizes beside those of the one that was given."""
    given, asked = run.trained(), run.config.compress
    found = compress(
        given, run.dataset.train, settings(run), asked, run=run.folder, runtime=run.runtime()
    )
    masked, small = found.model, compact(found.model)
    write_json(
        run.folder / "curve.json",
        {
            "format": FORMAT,
            "images": "held-out",
            "points": found.points,
            "warnings": [*found.said, *untouched(given)],
        },
    )
    write_json(run.folder / LAYERS, {"format": FORMAT, "layers": rows(given, small)})
    return small, {
        "masked_nonzero_params": nonzero_parameters(masked.net),
        "compact_max_difference": checked_difference(run, masked, small),
        **{f"trained_{name}": size for name, size in sizes(given).items()},
        "trained_nonzero_params": nonzero_parameters(given.net),
        **sizes(small),
        "nonzero_params": nonzero_parameters(small.net),
    }


def untouched(given: Model) -> list[str]:
    """What there is to say of parts that keep all their channels."""
    parts = left_alone(given.net, given.shape)
    return [f"left as they are, not known of: {', '.join(parts)}"] if parts else []


def settings(run: Run) -> TrainConfig:
    """How the network learns: as in the training, where the section says nothing else."""
    own = {name: getattr(run.config.compress, name) for name in OWN}
    return run.config.train.model_copy(update={**COMPRESSING, **own})


def rows(given: Model, small: Model) -> list[dict[str, object]]:
    """Each layer with weights, before and after; what has left altogether has nothing after."""
    after = layers(small.net)
    return [
        {"layer": name, "before": before, "after": after.get(name, {})}
        for name, before in layers(given.net).items()
    ]
