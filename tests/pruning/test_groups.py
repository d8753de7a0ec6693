"""Which weights leave a network together, for each kind of groups."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

from ardor.errors import ArdorError
from ardor.pruning.groups import KINDS, Groups, groups_of, weights_of

SHAPE = (2, 6, 6)


class Residual(nn.Module):
    """A stem, a block that is added to it, a depthwise layer, and answers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.inner, self.outer = nn.Conv2d(4, 3, 1), nn.Conv2d(3, 4, 1)
        self.deep = nn.Conv2d(4, 4, 3, groups=4, bias=False)
        self.head = nn.Linear(4, 5)

    def forward(self, images: Tensor) -> Tensor:
        x = self.norm(self.stem(images)).relu()
        x = self.deep(x + self.outer(self.inner(x).relu()))
        return self.head(x.mean((2, 3)))


class Joined(nn.Module):
    """Two layers side by side, whose channels are joined."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(2, 2, 1), nn.Conv2d(2, 3, 1)
        self.after, self.head = nn.Conv2d(5, 2, 1), nn.Linear(2, 3)

    def forward(self, images: Tensor) -> Tensor:
        joined = torch.cat([self.left(images), self.right(images)], 1).relu()
        return self.head(self.after(joined).mean((2, 3)))


class Strange(nn.Module):
    """Channels that are sorted, which nothing here knows of, come between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(2, 4, 1), nn.Conv2d(4, 3, 1)
        self.head = nn.Linear(3, 2)

    def forward(self, images: Tensor) -> Tensor:
        x = self.before(images).sort(1).values
        return self.head(self.after(x).mean((2, 3)))


def of(net: nn.Module, *kinds: str) -> list[Groups]:
    return groups_of(net, SHAPE, kinds)


def members(groups: Groups, net: nn.Module) -> dict[int, set[tuple[str, int, ...]]]:
    """Every group and the weights in it, one by one."""
    found: dict[int, set[tuple[str, int, ...]]] = {at: set() for at in range(groups.count)}
    for name, index in groups.index.items():
        weight = weights_of(net)[name]
        for place in torch.cartesian_prod(*map(torch.arange, weight.shape)).tolist():
            group = int(index.expand(weight.shape)[tuple(place)])
            if group < groups.count:
                found[group].add((name, *place))
    return found


def layers_in(members: set[tuple[str, int, ...]], along: int) -> dict[str, set[int]]:
    """The layers of a group, and which of their outputs (0) or inputs (1) are in it."""
    found: dict[str, set[int]] = {}
    for name, *place in members:
        found.setdefault(name, set()).add(place[along])
    return found


def test_a_filter_is_a_channel_in_every_layer_that_adds_to_it() -> None:
    net = Residual()
    (groups,) = of(net, "filters")
    found = [layers_in(each, 0) for each in members(groups, net).values()]
    expected = [{"stem": {c}, "outer": {c}, "deep": {c}} for c in range(4)]
    expected += [{"inner": {c}} for c in range(3)]
    assert len(found) == len(expected)
    assert all(each in expected for each in found)


def test_shifts_and_scales_leave_with_their_channel() -> None:
    net = Residual()
    (groups,) = of(net, "filters")
    stem = groups.index["stem"].flatten()
    for name in ("norm.weight", "norm.bias", "outer.bias"):
        assert torch.equal(groups.shifts[name], stem)
    assert "head.bias" not in groups.shifts or (groups.shifts["head.bias"] == 7).all()


def test_channels_are_what_reads_them_and_those_of_images_stay() -> None:
    net = Residual()
    (groups,) = of(net, "channels")
    found = [layers_in(each, 1) for each in members(groups, net).values()]
    # The stream between the layers is one: what reads it before and after the depthwise layer.
    expected = [{"inner": {c}, "head": {c}} for c in range(4)] + [{"outer": {c}} for c in range(3)]
    assert len(found) == len(expected)
    assert all(each in expected for each in found)


def test_joined_channels_stay_those_of_the_layer_that_makes_them() -> None:
    net = Joined()
    made, read = of(net, "filters", "channels")
    found = [layers_in(each, 0) for each in members(made, net).values()]
    expected = [{"left": {0}}, {"left": {1}}, {"right": {0}}, {"right": {1}}, {"right": {2}}]
    assert all(each in found for each in [*expected, {"after": {0}}, {"after": {1}}])
    assert len(found) == 7
    readers = [layers_in(each, 1) for each in members(read, net).values()]
    assert all({"after": {c}} in readers for c in range(5))
    assert {c for each in readers for c in each.get("head", ())} == {0, 1}


@pytest.mark.parametrize("kind", ["filters", "rows"])
def test_answers_and_what_an_unknown_layer_is_given_are_in_no_group(kind: str) -> None:
    net = Strange()
    found = of(net, kind)
    left = {name for groups in found for each in members(groups, net).values() for name, *_ in each}
    assert left == ({"after"} if kind == "filters" else set())


def test_rows_and_columns_are_of_linear_maps_and_shapes_of_convolutions() -> None:
    net = nn.Sequential(
        nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(75, 4), nn.ReLU(), nn.Linear(4, 2)
    )
    rows, columns, shapes = of(net, "rows", "columns", "shapes")
    assert (rows.count, columns.count, shapes.count) == (4, 75 + 4, 2 * 2 * 2)
    assert set(rows.index) == {"2"}
    assert all(len({place[1] for place in each}) == 1 for each in members(rows, net).values())
    assert all(len({place[2] for place in each}) == 1 for each in members(columns, net).values())
    for each in members(shapes, net).values():
        assert len({place[2:] for place in each}) == 1
        assert len(each) == 3  # a place in every filter


def test_a_layer_is_a_group_only_where_another_path_passes_by() -> None:
    net = Residual()
    (groups,) = of(net, "layers")
    assert set(groups.index) == {"inner", "outer"}
    assert of(Joined(), "layers")[0].count == 1  # one of two side by side
    assert not of(nn.Sequential(nn.Flatten(), nn.Linear(72, 3)), "layers")
    assert not of(Strange(), "layers")  # nothing passes by behind an unknown layer either


def test_taking_layers_out_for_a_look_leaves_the_network_as_it_is() -> None:
    net = Residual()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    of(net, *KINDS)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_each_weight_is_a_group_of_one() -> None:
    net = Residual()
    (groups,) = of(net, "weights")
    assert all(len(each) == 1 for each in members(groups, net).values())
    assert groups.count == sum(weight.numel() for weight in weights_of(net).values())


@pytest.mark.parametrize("kind", KINDS)
def test_sums_and_spread_are_what_loops_give(kind: str) -> None:
    net = Residual()
    for groups in of(net, kind):
        values = {name: torch.rand(weight.shape) for name, weight in weights_of(net).items()}
        inside = members(groups, net)
        sums = [sum(float(values[n][tuple(at)]) for n, *at in inside[g]) for g in inside]
        assert groups.sums(values).tolist() == pytest.approx(sums, rel=1e-5)
        assert groups.sizes(values).tolist() == [len(each) for each in inside.values()]
        numbers = torch.rand(groups.count)
        check_spread(groups.spread(numbers, 7.0), numbers, inside, values)


def check_spread(
    spread: Mapping[str, Tensor],
    numbers: Tensor,
    inside: Mapping[int, set[tuple[str, int, ...]]],
    like: Mapping[str, Tensor],
) -> None:
    whole = {name: each.expand(like[name].shape).clone() for name, each in spread.items()}
    for group, places in inside.items():
        for name, *place in places:
            assert whole[name][tuple(place)] == numbers[group]
            whole[name][tuple(place)] = 7.0
    assert all((each == 7.0).all() for each in whole.values())


@pytest.mark.parametrize(
    ("kinds", "words"), [([], "must name"), (["filter"], "unknown kind of group")]
)
def test_a_kind_that_is_none_is_a_line(kinds: list[str], words: str) -> None:
    with pytest.raises(ArdorError, match=words) as caught:
        of(Residual(), *kinds)
    assert "filters" in caught.value.hint
