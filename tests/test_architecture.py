"""Choices say where they are made and of what family their options are; files give them back."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from standins.nested import build
from standins.toy import Toy

from ardor import spaces
from ardor.architecture import Choice, Place, against_odds, choices_from_json, choices_to_json
from ardor.errors import ArdorError
from ardor.spaces import Space
from ardor.spaces.cells import Cells
from ardor.spaces.nasbench201 import Nasbench201

SPACES = [
    spaces.of_function(build)(image=(1, 8, 8), classes=2),
    Cells(),
    Cells(layout="2N R", shared=False),
    Cells(ops="s1", states=4),
    Nasbench201(),
    Toy(),
]
WIDTH = Choice("conv1", "width", tuple(map(str, range(4096))), place=Place(title="net"))


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_choices_come_back_from_a_file(space: Space) -> None:
    written = json.dumps(choices_to_json(space.choices))
    assert choices_from_json(json.loads(written)) == space.choices


def test_of_a_width_only_the_number_of_options_is_written() -> None:
    (written,) = choices_to_json([WIDTH])
    assert written["options"] == 4096
    assert len(json.dumps(written)) < 300
    assert choices_from_json([written]) == (WIDTH,)


def test_an_individual_cell_says_its_kind_and_its_title() -> None:
    choices = Cells(layout="NRNN", shared=False).choices
    last = choices[-1]
    assert last.place == Place("normal3", "normal", "normal cell 3", joins=True, complete=True)
    assert (last.source, last.target) == (2, 3)
    assert {c.place.shrinks for c in choices if c.place.kind == "reduce"} == {True}
    inputs = [c for c in choices if c.kind == "edge"]
    assert all(c.source is None and c.target is not None for c in inputs)


def test_every_operation_has_the_family_that_it_is_defined_with() -> None:
    choice = Nasbench201().choices[0]
    assert choice.families == ("none", "skip", "conv", "conv", "pool")
    assert choice.family("avg_pool_3x3") == "pool"
    assert choice.family("warp") == WIDTH.family("1") == "other"


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.pop("place"),
        lambda c: c.update(name=3),
        lambda c: c.update(name="a.b"),
        lambda c: c.update(kind="look"),
        lambda c: c.update(kind=["op"]),
        lambda c: c.update(options=["one"]),
        lambda c: c.update(options="ab"),
        lambda c: c.update(options=5),
        lambda c: c.update(kind="width", options=["a", "b"]),
        lambda c: c.update(kind="width", options=10**15),
        lambda c: c.update(kind="width", options=True),
        lambda c: c.update(kind="width", options=-3),
        lambda c: c.update(copies=0),
        lambda c: c.update(copies=True),
        lambda c: c.update(source=2),
        lambda c: c.update(source=3),
        lambda c: c.update(source=0.5),
        lambda c: c.update(target=None),
        lambda c: c.update(target="2"),
        lambda c: c.update(families=["conv"]),
        lambda c: c.update(families=["warp"] * 10),
        lambda c: c.update(families=None),
        lambda c: c["place"].update(shrinks=1),
        lambda c: c["place"].update(title=None),
        lambda c: c["place"].pop("joins"),
        lambda c: c.update(place="normal"),
        lambda c: c.update(inside="ab"),
        lambda c: c.update(inside=["a"]),
        lambda c: c.update(inside=["a", 3]),
        lambda c: c.update(inside={}),
        lambda c: c.update(inside=["normal/0>2", "none"]),  # itself, or none before it
    ],
)
def test_forged_choices_are_one_line(change: Callable[[Any], Any]) -> None:
    entry = choices_to_json(Cells().choices)[1]
    change(entry)
    with pytest.raises(ArdorError, match="the choices of the architecture are broken: ") as error:
        choices_from_json([entry])
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("content", [None, {}, "x", [None], [[]], ["x"], [3]])
def test_what_is_no_list_of_choices_is_one_line(content: Any) -> None:
    with pytest.raises(ArdorError, match="the choices of the architecture are broken"):
        choices_from_json(content)


def test_what_a_choice_stands_in_comes_back_and_older_files_have_none_of_it() -> None:
    outer = Choice("outer", "op", ("a", "b"))
    inner = Choice("inner", "op", ("c", "d"), inside=("outer", "b"))
    written = json.loads(json.dumps(choices_to_json([outer, inner])))
    assert choices_from_json(written) == (outer, inner)
    with pytest.raises(ArdorError, match="'inner' stands in no option of a choice before it"):
        choices_from_json(written[::-1])
    for entry in written:
        del entry["inside"]
    assert [choice.inside for choice in choices_from_json(written)] == [None, None]


def test_two_choices_of_a_name_are_refused() -> None:
    entry = choices_to_json([WIDTH])[0]
    with pytest.raises(ArdorError, match="two have the same name"):
        choices_from_json([entry, entry])


def test_no_connection_is_never_the_likelier_option() -> None:
    options = ("left_out", "warp", "blur")
    choice = Choice("look", "op", options, families=("none", "other", "pool"))
    shares = {"look": {"left_out": 0.5, "warp": 0.2, "blur": 0.3}}
    assert not against_odds([choice], {"look": ("blur",)}, shares)
    (odd,) = against_odds([choice], {"look": ("warp",)}, shares)
    assert (odd.choice, odd.likelier, odd.likelier_probability) == ("look", "blur", 0.3)
