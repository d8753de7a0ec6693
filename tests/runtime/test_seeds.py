"""Three streams of random numbers: gates, data, and noise, which is all else."""

import torch

from ardor.runtime.device import Runtime
from ardor.runtime.seeds import Stream, Streams

CPU = torch.device("cpu")
ORDER: tuple[Stream, ...] = ("gates", "noise", "data", "gates", "gates", "data", "noise")


def drawn(streams: Streams, order: tuple[Stream, ...] = ORDER) -> dict[str, list[float]]:
    """Stream -> what is drawn of it, in that order."""
    found: dict[str, list[float]] = {"gates": [], "noise": [], "data": []}
    for name in order:
        with streams(name):
            found[name].append(torch.rand(()).item())
    return found


def test_what_one_stream_has_taken_changes_no_other() -> None:
    torch.manual_seed(0)
    mixed = drawn(Streams(CPU, gates=1, data=2))
    torch.manual_seed(0)
    apart = drawn(Streams(CPU, gates=1, data=2), tuple(sorted(ORDER)))
    assert mixed == apart
    assert len({number for numbers in mixed.values() for number in numbers}) == len(ORDER)


def test_each_stream_has_a_seed_of_its_own() -> None:
    torch.manual_seed(0)
    ours = drawn(Streams(CPU, gates=1, data=2))
    torch.manual_seed(5)
    theirs = drawn(Streams(CPU, gates=1, data=3))
    assert ours["gates"] == theirs["gates"]
    assert ours["data"] != theirs["data"]
    assert ours["noise"] != theirs["noise"]
    seeds = [drawn(Runtime.start("cpu", seed).streams) for seed in (7, 7, 8)]
    assert seeds[0] == seeds[1]
    assert all(seeds[0][name] != seeds[2][name] for name in seeds[0])


def test_streams_lie_in_one_another_and_an_error_leaves_them_in_order() -> None:
    torch.manual_seed(0)
    streams = Streams(CPU, gates=1, data=2)
    try:
        with streams("gates"):
            with streams("noise"):
                noise = [torch.rand(()).item()]
            gates = [torch.rand(()).item()]
            raise KeyError
    except KeyError:
        noise.append(torch.rand(()).item())
    with streams("gates"), streams("gates"):
        gates.append(torch.rand(()).item())
    torch.manual_seed(0)
    expected = drawn(Streams(CPU, gates=1, data=2), ("gates", "gates", "noise", "noise"))
    assert (noise, gates) == (expected["noise"], expected["gates"])


def test_a_trial_takes_no_numbers_from_gates_and_data() -> None:
    streams = Streams(CPU, gates=1, data=2)
    with streams.unchanged():
        first = drawn(streams, ("gates", "data"))
    assert drawn(streams, ("gates", "data")) == first


def test_states_are_put_back_as_far_as_they_are_there() -> None:
    streams = Streams(CPU, gates=1, data=2)
    drawn(streams)
    states = streams.states()
    assert sorted(states) == ["data-cpu", "gates-cpu"]
    later = drawn(streams, ("gates", "data"))
    other = Streams(CPU, gates=3, data=4)
    assert other.restore(states)
    assert drawn(other, ("gates", "data")) == later
    assert not Streams(CPU, gates=3, data=4).restore({"gates-cpu": states["gates-cpu"]})
