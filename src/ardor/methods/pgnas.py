"""PGNAS (Zhou et al. 2020): a posterior over architecture and weights at once.

Each group of weights m is dropped with a probability p of its own, by a mask that is drawn anew in
every step. Weights and probabilities learn together, from the nll and

    KL = sum over groups of (1 - p) d^2 / 2 |m|^2 - K H(p),                              (eq. 15)

with d the length scale of the prior N(0, 1 / d^2) of a weight, K the number of masks of the group,
and H the entropy of one mask. While searching a mask is soft (eq. 16), so that p has a gradient;
what is kept is never scaled up by 1 / (1 - p). At the end hard masks are drawn, each of them an
architecture with the weights that go with it; with `search.candidates` the one that is best on
held-out images is taken, and `train.start = search` with `train.epochs = 0` leaves it as it is.

A group is the channels of a width choice, which share p and have a mask each; or an operation, or
an input, with one mask. That lifts the paper's limit to channels: pools and skips can be dropped
too, as masks without weights, whose -H(p) is the KL to a fair coin but for ln 2. All copies of a
choice share its masks, as they share the decision. Masks of channels are drawn for every image, as
in the paper; those of operations and inputs once for all images of a step: these are normalised
together, and the sum of many operations would drown that of few. Edges whose operations are choices
have no masks: an edge is dropped with the last of its operations. A weight under the masks of two
choices, one inside an option of the other, counts in both groups, which is never less than it
costs.

Departures from the paper: p is the probability to drop everywhere, where print has it as that to
keep in eqs 11 to 13 and in Algorithm 1; eqs 15 and 16 are corrected (see `bayes.divergences` and
`bayes.draws`). Candidates are ranked on held-out images; the authors' code ranks them on the test
images. They are 50, not 1,500. Probabilities learn by Adam, where the authors have SGD at the rate
of the weights: on two cores a search has a thousandth of their steps.

The paper's l^2 is d^2 / 2 here, as its code leaves out the half: 50 (Shake-Shake 26 2x96d) is a
length scale of 10, 150 (2x160d) 17.3, 2,500 (CIFAR-100) 70.7, 0.1 (cells of ENAS) 0.45. Its number
of images is ten times the true one, which is `kl` = 0.1.

`l2` "constant" is the ablation of the paper's table 2: the weights' cost without its factor 1 - p.
`rates` "constant" is that of table 3: all masks are dropped at the same rate, `drop`, and nothing
but the weights learns. `derive` "strongest" keeps at most one operation of each choice, and of the
edges into a node the best, for spaces that must have it so.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice
from ardor.bayes import Gates
from ardor.bayes.divergences import bernoulli_entropy, expected_weight_cost
from ardor.bayes.draws import soft_mask
from ardor.methods._base import Method
from ardor.settings.fields import Amount, Rate
from ardor.spaces import Net, Space

NEGLIGIBLE = 0.01  # probability to be kept
# Any temperature has the same hard masks; at one, masks far from a half differ in float32 as well.
RANKED = 1.0

Drop = Annotated[float, Field(gt=0, lt=1)]
Learned = Literal["learned", "constant"]


class Pgnas(Method):
    """A drop probability for every group of weights; candidates are draws of their masks."""

    draws_zero: ClassVar[bool] = False
    search: ClassVar[Mapping[str, Any]] = {
        "optimiser": "sgd",
        "rate": 0.05,
        "rate_end": 0.0001,
        "weight_decay": 0.0,  # the KL has it
        "warmup": 0.0,
        "held_out": 0.2,
        "gate_rate": 0.01,
        "gate_decay": 0.0,
        "candidates": 50,
        "statistics": "posterior",
    }

    def __init__(
        self,
        space: Space,
        *,
        temperature: Rate = 0.2,  # of soft masks: towards 0 they are zero or one
        length_scale: Amount = 10.0,  # d of the prior N(0, 1 / d^2): the larger, the less stays
        drop: Drop = 0.1,  # p at the start
        kl: Amount = 0.1,  # weight of the KL; 1 is the ELBO
        rates: Learned = "learned",  # p of each group; "constant": all at `drop`
        l2: Learned = "learned",  # weights cost less the larger p; "constant": always the same
        derive: Literal["masks", "strongest"] = "masks",
    ) -> None:
        super().__init__(space)
        self.temperature, self.length_scale, self.kl = temperature, length_scale, kl
        self.learns, self.constant_l2 = rates == "learned", l2 == "constant"
        self.derive = derive
        start = math.log(drop / (1 - drop))
        for choice in self.masked:
            logit = torch.full((1, 1, 1 if choice.kind == "width" else len(choice.options)), start)
            if self.learns:
                self.register_parameter(f"drop_logit/{choice.name}", nn.Parameter(logit))
            else:
                self.register_buffer(f"drop_logit/{choice.name}", logit)

    @property
    def masked(self) -> list[Choice]:
        """The choices whose options are dropped by masks: all but edges with choices on them."""
        edges = [c for c in self.space.choices if c.kind == "op" and c.source is not None]
        led = {(c.place, c.target) for c in edges}
        found = self.choices("op", "edge", "width")
        return [c for c in found if c.kind != "edge" or (c.place, c.target) not in led]

    def drop_logit(self, choice: Choice) -> Tensor:
        """ln p - ln(1 - p) of the remaining options; the channels of a width have one for all."""
        logit = cast(Tensor, getattr(self, f"drop_logit/{choice.name}"))
        return self.gather(choice, logit.expand(1, 1, len(choice.options)))

    def sample(self, batch: int, progress: float) -> Gates:
        """Soft masks, (1, batch | 1, options): of channels others for each image."""
        return self.masks(self.temperature, channels=batch)

    def masks(self, temperature: float, *, channels: int = 1, others: int = 1) -> Gates:
        """So many masks of each choice, (1, masks, options); zero where an option has left."""
        drawn = {}
        for choice in self.masked:
            count = channels if choice.kind == "width" else others
            logit = self.drop_logit(choice).expand(1, count, -1)
            drawn[choice.name] = self.scatter(choice, soft_mask(logit, temperature))
        return drawn

    def penalty(self, gates: Gates, net: Net, progress: float) -> Mapping[str, Tensor]:
        """The two halves of the KL: what weights cost as often as they are kept, and -K H(p)."""
        costs, entropies = [], []
        for choice in self.masked:
            logit = self.drop_logit(choice)
            squares = self.gather(choice, net.weight_norms(choice).sum(0)).to(logit.device)
            keep = torch.ones_like(logit) if self.constant_l2 else torch.sigmoid(-logit)
            costs.append(expected_weight_cost(keep, squares, self.length_scale).sum())
            entropies.append(bernoulli_entropy(logit).sum())
        return {
            "kl_weights": self.kl * torch.stack(costs).sum(),
            "kl_masks": -self.kl * torch.stack(entropies).sum(),
        }

    @torch.no_grad()
    def probabilities(self) -> Gates:
        """1 - p, how likely an option is kept."""
        return {c.name: self.scatter(c, torch.sigmoid(-self.drop_logit(c))) for c in self.masked}

    @torch.no_grad()
    def draw(self, count: int) -> list[Architecture]:
        """All that is kept more often than not, alone or before draws of hard masks.

        Where channels are decided, either that or draws: it is mostly all of them, and so a network
        like none that the weights have learned in.
        """
        first = [] if count > 1 and self.choices("width") else [self.probabilities()]
        rest = count - len(first)
        drawn = self.masks(RANKED, channels=rest, others=rest)
        each = [{name: mask[:, [at]] for name, mask in drawn.items()} for at in range(rest)]
        return [self.architecture(masks) for masks in (*first, *each)]

    def architecture(self, masks: Gates) -> Architecture:
        """What these masks keep, as they are over a half; or only the strongest of it."""
        masks = {name: mask.cpu() for name, mask in masks.items()}
        if self.derive == "masks":
            return self.space.subset(masks)
        # Channels are no candidates for one place: they have no strongest.
        scores = {c.name: masks[c.name] for c in self.masked if c.kind != "width"}
        best = self.space.masks(self.space.strongest(scores))
        return self.space.subset({name: mask * best[name] for name, mask in masks.items()})

    def negligible(self) -> Gates:
        """Operations that are hardly ever kept; none where all rates are constant."""
        shares = self.probabilities() if self.learns else {}
        return {c.name: shares[c.name] < NEGLIGIBLE for c in self.choices("op") if c.name in shares}
