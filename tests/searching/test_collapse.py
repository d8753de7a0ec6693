"""What is called a collapse, and how much the curvature has grown."""

import math

import pytest
import torch
from standins.drawn import CELLS
from standins.watched import OPS

from ardor.architecture import Architecture, Choice, Place
from ardor.layers.operations import families_of
from ardor.searching.collapse import OperationCounts, collapses, growth, kept_by
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import Nasbench201


def counts(operations: dict[str, int]) -> OperationCounts:
    """So many of each operation, one on an edge."""
    families: dict[str, int] = {}
    for family, count in zip(families_of(operations), operations.values(), strict=True):
        families[family] = families.get(family, 0) + count
    return OperationCounts(operations, sum(operations.values()), families)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({"normal": {"skip_connect": 7, "sep_conv_3x3": 1}}, "7 of 8 edges of the normal cell"),
        ({"normal": {"skip_connect": 5, "sep_conv_3x3": 3}}, None),
        ({"normal": {"skip_connect": 3}}, None),  # too few edges to say
        ({"normal": {"avg_pool_3x3": 3, "max_pool_3x3": 3, "sep_conv_3x3": 2}}, "6 of 8"),
        ({"normal": {"max_pool_3x3": 2, "skip_connect": 2}}, "are skip connections or pools"),
        (
            {"normal3": {"skip_connect": 4}},
            "4 of 4 edges of the normal cell 3 are skip connections",
        ),
        ({"": {"skip_connect": 6}}, "6 of 6 edges of the cell are skip connections"),
        ({"reduce": {"max_pool_3x3": 4}}, "4 of 4 edges of the reduction cell are pools"),
    ],
)
def test_what_counts_as_a_collapse(places: dict[str, dict[str, int]], expected: str | None) -> None:
    found = collapses({CELLS[name]: counts(ops) for name, ops in places.items()})
    assert bool(found) == (expected is not None)
    assert all(expected in said for said in found.values())


# Liu et al. 2019: what DARTS_V1 and DARTS_V2 in its code keep.
PUBLISHED = [
    (
        {"sep_conv_3x3": 5, "skip_connect": 3},
        {"max_pool_3x3": 4, "avg_pool_3x3": 1, "skip_connect": 3},
    ),
    (
        {"sep_conv_3x3": 5, "skip_connect": 2, "dil_conv_3x3": 1},
        {"max_pool_3x3": 5, "skip_connect": 3},
    ),
]


@pytest.mark.parametrize(("normal", "reduce"), PUBLISHED)
def test_cells_that_are_known_to_do_well_have_not_collapsed(
    normal: dict[str, int], reduce: dict[str, int]
) -> None:
    first, second = CELLS["normal"], CELLS["reduce"]
    assert not collapses({first: counts(normal), second: counts(reduce)})
    assert collapses({first: counts(reduce), second: counts(normal)}).keys() == {"normal"}
    assert collapses({first: counts(normal), second: counts({"skip_connect": 8})})


def test_numbers_of_what_is_kept() -> None:
    kept = counts({"skip_connect": 1, "max_pool_3x3": 1, "avg_pool_3x3": 1, "sep_conv_3x3": 1})
    expected = {"skip_share": 0.25, "pool_share": 0.5, "op_entropy": math.log(4)}
    assert kept.numbers() == pytest.approx(expected)
    assert counts({"sep_conv_3x3": 5}).numbers()["op_entropy"] == 0
    assert counts({}).numbers() == {"skip_share": 0, "pool_share": 0, "op_entropy": 0}


def test_a_family_of_ones_own_counts() -> None:
    place = Place("", "", "net")
    choices = [
        Choice(f"layer{at}", "op", ("straight", "mb3"), 1, place, at, at + 1, ("skip", "separable"))
        for at in range(8)
    ]
    found = []
    for straight in (5, 7):
        kept = {c.name: ("straight" if at < straight else "mb3",) for at, c in enumerate(choices)}
        found.append(collapses(kept_by(choices, Architecture.of("lab.mine", {}, kept))))
    assert found == [{}, {"": "7 of 8 edges of the net are skip connections"}]


def test_edges_with_several_operations_are_counted_once() -> None:
    space = Cells(image=(1, 8, 8), classes=2, layout="NR", states=2, channels=2, ops=OPS)
    ops = [choice for choice in space.choices if choice.kind == "op"]
    scores = {c.name: torch.tensor([[[0.0, 0.0, 0.9, 0.9]]]) for c in ops}
    places = kept_by(ops, space.subset(scores))
    (normal,) = (kept for place, kept in places.items() if place.name == "normal")
    assert normal == OperationCounts(
        {"max_pool_3x3": 5, "skip_connect": 5}, 5, {"pool": 5, "skip": 5}
    )
    said = "10 of 10 operations of the normal cell are skip connections or pools"
    assert collapses(places) == {"normal": said}


@pytest.mark.parametrize(
    ("curvatures", "expected"),
    [
        ([1.0] * 5 + [1.4] * 5, 1.4),
        ([9.0] + [1.0] * 5 + [1.4] * 5, 1.4),  # no more than ten count
        ([1.0] * 5 + [1.3] * 5, None),  # not past 1 / 0.75
        ([1.0] * 4 + [2.0] * 5, None),
        ([-1.0] + [1.0] * 4 + [2.0] * 5, None),
    ],
)
def test_growth_of_the_curvature(curvatures: list[float], expected: float | None) -> None:
    assert growth(curvatures) == (None if expected is None else pytest.approx(expected))


def test_names_of_cells() -> None:
    names = [
        [place.title for place in dict.fromkeys(choice.place for choice in space.choices)]
        for space in (Cells(layout="NR"), Cells(layout="RN", shared=False), Nasbench201())
    ]
    assert names == [
        *(["normal cell", "reduction cell"], ["reduction cell 0", "normal cell 1"], ["cell"])
    ]
