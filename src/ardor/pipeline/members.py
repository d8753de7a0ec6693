"""The networks that a run keeps beside its own, so that they predict together."""

from ardor.architecture import Architecture
from ardor.models.model import Model
from ardor.models.smaller import compact, prune
from ardor.pipeline.prune_stage import checked_difference
from ardor.pipeline.run import Run
from ardor.settings.sections import NOTHING
from ardor.training.members import as_found


def members(run: Run) -> list[Model]:
    """All but the run's own, small; none unless its search has kept weights for more.

    No weight of theirs is pruned: the threshold is that of a network which may have learned on.
    """
    return [member(run, architecture) for architecture in run.members]


def member(run: Run, architecture: Architecture) -> Model:
    """One of them, without the channels that have no effect."""
    found = as_found(
        architecture,
        run.images.train,
        run.images.classes,
        run.config.train,
        run.searched(architecture),
        run=run.folder,
        runtime=run.runtime(),
    )
    whole = prune(found, NOTHING)
    small = compact(whole, run.config.prune.multiple)
    checked_difference(run, whole, small)
    return small
