"""The checkpoints of a loop: tensors of modules, optimisers and random numbers, and back again."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ardor.errors import ArdorError
from ardor.runtime.seeds import Streams, random_states, restore_random_states
from ardor.training.remembered import check_state

LOG = logging.getLogger("ardor")
# The errors of torch, numpy and Python where a checkpoint does not hold what they saved.
MISFITS = (LookupError, RuntimeError, ValueError, TypeError, AttributeError, ArithmeticError)
KEPT = 2  # checkpoints: the newest, and one to fall back on should it be damaged


def path_of(run: Path, name: str, epoch: int, step: int) -> Path:
    """The file of a checkpoint; names sort in the order of the loop."""
    return run / "checkpoint" / f"{name}-{epoch:05d}-{step:06d}.safetensors"


def paths(run: Path, name: str) -> list[Path]:
    """The checkpoints of a loop, oldest first."""
    return sorted((run / "checkpoint").glob(f"{name}-*.safetensors"))


def drop_older(run: Path, name: str) -> None:
    """Deletes all checkpoints of a loop but the newest ones."""
    for old in paths(run, name)[:-KEPT]:
        old.unlink()


def saved(
    modules: Mapping[str, nn.Module], optimisers: Mapping[str, Optimizer], streams: Streams
) -> tuple[dict[str, Tensor], Any]:
    """All state as tensors by name, and that of random numbers which is not a tensor."""
    tensors: dict[str, Tensor] = {}
    for name, module in modules.items():
        tensors |= {f"{name}/{key}": value for key, value in module.state_dict().items()}
    for name, optimiser in optimisers.items():
        tensors |= _flat(name, optimiser)
    states, facts = random_states()
    states |= streams.states()
    return tensors | {f"random/{key}": value for key, value in states.items()}, facts


def restore_newest(run: Path, name: str, restore: Callable[[Path], None]) -> None:
    """Restores the newest checkpoint that is not damaged, if there is any."""
    checkpoints = paths(run, name)
    for path in reversed(checkpoints):
        try:
            restore(path)
            break
        except ArdorError as error:
            if path == checkpoints[0]:
                raise
            LOG.warning("%s; going back to the checkpoint before it", error)


@contextmanager
def misfits(path: Path) -> Iterator[None]:
    """Turns what fails while a checkpoint is restored into an ArdorError that names it."""
    try:
        yield
    except MISFITS as error:
        *_, why = ("", *str(error).split("\n"))  # torch gives the reason in its last line
        raise ArdorError(
            f"checkpoint '{path}' does not fit this run: {why.strip()}",
            "put back its config.json, or delete its checkpoints to begin the stage anew",
        ) from error


def restore_modules(
    tensors: Mapping[str, Tensor],
    modules: Mapping[str, nn.Module],
    optimisers: Mapping[str, Optimizer],
) -> None:
    """Loads modules and optimisers from the tensors that `saved` gave."""
    for name, module in modules.items():
        module.load_state_dict(_under(f"{name}/", tensors))
    for name, optimiser in optimisers.items():
        _unflatten_(optimiser, _under(f"{name}/", tensors))


def restore_random(tensors: Mapping[str, Tensor], facts: Any, streams: Streams, path: Path) -> None:
    """Puts the random numbers back where they were."""
    states = _under("random/", tensors)
    restore_random_states(states, facts)
    if not streams.restore(states):
        LOG.warning("'%s' has no random states of gates and data: they begin anew", path)


def _flat(name: str, optimiser: Optimizer) -> dict[str, Tensor]:
    """An optimiser's state as named tensors."""
    return {
        f"{name}/{index}/{key}": value
        for index, state in optimiser.state_dict()["state"].items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }


def _unflatten_(optimiser: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Puts back what `_flat` took; rates and the like follow from the settings."""
    state: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for key, value in tensors.items():
        index, name = key.split("/")
        state[int(index)][name] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": dict(state), "param_groups": groups})
    check_state(optimiser)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
