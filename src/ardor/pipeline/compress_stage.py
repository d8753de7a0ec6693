"""The compress stage: from a trained network to a smaller one that does the same."""

from math import ceil

from ardor.models.card import GIVEN, Origin, smaller
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
from ardor.training.train import tune

LAYERS = "layers.json"
# Settings of the training that are others while a network gets smaller.
COMPRESSING = {
    "start": "scratch",
    "rate_end": 0.0,
    "rate_warmup": 0.0,
    "variational": False,
    "drop_path": 0.0,
    "max_weights": 0,
    "auxiliary_weight": 0.0,
}
OWN = ("optimiser", "rate", "weight_decay")  # settings of the section that take their place


def compressed(run: Run) -> tuple[Model, dict[str, float]]:
    """The smaller network, and its sizes beside those of the one that was given.

    Once nothing leaves any more, what is left learns by itself: a small network is trained faster.
    """
    given, images, more = run.trained(), run.dataset.train, run.dataset.unlabelled
    first, then = parts(run)
    found = compress(
        given,
        images,
        first,
        run.config.compress,
        run=run.folder,
        runtime=run.runtime(),
        unlabelled=more,
    )
    masked, small = found.model, compact(found.model, run.config.compress.multiple)
    difference = checked_difference(run, masked, small)
    if then.epochs and run.config.compress.settle:
        small = settled(run, small, then)
    said = [*found.said, *untouched(given)]
    curve = {"format": FORMAT, "images": "held-out", "points": found.points, "warnings": said}
    write_json(run.folder / "curve.json", curve)
    write_json(run.folder / LAYERS, {"format": FORMAT, "layers": rows(given, small)})
    return small, {
        "masked_nonzero_params": nonzero_parameters(masked.net),
        "compact_max_difference": difference,
        **{f"trained_{name}": size for name, size in sizes(given).items()},
        "trained_nonzero_params": nonzero_parameters(given.net),
        **sizes(small),
        "nonzero_params": nonzero_parameters(small.net),
    }


def settled(run: Run, small: Model, config: TrainConfig) -> Model:
    """What is left, once it has learned by itself."""
    images = run.dataset
    return tune(
        small,
        images.train,
        config,
        run=run.folder,
        runtime=run.runtime(),
        unlabelled=images.unlabelled,
        name="settle",
    )


def untouched(given: Model) -> list[str]:
    """What there is to say of parts that keep all their channels."""
    parts = left_alone(given.net, given.shape)
    return [f"left as they are, not known of: {', '.join(parts)}"] if parts else []


def parts(run: Run) -> tuple[TrainConfig, TrainConfig]:
    """How the network learns while groups leave, and how afterwards."""
    asked = run.config.compress
    own = {name: getattr(asked, name) for name in OWN}
    config = run.config.train.model_copy(update={**COMPRESSING, **own})
    epochs = ceil(asked.epochs * (1 - asked.settle))
    leaving = {"epochs": epochs, "time": asked.time * (1 - asked.settle), "schedule": "constant"}
    settling = {
        "epochs": asked.epochs - epochs,
        "time": asked.time * asked.settle,
        "schedule": "cosine",
    }
    return (
        config.model_copy(update={**leaving, "average": asked.average}),
        config.model_copy(update={**settling, "average": 0.0}),
    )


def origins(run: Run) -> tuple[Origin | None, Origin | None]:
    """Where the network that was made smaller and the one before are from, for their cards."""
    asked = run.config.compress
    if "compress" not in run.stages:
        return None, None
    known = "train" in run.stages
    now = smaller(run.trained(), asked.prior, asked.groups, known=known)
    return now, None if known else GIVEN


def rows(given: Model, small: Model) -> list[dict[str, object]]:
    """Each layer with weights, before and after; what has left altogether has nothing after."""
    after = layers(small.net)
    return [
        {"layer": name, "before": before, "after": after.get(name, {})}
        for name, before in layers(given.net).items()
    ]
