"""A space with a known answer: of three ways to look at an image, only one sees anything."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice
from ardor.bayes import Gates
from ardor.spaces import Net, Space, mean_score

OPTIONS = ("noise", "signal", "nothing")


@dataclass(frozen=True, kw_only=True)
class Toy(Space):
    """Two places that share the choice "look", and the halves of the image both look through."""

    image: tuple[int, int, int] = (1, 8, 8)
    classes: int = 2

    @property
    def choices(self) -> tuple[Choice, ...]:
        look = Choice("look", "op", OPTIONS, copies=2, families=("noise", "conv", "other"))
        return look, Choice("through", "edge", ("left", "right"))

    def build(
        self,
        architecture: Architecture | None = None,
        *,
        conv: type[nn.Conv2d] = nn.Conv2d,
        as_searched: bool = False,
    ) -> "ToyNet":
        final = architecture is not None and not as_searched
        return ToyNet(self, architecture, conv, final)

    def strongest(self, scores: Gates) -> Architecture:
        best = {
            c.name: (
                c.options[max(range(len(c.options)), key=mean_score(scores[c.name]).__getitem__)],
            )
            for c in self.choices
            if c.name in scores
        }
        return self.architecture({"look": ("signal",), "through": ("left",), **best})

    def subset(self, probabilities: Gates, threshold: float = 0.5) -> Architecture:
        kept = {}
        for choice in self.choices:
            shares = (
                mean_score(probabilities[choice.name]) if choice.name in probabilities else None
            )
            named = dict(zip(choice.options, shares or [1.0] * len(choice.options), strict=True))
            above = tuple(option for option, p in named.items() if p > threshold)
            kept[choice.name] = above or (max(named, key=named.__getitem__),)
        return self.architecture(kept)


class ToyNet(Net):
    """Each copy looks at the image in the kept ways; the sum is classified."""

    def __init__(
        self,
        space: Toy,
        architecture: Architecture | None,
        conv: type[nn.Conv2d],
        final: bool,
    ) -> None:
        super().__init__()
        kept = OPTIONS if architecture is None else architecture.options["look"]
        through = ("left", "right") if architecture is None else architecture.options["through"]
        self.through = {"left", "right"} & set(through)
        self.looks = nn.ModuleList(
            [nn.ModuleDict({option: conv(1, 4, 1) for option in kept}) for _ in range(2)]
        )
        self.norm = nn.BatchNorm2d(4, affine=final, track_running_stats=final)
        self.classify = nn.Linear(4, space.classes)

    def heads(self, images: Tensor, gates: Gates | None = None) -> tuple[Tensor, ...]:
        inputs = {
            "noise": torch.randn_like(images),
            "signal": images,
            "nothing": torch.zeros_like(images),
        }
        total = images.new_zeros(images.shape[0], 4, *images.shape[2:])
        for copy, looks in enumerate(self.looks):
            for option, conv in looks.items():
                seen = conv(inputs[option])
                if gates is not None and "look" in gates:
                    gate = gates["look"][copy if len(gates["look"]) > 1 else 0]
                    seen = seen * gate[:, OPTIONS.index(option), None, None, None]
                total = total + seen
        if gates is not None and "through" in gates:
            halves = gates["through"][0].repeat_interleave(total.shape[3] // 2, -1)
            total = total * halves[:, None, None]
        left, right = total.split(total.shape[3] // 2, -1)
        total = torch.cat(
            [
                left if "left" in self.through else torch.zeros_like(left),
                right if "right" in self.through else torch.zeros_like(right),
            ],
            -1,
        )
        return (self.classify(self.norm(total).mean((2, 3)) + total.mean((2, 3))),)

    def weight_norms(self, choice: Choice) -> Tensor:
        if choice.kind == "edge":
            return torch.ones(1, 2)
        return torch.stack(
            [
                torch.stack(
                    [
                        looks[o].weight.square().sum() if o in looks else torch.zeros(())
                        for o in OPTIONS
                    ]
                )
                for looks in self.looks
            ]
        )

    def take_out(self, choice: Choice, option: str) -> None:
        self.through.discard(option)
        for looks in self.looks:
            if option in looks:
                del looks[option]
