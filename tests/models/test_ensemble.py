"""Networks that predict together: the mean of their probabilities, saved and loaded equal."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from standins.user import edit, put

from ardor.data import Normalise
from ardor.errors import ArdorError
from ardor.models import ensemble
from ardor.models.card import card
from ardor.models.ensemble import MOST, Ensemble, together
from ardor.models.model import Model
from ardor.models.scores import scores
from ardor.settings.sections import SearchConfig
from ardor.spaces.cells import Cells

SPACE = Cells(image=(1, 8, 8), classes=3, layout="R", states=1, channels=4, ops="darts")
PIXELS = torch.arange(5 * 64).reshape(5, 1, 8, 8) % 256


def network(space: Cells = SPACE, classes: tuple[str, ...] = ("a", "b", "c")) -> Model:
    found = space.strongest({c.name: torch.rand(1, 1, len(c.options)) for c in space.choices})
    net, channels = space.build(found), space.image[0]
    torch.nn.init.normal_(net.classify.weight, 0, 6.0)  # type: ignore[union-attr, arg-type]
    normalise = Normalise(torch.full((channels,), 120.0), torch.full((channels,), 60.0))
    return Model(net, normalise, found, classes).eval()


@pytest.fixture
def three() -> list[Model]:
    return [network() for _ in range(3)]


def test_the_probabilities_are_the_mean_of_those_of_the_networks(three: list[Model]) -> None:
    found = Ensemble(tuple(three)).probabilities(PIXELS)
    each = [model.probabilities(PIXELS) for model in three]
    assert not torch.allclose(each[0], each[1], atol=1e-2)
    assert torch.allclose(found, (each[0] + each[1] + each[2]) / 3, atol=1e-6)
    assert torch.equal(Ensemble((three[0],)).probabilities(PIXELS), each[0])


def test_the_logits_of_all_together_are_the_log_of_the_mean() -> None:
    logits = torch.randn(3, 7, 4, dtype=torch.float64) * 5
    mean = logits.softmax(2).mean(0)
    assert torch.allclose(together(list(logits)).exp(), mean)
    assert torch.allclose(together(list(logits)).softmax(1), mean)
    labels = torch.arange(7) % 4
    nll = -mean[torch.arange(7), labels].log().mean().item()
    assert scores(together(list(logits)), labels)["nll"] == pytest.approx(nll)


def test_a_share_too_small_for_its_number_has_a_finite_logit() -> None:
    sure, surer = (torch.tensor([[0.0, -apart]]) for apart in (300.0, 400.0))
    assert torch.allclose(together([sure, surer]), torch.tensor([[0.0, -300 - math.log(2)]]))


def test_saved_and_loaded_they_are_equal(three: list[Model], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    ensemble.save(three, folder)
    assert ensemble.saved(folder) == 3
    for count in (1, 2, 3):
        expected = Ensemble(tuple(three[:count])).probabilities(PIXELS)
        assert torch.equal(ensemble.load(folder, count).probabilities(PIXELS), expected)
    assert torch.equal(Model.load(folder).probabilities(PIXELS), three[0].probabilities(PIXELS))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    assert "`ardor predict model --ensemble 3 photo.jpg`" in (folder / "README.md").read_text()
    ensemble.save(three[:1], folder)  # pruned again without the others
    assert ensemble.saved(folder) == 1
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
    ]
    assert (folder / "README.md").read_text() == card("model", three[0])


def test_one_that_cannot_be_written_leaves_all_as_they_were(
    three: list[Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    ensemble.save(three[:2], folder)
    save = Model.save

    def failing(model: Model, place: Path, *, card: str) -> None:
        if place.name == "3":
            raise ArdorError("cannot write", "free some space")
        save(model, place, card=card)

    monkeypatch.setattr(Model, "save", failing)
    with pytest.raises(ArdorError, match="cannot write"):
        ensemble.save(three[::-1], folder)
    assert ensemble.saved(folder) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert torch.equal(
        ensemble.load(folder, 2).models[1].probabilities(PIXELS), three[1].probabilities(PIXELS)
    )


@pytest.mark.parametrize(("count", "most"), [(4, "1 to 3"), (0, "1 to 3"), (-1, "1 to 3")])
def test_so_many_are_not_there(count: int, most: str, three: list[Model], tmp_path: Path) -> None:
    ensemble.save(three, tmp_path / "model")
    with pytest.raises(ArdorError, match=f"ensemble = {count} must be {most}: so many") as error:
        ensemble.load(tmp_path / "model", count)
    assert "search.ensemble" in error.value.hint


def a_file(members: Path) -> None:
    (members / "2").rename(members.parent / "aside")
    members.rmdir()
    members.write_text("hello")


def an_empty_folder(members: Path) -> None:
    for path in (members / "2").iterdir():
        path.unlink()


def a_link(members: Path) -> None:
    outside = members.parent.parent / "outside"
    members.rename(outside)
    members.symlink_to(outside)


def a_linked_file(members: Path) -> None:
    weights, outside = members / "2" / "model.safetensors", members.parent.parent / "outside"
    weights.rename(outside)
    weights.symlink_to(outside)


def other_classes(members: Path) -> None:
    network(classes=("a", "c", "b")).save(members / "2", card="")


def more_classes(members: Path) -> None:
    space = replace(SPACE, classes=4)
    network(space, ("a", "b", "c", "d")).save(members / "2", card="")


def other_images(members: Path) -> None:
    network(replace(SPACE, image=(3, 8, 8))).save(members / "2", card="")


def other_weights(members: Path) -> None:
    network(replace(SPACE, channels=6)).save(members / "aside", card="")
    (members / "aside" / "model.safetensors").rename(members / "2" / "model.safetensors")


def other_settings(members: Path) -> None:
    edit(members / "2" / "config.json", put("architecture", "settings", "channels", value="x"))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (a_file, "ensemble = 2 must be 1"),
        (an_empty_folder, "no file"),
        (a_link, "is a link that leads out of"),
        (a_linked_file, "is a link that leads out of"),
        (other_classes, "is for classes"),
        (more_classes, "is for classes"),
        (other_images, r"is for images \(3, 8, 8\); must be for \(1, 8, 8\)"),
        (other_weights, "do not fit its config.json"),
        (other_settings, "channels"),
    ],
)
def test_members_changed_by_hand_are_not_used(
    change: Callable[[Path], None], error: str, three: list[Model], tmp_path: Path
) -> None:
    ensemble.save(three[:2], tmp_path / "model")
    change(tmp_path / "model" / "members")
    with pytest.raises(ArdorError, match=error) as raised:
        ensemble.load(tmp_path / "model", 2)
    assert raised.value.hint
    assert "\n" not in str(raised.value)


def test_no_more_are_asked_for_than_a_ranking_knows_exactly() -> None:
    assert SearchConfig(ensemble=MOST).ensemble == MOST == 10
    with pytest.raises(ValueError, match="less than or equal to 10"):
        SearchConfig(ensemble=MOST + 1)
