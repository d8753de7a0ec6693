"""The contenders of the speed bench: steps and rankings of Ardor, and of a plain supernet."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor
from torch.optim import SGD

from ardor.architecture import Architecture
from ardor.bench.speed.plain_darts import PlainDarts, weight_step
from ardor.data import Images
from ardor.methods import Method
from ardor.methods.darts import Darts
from ardor.methods.random import Random
from ardor.methods.vinnas import Vinnas
from ardor.models.sizes import multiply_adds
from ardor.runtime.device import Runtime
from ardor.searching.loop import SearchLoop
from ardor.settings.sections import SearchConfig
from ardor.spaces.cells import Cells

RANKED = 8  # architectures, drawn at random: some are cheaper than others
MATRIX = 2048  # rows and columns: large enough for a processor to show what it can
# In this order an edge gets them where it has fewer than eight: cheap and dear ones by turns.
BY_TURNS = ("skip_connect", "sep_conv_3x3", "max_pool_3x3", "dil_conv_5x5")

Work = Callable[[], object]


@dataclass(frozen=True)
class Size:
    """The size of a supernet and its batch, by default DARTS's on CIFAR-10."""

    batch: int = 64
    channels: int = 16
    cells: int = 8
    candidates: int = 8
    pixels: int = 32

    @property
    def layout(self) -> str:
        """Reductions after one and two thirds of the cells, as in DARTS."""
        reductions = (self.cells // 3, 2 * self.cells // 3)
        return "".join("R" if index in reductions else "N" for index in range(self.cells))

    @property
    def space(self) -> Cells:
        """The space of that size."""
        ops = "darts" if self.candidates == 8 else ",".join(BY_TURNS[: self.candidates])
        return Cells(
            image=(3, self.pixels, self.pixels),
            layout=self.layout,
            states=4,
            channels=self.channels,
            ops=ops,
        )


def noise(size: Size) -> Images:
    """A batch of random images."""
    shape = (size.batch, 3, size.pixels, size.pixels)
    return Images(torch.randint(256, shape, dtype=torch.uint8), torch.arange(size.batch) % 10)


def search(size: Size, method: type[Method], **change: float) -> SearchLoop:
    """A search with the method's own settings, about to begin; its steps write no files."""
    settings = {**method.search, "batch": size.batch, "augment": ("crop", "flip")}
    halves = (noise(size), noise(size))
    runtime = Runtime.start("cpu", 0)
    config = SearchConfig(**settings)
    made = method(size.space, **change)
    return SearchLoop(size.space, made, halves, config, Path(os.devnull), runtime)


def step(size: Size, method: type[Method], **change: float) -> Work:
    """A step of the weights alone: in the first epochs of a search the gates do not learn."""
    loop = search(size, method, **change)
    batch = loop.batch(loop.train, torch.arange(size.batch), 0)
    return lambda: loop.step(batch, batch)


def preparation(size: Size) -> Work:
    """The images of a step: gathered, normalised, cropped and flipped."""
    loop = search(size, Darts)
    return lambda: loop.batch(loop.train, torch.arange(size.batch), 0)


def ranking(size: Size) -> Work:
    """The held-out images through one drawn architecture after another."""
    loop = search(size, Darts)
    masks = cycle([size.space.masks(architecture) for architecture in drawn(size)])
    return lambda: loop.validation.measure(next(masks))


def plain_step(size: Size) -> Work:
    """The same step of the plain twin, under DARTS's settings."""
    net = PlainDarts(channels=size.channels, layout=size.layout)
    rate, decay = 0.025, 3e-4
    optimiser = SGD(net.parameters(), rate, momentum=0.9, weight_decay=decay)
    logits = [torch.zeros(14, 8, requires_grad=True) for _ in ("normal", "reduce")]
    batch = plain_images(size), noise(size).labels
    return lambda: weight_step(net, optimiser, batch, logits)


def plain_ranking(size: Size) -> Work:
    """The images through the plain twin, where only the chosen candidates count for something."""
    net, images = PlainDarts(channels=size.channels, layout=size.layout), plain_images(size)
    masks = size.space.masks(drawn(size)[0])
    edges = [f"{source}>{node}" for node in size.space.nodes() for source in range(node)]
    normal, reduce = (
        torch.stack([masks[f"{kind}/{edge}"].flatten() for edge in edges])
        for kind in ("normal", "reduce")
    )
    return torch.no_grad()(lambda: net(images, normal, reduce))


def plain_images(size: Size) -> Tensor:
    """Normalised images, contiguous."""
    return torch.randn(size.batch, 3, size.pixels, size.pixels)


def product(size: Size) -> Work:
    """The fastest the processor can compute: one large product of matrices, for any size of net."""
    a, b = torch.randn(2, MATRIX, MATRIX)
    return lambda: torch.mm(a, b)


@cache
def drawn(size: Size) -> list[Architecture]:
    """The architectures that are ranked."""
    torch.manual_seed(0)
    return Random(size.space).draw(RANKED)


@cache
def forward(size: Size) -> float:
    """Multiply-adds of a batch through the whole supernet."""
    return size.batch * multiply_adds(size.space.build(), size.space.image)


@cache
def chosen(size: Size) -> float:
    """Multiply-adds of a batch through a drawn architecture, on average."""
    nets = [size.space.build(architecture, as_searched=True) for architecture in drawn(size)]
    return size.batch * fmean(multiply_adds(net, size.space.image) for net in nets)


@dataclass(frozen=True)
class Contender:
    """A function to time: how it is prepared, and the multiply-adds of one call."""

    ready: Callable[[Size], Work]
    multiply_adds: Callable[[Size], float]
    calls: int = 1  # in one measurement, where a single one is too short


# A backward pass is two forward ones: it multiplies by the weights and by the inputs. A layer of
# variational weights multiplies twice, once for means and once for variances.
CONTENDERS = {
    "plain step": Contender(plain_step, lambda size: 3 * forward(size)),
    "darts step": Contender(partial(step, method=Darts), lambda size: 3 * forward(size)),
    "vinnas step": Contender(partial(step, method=Vinnas), lambda size: 6 * forward(size)),
    "vinnas step, plain weights": Contender(
        partial(step, method=Vinnas, kl_weights=0.0), lambda size: 3 * forward(size)
    ),
    "preparation": Contender(preparation, lambda size: 0.0, calls=20),
    "plain ranking": Contender(plain_ranking, forward),
    "ranking": Contender(ranking, chosen, calls=RANKED),
    "matrix product": Contender(product, lambda size: MATRIX**3, calls=3),
}
