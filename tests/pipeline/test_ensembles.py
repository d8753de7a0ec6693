"""Runs that keep several networks of their search, to predict together, as a person makes them."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from standins.user import done, edit, files, pictures, png, put, refused, without

import ardor
from ardor.data import read_pictures
from ardor.models import ensemble
from ardor.pipeline.members import members
from ardor.pipeline.run import Run

SETTINGS = {
    "space.channels": "2",
    "search.epochs": "1",
    "search.batch": "256",
    "search.candidates": "6",
    "search.ensemble": "3",
    "train.start": "search",
    "train.epochs": "0",
    "train.variational": "false",
    "export.formats": "[]",
}
SET = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
DIGITS = ["digits", "--method", "pgnas", "--space", "residual", *SET]
SCORES = ("accuracy", "nll", "brier", "ece")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every stage done, whose three best candidates predict together."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    done("run", *DIGITS, "--run", folder)
    return folder


@pytest.fixture
def run(tmp_path: Path, whole: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def metrics(run: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((run / "metrics.json").read_text())
    return found


def test_several_predict_together_wherever_the_model_is(whole: Path, tmp_path: Path) -> None:
    picture = png(tmp_path / "new.png", 8, 8)
    copied = shutil.copytree(whole / "model", tmp_path / "elsewhere" / "mine")
    said = done("predict", whole, picture, "--ensemble", "2", "--json")
    assert said.err == f"by 2 networks of {whole} together\n"
    assert done("predict", copied, picture, "--ensemble", "2", "--json").out == said.out
    (found,), (alone,) = (
        json.loads(done("predict", whole, picture, "--json", *more).out)
        for more in (("--ensemble", "2"), ())
    )
    assert (found["networks"], alone["networks"]) == (2, 1)
    pixels = read_pictures([picture], (1, 8, 8))[0]
    each = [ardor.load(place).probabilities(pixels) for place in (whole, copied / "members" / "2")]
    assert not torch.equal(*each)
    mean = ((each[0] + each[1]) / 2)[0].tolist()
    assert list(found["probabilities"].values()) == pytest.approx(mean, abs=1e-6)
    assert list(alone["probabilities"].values()) == pytest.approx(each[0][0].tolist(), abs=1e-6)
    both = ardor.load(whole, ensemble=2)
    assert both.probabilities(pixels)[0].tolist() == pytest.approx(mean, abs=1e-6)
    assert both.classes == tuple(map(str, range(10)))


def test_all_are_scored_together_beside_the_first_alone(run: Path) -> None:
    before, opened = metrics(run), Run.open(run)
    assert before["ensemble_networks"] == 3
    images = opened.dataset.test
    shares = ardor.load(run, ensemble=3).probabilities(images.pixels)
    right = (shares.argmax(1) == images.labels).float().mean().item()
    nll = -shares[torch.arange(len(images)), images.labels].log().mean().item()
    assert before["ensemble_test_accuracy"] == pytest.approx(right)
    assert before["ensemble_test_nll"] == pytest.approx(nll, rel=1e-4)
    assert before["ensemble_test_nll"] != before["test_nll"]
    told = done("evaluate", run)
    assert f"{right:.2%} ({before['test_accuracy']:.2%} alone)" in told.out
    assert "3 networks together" in (run / "report.html").read_text()
    assert "--ensemble 3" in (run / "model" / "README.md").read_text()
    assert {key for key in before if key.startswith("ensemble_")} == {
        "ensemble_networks",
        *(f"ensemble_test_{name}" for name in SCORES),
    }
    shutil.rmtree(run / "model" / "members")
    done("evaluate", run)
    assert not [key for key in metrics(run) if key.startswith("ensemble_")]
    assert "--ensemble" not in (run / "model" / "README.md").read_text()


def test_the_first_is_built_as_the_others_are(run: Path) -> None:
    """The run has trained for no epochs, and pruned nothing: it must be a member of itself."""
    opened = Run.open(run)
    first = json.loads((run / "architecture.json").read_text())["kept"]
    edit(run / "architecture.json", put("members", value=[first, first]))
    pixels = opened.dataset.test.pixels
    for member in members(opened):
        assert torch.equal(member.probabilities(pixels), opened.model().probabilities(pixels))


def test_pruned_again_they_are_made_again_and_their_scores_forgotten(run: Path) -> None:
    before = files(run / "model")
    done("prune", run, "--threshold", "-1")
    after = files(run / "model")
    assert not [key for key in metrics(run) if key.startswith("ensemble_")]
    same = {name for name in before if before[name] == after[name]}
    assert {name for name in before if name.startswith("members/")} <= same
    assert "model.safetensors" not in same
    assert ensemble.saved(run / "model") == 3


def test_a_winner_that_learns_on_leaves_the_others_as_they_were_found(
    run: Path, tmp_path: Path
) -> None:
    done("search", *DIGITS, "--run", "trained")
    done("train", "trained", "--epochs", "1")
    done("prune", "trained")
    one, other = (files(place / "model") for place in (run, Path("trained")))
    same = {name for name in one if one[name] == other[name]}
    assert "model.safetensors" not in same
    assert {name for name in one if name.startswith("members/")} <= same


def test_stopped_anywhere_and_resumed_the_members_are_the_same(run: Path) -> None:
    expected = files(run / "model")
    (run / "architecture.json").unlink()  # as if killed within the search
    for name in ("trained", "model", "export"):
        shutil.rmtree(run / name)
    for name in ("metrics.json", "report.html"):
        (run / name).unlink()
    done("resume", run)
    assert files(run / "model") == expected
    (run / "model" / ".4242-0-0.x.part").mkdir()
    edit(run / "metrics.json", put("unfinished", value={"prune": 1}))  # killed within the pruning
    done("resume", run)
    again = {name: text for name, text in files(run / "model").items() if ".part" not in name}
    assert again == expected


def test_a_run_without_members_is_as_before(tmp_path: Path) -> None:
    settings = ("--set", "search.ensemble=1")
    done("run", *DIGITS, *settings, "--run", "one")
    assert "members" not in json.loads(Path("one", "architecture.json").read_text())
    assert sorted(path.name for path in Path("one", "model").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
    ]
    assert not [key for key in metrics(Path("one")) if key.startswith("ensemble_")]
    edit(Path("one", "config.json"), without("search", "ensemble"))  # as in a run of before
    picture = png(tmp_path / "new.png", 8, 8)
    before = files(Path("one"))
    for folder in ("one", "one/model"):
        refused(
            "predict", folder, picture, "--ensemble", "2",
            error="ensemble = 2 must be 1: so many networks are in 'one/model'",
            hint="--set search.ensemble=5",
        )  # fmt: skip
        done("predict", folder, picture, "--ensemble", "1")
    assert files(Path("one")) == before


def test_what_cannot_be_is_refused_before_the_search() -> None:
    def no(name: str, value: object, error: str, hint: str) -> None:
        refused("run", *DIGITS, "--set", f"{name}={value}", error=error, hint=hint)
        assert not Path("runs").exists()

    no("search.ensemble", 11, "search.ensemble = 11 must be less than or equal to 10", "settings")
    no("search.ensemble", 0, "search.ensemble = 0 must be", "settings")
    no("search.ensemble", 7, "must be at most search.candidates = 6", "search.candidates=50")
    no(
        "train.start", "scratch",
        "search.ensemble = 3 must be 1 with train.start = 'scratch'", "--set train.start=search",
    )  # fmt: skip


def test_what_comes_too_late_is_named(tmp_path: Path) -> None:
    done("search", *DIGITS, "--run", "begun")
    picture, before = png(tmp_path / "new.png", 8, 8), files(Path("begun"))
    refused("train", "begun", "--set", "train.start=scratch", error="search.ensemble = 3 must be 1")
    assert files(Path("begun")) == before
    done("train", "begun")
    refused(
        "predict", "begun", picture, "--ensemble", "2",
        error="ensemble = 2 must be 1", hint="ardor prune begun",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (3, "'members' must be a list"),
        ([3], "not an architecture"),
        ([{}], "decides none of them"),
        ([{"block1": ["branch3"]}], "does not belong to this space"),
    ],
)
def test_members_changed_by_hand_are_named(run: Path, value: object, error: str) -> None:
    edit(run / "architecture.json", put("members", value=value))
    before = files(run)
    refused("prune", run, "--threshold", "-1", error=error)
    kept = {name: text for name, text in files(run).items() if name in before}
    assert kept["model/model.safetensors"] == before["model/model.safetensors"]


def test_what_is_planted_in_a_run_is_not_followed(run: Path, tmp_path: Path) -> None:
    picture = png(tmp_path / "new.png", 8, 8)
    shutil.move(run / "model" / "members" / "2", tmp_path / "outside")
    (run / "model" / "members" / "2").symlink_to(tmp_path / "outside")
    error = "is a link that leads out of"
    refused("predict", run, picture, "--ensemble", "2", error=error)
    refused("predict", run / "model", picture, "--ensemble", "2", error=error)
    refused("evaluate", run, error=error)
    (run / "model" / "members" / "2").unlink()
    refused("predict", run, picture, "--ensemble", "2", error="ensemble = 2 must be 1")


def test_without_test_images_they_are_scored_on_held_out_ones(tmp_path: Path) -> None:
    data = pictures(tmp_path / "data", "a", "b", count=20)
    settings = ("--set", "data.test=0", "--set", "train.validation=0.5", "--set", "search.batch=4")
    done("run", data, *DIGITS[1:], *settings, "--run", "untested")
    found = metrics(Path("untested"))
    assert found["ensemble_networks"] == 3
    assert {f"ensemble_held_out_{name}" for name in SCORES} <= found.keys()
    assert "3 networks together" in done("evaluate", "untested").out


def test_where_fewer_candidates_differ_fewer_predict_together(tmp_path: Path) -> None:
    data = pictures(tmp_path / "data", "a", "b", count=20)
    cells = {"space.layout": "R", "space.states": "1", "space.channels": "2", "search.batch": "8"}
    few = [word for name in cells for word in ("--set", f"{name}={cells[name]}")]
    few += ["--set", "space.ops=skip_connect,max_pool_3x3", "--set", "search.ensemble=6"]
    said = done("run", data, "--method", "rsps", *SET, *few, "--run", "few")
    count = ensemble.saved(Path("few", "model"))
    assert 1 < count < 6
    assert f"networks to predict together: {count}, as no more were drawn" in said.err
    assert metrics(Path("few"))["ensemble_networks"] == count
