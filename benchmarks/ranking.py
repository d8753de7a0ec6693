"""Candidates ranked as Ardor does it, against the whole supernet under masks on all images.

    python benchmarks/ranking.py RUN RESULT [--candidates 500]

RUN holds a finished search with `search.statistics` "posterior". Both ways score the same draws,
with the same weights and statistics, in turn, block after block; CPU seconds on one thread. What
Ardor needs to find the hard images is in the time of its first block.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from curvature import timed

from ardor import methods
from ardor.architecture import Architecture
from ardor.bench.earlier import portable
from ardor.models.scores import logits_of, scores
from ardor.pipeline.resolve import unnamed
from ardor.pipeline.run import Run
from ardor.runtime.files import write_json
from ardor.runtime.origin import about
from ardor.searching.loop import SearchLoop, halves
from ardor.searching.ranking import Ranking, bar
from ardor.spaces import network_of

BLOCKS = 5
Found = list[list[float]]  # for each candidate its accuracy and nll, or nothing


def searched(run: Run) -> SearchLoop:
    """The search of a run, as it ended."""
    runtime, space = run.runtime(), run.space()
    method = methods.make(run.config.method["name"], space, unnamed(run.config.method))
    config = run.config.search
    parts = halves(run.dataset.train, config, runtime.seed)
    loop = SearchLoop(space, method, parts, config, run.folder, runtime)
    loop.run()
    return loop


def plainly(ranking: Ranking) -> Callable[[Architecture], list[float]]:
    """Scores a candidate by the whole supernet under its masks, on all images."""
    space, images = ranking.method.space, ranking.held_out.some()
    whole = space.subset({c.name: torch.ones(1, 1, len(c.options)) for c in space.choices})
    runtime = ranking.stage.runtime
    net = network_of(space, whole, as_searched=True)
    net.load_state_dict({**ranking.net.state_dict(), **ranking.statistics}, strict=False)
    net = runtime.place(net)

    def score(architecture: Architecture) -> list[float]:
        masks = space.masks(architecture)
        logits = logits_of(net, images, ranking.held_out.normalise, runtime, masks)
        found = scores(logits, images.labels)
        return [found["accuracy"], found["nll"]]

    return score


def blocks(ranking: Ranking, drawn: Sequence[Architecture]) -> Iterator[dict[str, Any]]:
    """Each block of candidates in both ways: CPU seconds, and what was found."""
    score, ours, plain = plainly(ranking), Found(), Found()
    kept: dict[str, Any] = {}

    def fast(block: Sequence[Architecture]) -> None:
        if not ours:
            kept["images"] = ranking.images(drawn)
        for each in block:
            found = ranking.scored(each, kept["images"], bar=bar(ours, ranking.top))
            ours.append([] if found is None else [found["accuracy"], found["nll"]])

    size = -(-len(drawn) // BLOCKS)
    for at in range(0, len(drawn), size):
        block = drawn[at : at + size]
        plain_seconds = timed(lambda: plain.extend(score(each) for each in block))  # noqa: B023
        fast_seconds = timed(lambda: fast(block))  # noqa: B023
        yield {
            "candidates": len(block),
            "plain_seconds": plain_seconds,
            "seconds": fast_seconds,
            "plain_winner": first(plain),
            "winner": first(ours),
            "to_the_end": sum(map(bool, ours[at:])),
        }


def first(found: Found) -> int:
    """The draw that is best so far."""
    return min((-pair[0], pair[1], at) for at, pair in enumerate(found) if pair)[2]


def main() -> None:
    """Measures, prints, and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--candidates", type=int, default=500)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    run = Run.open(asked.run)
    loop = searched(run)
    ranking = loop.ranking(loop.method)
    ranking.statistics = ranking.measured()
    drawn = [*dict.fromkeys(loop.method.draw(asked.candidates))]
    runs = [{"seed": run.config.seed, **block} for block in blocks(ranking, drawn)]
    result = {
        **about(f"python benchmarks/ranking.py RUN {asked.result}"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "bench": "ranking",
        "threads": 1,
        "settings": portable(run.config),
        "images": len(loop.held_out),
        "table": [row(runs)],
        "runs": runs,
    }
    print(result["table"])
    write_json(asked.result, result)


def row(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Candidates a second in both ways, their ratio, and whether the winner is the same."""
    count = sum(one["candidates"] for one in runs)
    ratios = [one["plain_seconds"] / one["seconds"] for one in runs]
    plain, ours = (sum(one[key] for one in runs) for key in ("plain_seconds", "seconds"))
    return {
        "candidates": count,
        "plain_a_second": count / plain,
        "a_second": count / ours,
        "ratio": plain / ours,
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "ratio_median": statistics.median(ratios),
        "to_the_end": sum(one["to_the_end"] for one in runs),
        "same_winner": runs[-1]["winner"] == runs[-1]["plain_winner"],
    }


if __name__ == "__main__":
    main()
