"""A choice with thousands of options: of channels a search writes how many, and not which."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from ardor.architecture import Architecture, Choice, Decisions
from ardor.bayes import Gates
from ardor.data import Images
from ardor.methods import Method
from ardor.runtime.device import Runtime
from ardor.searching.likely import likeliest, without
from ardor.searching.loop import SearchLoop, halves
from ardor.searching.result import SearchResult
from ardor.settings.sections import SearchConfig
from ardor.spaces import Net, Space
from ardor.training.events import scalars

CHANNELS = 4000
NAMES = tuple(map(str, range(CHANNELS)))
CONFIG = SearchConfig(
    epochs=3, batch=16, augment=(), warmup=0.3, gate_rate=0.1, candidates=4, shrink=1
)


@dataclass(frozen=True, kw_only=True)
class Wide(Space):
    """A layer of which channels can be left out, and what follows on it."""

    image: tuple[int, int, int] = (1, 8, 8)
    classes: int = 2

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        return Choice("after", "op", ("relu", "tanh", "none")), Choice("channels", "width", NAMES)

    def build(
        self,
        architecture: Architecture | None = None,
        *,
        conv: type[nn.Conv2d] = nn.Conv2d,
        as_searched: bool = False,
    ) -> "WideNet":
        return WideNet(self)

    def strongest(self, scores: Gates) -> Architecture:
        return self.subset(scores)

    def subset(self, probabilities: Gates, threshold: float = 0.5) -> Architecture:
        best = self.choices[0].options[int(probabilities["after"].flatten().argmax())]
        above = (probabilities["channels"].flatten() > threshold).nonzero().flatten().tolist()
        return self.architecture({"after": (best,), "channels": tuple(NAMES[i] for i in above)})


class WideNet(Net):
    """Brightness to channels, under their masks; an activation; classes."""

    def __init__(self, space: Wide) -> None:
        super().__init__()
        self.spread, self.classify = nn.Linear(1, CHANNELS), nn.Linear(CHANNELS, space.classes)

    def heads(self, images: Tensor, gates: Gates | None = None) -> tuple[Tensor, ...]:
        seen = self.spread(images.mean((1, 2, 3))[:, None])
        gates = gates or {"after": torch.ones(1, 1, 3), "channels": torch.ones(1, 1, CHANNELS)}
        relu, tanh, _ = gates["after"][0].unbind(-1)
        seen = relu[:, None] * seen.relu() + tanh[:, None] * seen.tanh()
        return (self.classify(seen * gates["channels"][0]),)

    def weight_norms(self, choice: Choice) -> Tensor:
        return torch.ones(1, len(choice.options))

    def take_out(self, choice: Choice, option: str) -> None:
        assert choice.kind == "op"


class Masks(Method):
    """A probability of its own for every option; what is unlikely is given up."""

    search: ClassVar = {"gate_decay": 0.0}

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self.logit = nn.ParameterDict(
            {c.name: torch.linspace(-2, 2, len(c.options))[None, None] for c in space.choices}
        )

    def sample(self, batch: int, progress: float) -> Gates:
        return {name: logit.sigmoid() for name, logit in self.logit.items()}

    def probabilities(self) -> Gates:
        return {name: logit.detach().sigmoid() for name, logit in self.logit.items()}

    def strengths(self) -> Mapping[str, Gates]:
        return {"logit": {name: logit.detach() for name, logit in self.logit.items()}}

    def negligible(self) -> Gates:
        return {name: share < 0.3 for name, share in self.probabilities().items()}

    def draw(self, count: int) -> list[Architecture]:
        keep = self.probabilities()
        first = {"after": keep["after"]}
        draws = [self.space.subset(keep)]
        for _ in range(count - 1):
            draws.append(
                self.space.subset({**first, "channels": torch.bernoulli(keep["channels"])})
            )
        return draws


@dataclass(frozen=True)
class Searched:
    """What a search has left behind."""

    loop: SearchLoop
    found: SearchResult
    lines: list[str]

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture
def searched(bright: Images, tmp_path: Path) -> Searched:
    runtime, space = Runtime.start("cpu", 0), Wide()
    parts = halves(bright, CONFIG, 0)
    loop = SearchLoop(space, Masks(space), parts, CONFIG, tmp_path, runtime)
    loop.run()
    return Searched(loop, loop.found(), (tmp_path / "log.jsonl").read_text().splitlines())


def test_a_line_of_the_log_says_how_many_channels_and_not_which(searched: Searched) -> None:
    assert max(map(len, searched.lines)) < 3000
    for entry in searched.entries:
        assert entry["probabilities"].keys() == entry["strengths"].keys() == {"after"}
        assert 0 < entry["widths"]["channels"] < CHANNELS
    assert searched.entries[-1]["watch"]["kept"].keys() == {"after"}
    expected = searched.loop.method.probabilities()["channels"].double().sum().item()
    assert searched.entries[-1]["widths"]["channels"] == pytest.approx(expected, rel=1e-5)
    assert dict(scalars(searched.entries[-1]))["widths/channels"] == pytest.approx(
        expected, rel=1e-5
    )


def test_candidates_say_how_many_channels_they_keep(searched: Searched) -> None:
    content = searched.found.to_json()
    assert Architecture.from_json(content) == searched.found.architecture
    assert isinstance(content["kept"]["channels"], str)  # ranges, not a name for each channel
    assert content["widths"] == searched.found.widths == searched.entries[-1]["widths"]
    assert len(content["candidates"]) == 4
    for entry, candidate in zip(content["candidates"], searched.found.candidates, strict=True):
        assert entry["kept"].keys() == {"after"}
        assert entry["widths"] == {"channels": len(candidate.architecture.options["channels"])}
    del content["kept"]
    assert len(json.dumps(content)) < 3000
    assert searched.found.watched["certainty"] == searched.found.probabilities["after"]["none"]


def test_single_channels_do_not_leave_and_nothing_is_remembered_of_them(
    searched: Searched,
) -> None:
    assert searched.found.removed.keys() == {"after"}
    facts = searched.loop.stage.facts
    assert facts["given_up"].keys() == {"after"}
    assert len(facts["watch"]["direction"]) == 3
    assert len(json.dumps(facts)) < 3000
    assert searched.entries[-1]["watch"]["curvature"] is not None


def test_the_bookkeeping_of_an_epoch_takes_no_noticeable_time(searched: Searched) -> None:
    loop = searched.loop
    loop.stage.epoch = 2
    began = time.process_time()
    loop.finish_epoch()
    taken = time.process_time() - began
    began = time.process_time()
    for step in range(4):
        loop.step(*(loop.batch(half, torch.arange(32), step) for half in loop.halves))
    assert taken < 0.5 + time.process_time() - began  # comparing all with all takes seconds


def test_widths_are_no_decisions_of_a_runner_up() -> None:
    space = Wide()
    kept = [{"after": (o,), "channels": NAMES[:n]} for o, n in (("relu", 3), ("tanh", 2))]
    found, other = (space.architecture(each) for each in kept)
    alone: Counter[Decisions] = Counter({(("channels", NAMES[:3]),): 5})
    both: Counter[Decisions] = Counter({found.kept: 6, other.kept: 3})
    counts = without({"channels"}, [alone, both])
    assert counts == [Counter({(("after", ("relu",)),): 6, (("after", ("tanh",)),): 3})]
    own, runner_up = likeliest(found, counts)
    assert own.architecture == found
    assert runner_up.architecture.options == {"after": ("tanh",), "channels": NAMES[:3]}
    assert runner_up.times_as_likely == pytest.approx(3 / 7, rel=1e-3)
