"""How weights and gates learn: one step of each."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from torch import Tensor, nn
from torch.optim import SGD

from ardor.methods import Curvature, Method
from ardor.runtime.seeds import Streams
from ardor.schedules import RATES
from ardor.searching.gate_gradients import GateCurvature, searching, unrolled_gradients_
from ardor.searching.shrink import hold_only_
from ardor.settings.sections import SearchConfig
from ardor.spaces import Net
from ardor.training.objective import Batch, Loss
from ardor.training.optimise import (
    gate_optimiser,
    held,
    rate_at,
    set_gradients_,
    set_rate_,
    weight_optimiser,
)


class Learner:
    """The parameters of net and method, and their optimisers."""

    def __init__(
        self,
        net: Net,
        method: Method,
        config: SearchConfig,
        *,
        micro_batches: int,
        streams: Streams,
    ) -> None:
        self.net, self.method, self.config = net, method, config
        self.micro_batches = micro_batches
        self.drawing = partial(streams, "gates")  # the random numbers of the method
        self.noise = partial(streams, "noise")
        self.weights = list(net.parameters())
        self.gates = list(method.parameters())
        self.optimiser = weight_optimiser(net, config)
        self.optimisers = {"weights": self.optimiser}
        if self.gates:
            self.gate_optimiser = gate_optimiser(self.gates, config)
            self.optimisers["gates"] = self.gate_optimiser

    def step(self, batch: Batch, progress: float, *, joint: bool) -> Loss:
        """One step of the weights, and of the gates if they learn jointly with them."""
        with held(
            [] if joint else self.gates
        ):  # without gate gradients, candidates under a gate of zero are skipped
            loss = self.loss(batch, progress)
        set_gradients_(self.weights + (self.gates if joint else []), loss.total)
        nn.utils.clip_grad_norm_(self.weights, self.config.clip)
        set_rate_(self.optimiser, rate_at(self.config, progress))
        self.optimiser.step()
        if joint:
            self.move_gates(progress)
        return loss

    def gate_step(self, train: Batch, held_out: Batch, progress: float) -> Loss:
        """One step of the gates on held-out images."""
        if self.method.unrolled:
            loss = self.look_ahead(train, held_out, progress)
        else:
            with held(self.weights):
                loss = self.loss(held_out, progress)
                set_gradients_(self.gates, loss.total)
        self.move_gates(progress)
        return loss

    def look_ahead(self, train: Batch, held_out: Batch, progress: float) -> Loss:
        """Sets the gates' gradients as they are after a further step of the weights."""
        return unrolled_gradients_(
            self.gates,
            self.weights,
            lambda: self.loss(train, progress),
            lambda: self.loss(held_out, progress),
            [self.optimiser.state[w].get("momentum_buffer") for w in self.weights],
            rate=rate_at(self.config, progress),
            momentum=self.config.momentum if isinstance(self.optimiser, SGD) else 0.0,
            decay=self.config.weight_decay,
        )

    def move_gates(self, progress: float) -> None:
        """Moves the gates along their gradients."""
        share = RATES[self.config.gate_schedule](progress)
        rate = self.config.gate_rate * share
        set_rate_(self.gate_optimiser, rate)
        if self.method.clips:
            nn.utils.clip_grad_norm_(self.gates, self.config.clip)
        self.gate_optimiser.step()
        has_momentum = isinstance(self.gate_optimiser, SGD)
        self.method.after_step(rate / (1 - self.config.gate_momentum) if has_momentum else rate)

    def loss(self, batch: Batch, progress: float, micro_batches: int | None = None) -> Loss:
        """The objective on a batch, under one draw of the gates."""
        return searching(
            self.net,
            self.method,
            batch,
            progress,
            smoothing=self.config.smoothing,
            micro_batches=self.micro_batches if micro_batches is None else micro_batches,
            drawing=self.drawing,
        )

    def curvature(self, gather: Callable[[], Sequence[Batch]]) -> Curvature:
        """The curvature in the gates; its batches are gathered only if a method uses it."""
        return GateCurvature(
            self.net,
            self.method.space.choices,
            gather,
            micro_batches=self.micro_batches,
            drawing=self.noise,
        )

    def begin_anew(self, weights: Mapping[str, Tensor]) -> None:
        """Loads these weights, and clears the state of all optimisers."""
        self.net.load_state_dict(weights)
        for optimiser in self.optimisers.values():
            optimiser.state.clear()

    def forget_removed(self) -> None:
        """Drops the weights of removed candidates, also from the optimiser."""
        self.weights = list(self.net.parameters())
        hold_only_(self.optimiser, self.weights)
